"""What the client gets: an answer with our headers, or a problem."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencegate.core.model import Go, Refuse, Released, Replay, Superseded
from fencegate.core.outcomes import (
    Answer,
    Doubt,
    Headers,
    NotSent,
    Outcome,
    OutcomeUnknown,
    RefusedBeforeWork,
)
from fencegate.core.reasons import Reason
from fencegate.gateway import problems
from fencegate.gateway.order import Order
from fencegate.gateway.problems import Problem
from fencegate.gateway.settling import Recorded

UNKNOWN = (b"fencegate-outcome", b"unknown")
UNRECORDED = (b"fencegate-outcome", b"unrecorded")
# Fields that were meant for the first caller's connection or session only.
NOT_REPLAYED = frozenset({b"set-cookie"})


@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """A whole answer to the client, and what the log says of it. `decision` is None on our own
    paths."""

    decision: str | None
    status: int
    headers: Headers
    body: bytes
    code: str | None = None
    high_water: int | None = None
    attempt: int | None = None
    outcome: str | None = None
    settlement: str | None = None
    proxy_status: bytes | None = None

    def __repr__(self) -> str:
        return f"Reply({self.decision}, {self.status}, {self.code}, {len(self.body)} bytes)"


def replayed(order: Order, replay: Replay) -> Reply:
    """The first answer once more, marked, without its cookies."""
    headers = tuple(h for h in replay.answer.headers if h[0].lower() not in NOT_REPLAYED)
    headers += ((b"idempotency-replayed", b"true"), (b"idempotent-replayed", b"true"))
    if replay.stale:
        headers += ((b"fencegate-fence", b"stale"),)
    if replay.matched_by_intent:
        headers += ((b"fencegate-matched-by", b"intent"),)
    answer = replay.answer
    high_water = replay.high_water if order.fence is not None else None
    return Reply("replayed", answer.status, headers, answer.body, high_water=high_water)


def refused(order: Order, refusal: Refuse) -> Reply:
    problem = problems.from_refusal(refusal, order)
    fenced = order.fence is not None
    return of_problem(problem, high_water=refusal.high_water if fenced else None)


def away(order: Order) -> Reply:
    """The ledger did not answer: nothing of this call was sent."""
    seen = "The ledger did not answer in time."
    return of_problem(problems.unread(Reason.LEDGER_UNAVAILABLE, seen, order.ref))


def busy(order: Order) -> Reply:
    """No room for one more call: refused before the ledger was asked."""
    assert order.route.limit is not None
    seen = f"{order.route.limit.calls} calls are on their way already."
    return of_problem(problems.unread(Reason.UPSTREAM_BUSY, seen, order.ref))


def of_problem(problem: Problem, high_water: int | None = None) -> Reply:
    return Reply(
        "refused",
        problem.status,
        problem.headers,
        problem.body,
        code=problem.reason.value,
        high_water=high_water,
    )


def responded(
    order: Order,
    go: Go,
    ended: Answer | NotSent | OutcomeUnknown,
    outcome: Outcome,
    recorded: Recorded,
) -> Reply:
    """What the first caller gets: the upstream's answer, or why there is none."""
    if isinstance(ended, Answer) and not _conflicts(outcome):
        reply = Reply("forwarded", ended.status, ended.headers, ended.body)
    else:
        reply = of_problem(_without_answer(order, outcome, recorded))
    return replace(
        reply,
        decision="refused" if isinstance(outcome, NotSent) else "forwarded",
        headers=(*reply.headers, *_marks(outcome, recorded)),
        high_water=go.high_water if order.fence is not None else None,
        attempt=go.number,
        outcome=_word(outcome),
        settlement=_settlement(recorded),
        proxy_status=_proxy_status(outcome),
    )


def passed(
    ended: Answer | NotSent | OutcomeUnknown,
    ref: str,
    decision: str = "passed",
    code: str | None = None,
) -> Reply:
    """The reply to a request that no guard was asked of, or that was only observed."""
    if isinstance(ended, Answer):
        return Reply(decision, ended.status, ended.headers, ended.body, code=code)
    if isinstance(ended, NotSent):
        problem = problems.unread(Reason.NOT_SENT, "The upstream was not reached.", ref)
    else:
        status = 504 if ended.evidence.doubt is Doubt.TIMEOUT else 502
        seen = "No complete answer came from the upstream."
        problem = problems.unread(Reason.OUTCOME_UNKNOWN, seen, ref, status=status)
    reply = replace(of_problem(problem), decision=decision, proxy_status=_proxy_status(ended))
    return reply if code is None else replace(reply, code=code)


def _without_answer(order: Order, outcome: Outcome, recorded: Recorded) -> Problem:
    match outcome, recorded.settlement:
        case NotSent(), Released(unknown=False):
            seen, sent = "No byte of this call was written.", False
            return problems.of_call(Reason.NOT_SENT, seen, order, status=502, sent=sent)
        case NotSent(), None:
            seen = "No byte of this call was written, and the ledger could not be told yet."
            return problems.of_call(Reason.NOT_SENT, seen, order, status=502, sent=None)
        case NotSent(), _:
            seen = "No byte of this attempt was written; an earlier one may have been sent."
        case OutcomeUnknown(evidence=evidence), _ if evidence.doubt is Doubt.TIMEOUT:
            seen = "The call was sent; no answer came in time."
            return problems.of_call(Reason.OUTCOME_UNKNOWN, seen, order, status=504, sent=True)
        case OutcomeUnknown(evidence=evidence), _ if _conflicts(outcome):
            seen = f"The upstream answered {evidence.status}: an earlier attempt may be running."
            return problems.of_call(Reason.OUTCOME_UNKNOWN, seen, order, status=409, sent=True)
        case _:
            seen = "The call was sent; its answer was cut off or broken."
    return problems.of_call(Reason.OUTCOME_UNKNOWN, seen, order, status=502, sent=True)


def _marks(outcome: Outcome, recorded: Recorded) -> Headers:
    if recorded.settlement is None or isinstance(recorded.settlement, Superseded):
        return (UNRECORDED,)
    back = isinstance(recorded.settlement, Released) and recorded.settlement.unknown
    return (UNKNOWN,) if back or isinstance(outcome, OutcomeUnknown) else ()


def _conflicts(outcome: Outcome) -> bool:
    return (
        isinstance(outcome, OutcomeUnknown)
        and outcome.evidence.doubt is Doubt.CONFLICT_WITH_EARLIER
    )


def _word(outcome: Outcome) -> str:
    match outcome:
        case NotSent():
            return "not_sent"
        case OutcomeUnknown():
            return "unknown"
        case RefusedBeforeWork():
            return "refused_before_work"
        case _:
            return "responded"


def _settlement(recorded: Recorded) -> str:
    if recorded.settlement is None:
        return "unrecorded"
    return type(recorded.settlement).__name__.lower()


def _proxy_status(outcome: Outcome) -> bytes | None:
    """RFC 9209 section 2.3: the error types that fit what was seen."""
    match outcome:
        case NotSent():
            return b"fencegate; error=destination_unavailable"
        case OutcomeUnknown(evidence=evidence):
            match evidence.doubt:
                case Doubt.TIMEOUT:
                    return b"fencegate; error=http_response_timeout"
                case Doubt.CONNECTION_LOST:
                    return b"fencegate; error=connection_terminated"
                case Doubt.BROKEN_ANSWER:
                    return b"fencegate; error=http_protocol_error"
                case _:
                    return None
        case _:
            return None
