"""The way of one call: through its gateway, and what the upstream makes of it.

`Ways.of` names every step that the scheduler may let one call take next. A gateway that is
paused, slow or partitioned is one whose steps are not taken while time goes on; one that has
crashed takes none. What a step means to other calls is `world`'s matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fencegate.core.fingerprint import PARTS, Fingerprint, Scheme
from fencegate.core.model import (
    Asked,
    AttemptId,
    Call,
    EntityId,
    Go,
    Held,
    Probe,
    RecordId,
    Refuse,
    Released,
    Replay,
    Superseded,
    Wait,
    WaitFor,
)
from fencegate.core.outcomes import (
    Answer,
    Doubt,
    Evidence,
    NotSent,
    Outcome,
    OutcomeUnknown,
    RefusedBeforeWork,
    Responded,
    Statuses,
    Streaming,
    TimedOut,
    Unsent,
    judge,
)
from fencegate.core.reasons import Reason
from fencegate.core.resolution import Probed
from tests.core.search.lane import (
    Cost,
    Lane,
    Reply,
    Spooled,
    Stride,
    over,
    settling,
)
from tests.core.search.scenarios import PROBE_AFTER, Planned, Scenario
from tests.core.search.store import FOR_EVER, Ledger, Moment, Step, Store, unknown_records

INVOICE = EntityId("default", "invoice:8812")
STREAM_HOLD = 1
TOO_MANY = Answer(429, (), b"slow down")
CONFLICT = Answer(409, (), b"this key is in progress")
MEANINGS = Statuses()

Space = tuple[str, str | None, str]
"""Upstream, caller, key: where there may be one effect. Not asked of `RecordId`, which is tried."""


def call_of(index: int, planned: Planned) -> Call:
    print_ = Fingerprint(Scheme(), (planned.request.encode(),) * len(PARTS))
    return Call(
        upstream="payments",
        caller=planned.caller,
        credential=planned.credential,
        entity=INVOICE,
        fence=planned.fence,
        key=planned.key,
        prints=(print_,),
        attempt=attempt_of(index, planned, 1),
    )


def space_of(id: RecordId) -> Space:
    return id.upstream, id.caller, id.key


def attempt_of(index: int, planned: Planned, number: int) -> AttemptId:
    return AttemptId(f"{planned.gateway}{index + 1}-{number}")


def answer_of(index: int) -> Answer:
    """What the upstream answers to whom it has done it for; it names that call."""
    return Answer(200, (), b"done for call %d" % (index + 1))


class Ways:
    """The ways of a scenario's calls."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.store = Store(scenario.terms)
        self.calls = tuple(call_of(i, planned) for i, planned in enumerate(scenario.calls))
        self.spaces: tuple[Space, ...] = tuple((c.upstream, c.caller, c.key) for c in self.calls)
        self.answers = tuple(answer_of(i) for i in range(len(self.calls)))

    def attempt(self, index: int, lane: Lane) -> AttemptId:
        return attempt_of(index, self.scenario.calls[index], lane.number)

    def home(self, index: int, lane: Lane) -> RecordId:
        return lane.home or self.calls[index].record_id

    def of(
        self, index: int, lane: Lane, ledger: Ledger, at: Moment, owner_done: bool
    ) -> Iterator[Stride]:
        """Every next step of one call. `owner_done`: the effect that it is a copy of is there."""
        match lane.phase:
            case "idle" | "asking":
                yield from self._ask(index, lane, ledger, at)
            case "unclear":
                yield from self._unclear(index, lane, ledger, at)
            case "waiting":
                yield from self._wait(index, lane, ledger, at)
            case "heard":
                yield self._believe(lane, ledger, at)
            case "admitted":
                yield from self._check(index, lane, ledger, at)
            case "cleared":
                yield self._write(lane, ledger, at)
            case "sent" | "listening":
                yield from self._listen(index, lane, ledger, at, owner_done)
            case "settling":
                yield from self._settle(index, lane, ledger, at)
            case "dead":
                yield from self._declared_gone(index, lane, ledger, at)
            case "over" | "probing":
                pass
        yield from self._upstream(lane, ledger)
        yield from self._left_behind(index, lane, ledger, at)

    # --- admission -------------------------------------------------------------------------

    def _call(self, index: int, number: int, asked: Asked) -> Call:
        attempt = attempt_of(index, self.scenario.calls[index], number)
        return replace(self.calls[index], attempt=attempt, asked=asked)

    def _admit(self, index: int, lane: Lane, ledger: Ledger, at: Moment) -> Step:
        call = self._call(index, lane.number, lane.asked)
        return self.store.admit(ledger, call, at)

    def _ask(self, index: int, lane: Lane, ledger: Ledger, at: Moment) -> Iterator[Stride]:
        step = self._admit(index, lane, ledger, at)
        yield self._heard(lane, step, at, "asks")
        unclear = lane._replace(phase="unclear", on=None)
        yield Stride(
            f"asks; the ledger says {word_of(step)}, which is lost",
            unclear,
            step.after,
            step,
            cost="lost_acks",
        )
        late = unclear._replace(late=(lane.number, lane.asked))
        yield Stride("asks; the question is held up", late, ledger, cost="lost_acks")

    def _unclear(self, index: int, lane: Lane, ledger: Ledger, at: Moment) -> Iterator[Stride]:
        step = self._admit(index, lane, ledger, at)
        yield self._heard(lane, step, at, "asks again under the same attempt")
        undo = Spooled(NotSent(Unsent.ACKNOWLEDGEMENT_UNCLEAR))
        yield Stride(
            "gives up and spools an undo",
            over(lane)._replace(spool=undo),
            ledger,
            reply=Reply(reason=Reason.LEDGER_UNAVAILABLE),
        )

    def _wait(self, index: int, lane: Lane, ledger: Ledger, at: Moment) -> Iterator[Stride]:
        """Woken by a change that matters; or the wait is over, at any time."""
        woken = self._admit(index, lane, ledger, at)
        if not (isinstance(woken.verdict, Wait) and woken.verdict.on is lane.on):
            yield from self._ask(index, lane, ledger, at)
        if lane.on is WaitFor.KEY:
            asked = replace(lane.asked, duplicate_wait_over=True)
        else:
            asked = replace(lane.asked, predecessor_wait_over=True)
        lane = lane._replace(asked=asked)
        step = self._admit(index, lane, ledger, at)
        yield self._heard(lane, step, at, "has waited long enough, asks")

    def _heard(self, lane: Lane, step: Step, at: Moment, says: str) -> Stride:
        """The gateway acts on a decision."""
        reply: Reply | None = None
        match step.verdict:
            case Go() as go:
                window = FOR_EVER if go.window_left is None else at.own + go.window_left
                lane = lane._replace(
                    phase="admitted",
                    on=None,
                    sure_until=at.own + go.hold_left if go.hold_left > 0 else 0,
                    window_until=window,
                    earlier=go.earlier,
                    home=go.record_id,
                )
            case Wait() as wait:
                asked = replace(lane.asked, waited=True, found=wait.found)
                lane = lane._replace(phase="waiting", on=wait.on, asked=asked)
            case Probe() as probe:
                lane = lane._replace(
                    phase="probing", on=None, home=probe.record_id, probing=probe.attempt
                )
            case Replay(answer=answer):
                lane, reply = over(lane), Reply(answer, replayed=True)
            case Refuse(reason=reason, sent=sent):
                lane, reply = over(lane), Reply(reason=reason, sent=sent)
            case other:
                raise AssertionError(f"admission cannot say {other}")
        return Stride(f"{says}: {word_of(step)}", lane, step.after, step, reply)

    def _believe(self, lane: Lane, ledger: Ledger, at: Moment) -> Stride:
        """What the probe said enters the ledger; then the call is admitted once more."""
        assert lane.home is not None
        assert lane.probing is not None
        ago = at.own - lane.read_at
        verdict = Probed(lane.probing, lane.applied, PROBE_AFTER, ago)
        step = self.store.resolve(ledger, lane.home, verdict, at)
        again = lane._replace(
            phase="asking",
            asked=replace(lane.asked, probed=True),
            home=None,
            probing=None,
            applied=False,
            read_at=0,
        )
        said = "applied" if lane.applied else "not applied"
        return Stride(f"reports {said}: {word_of(step)}", again, step.after, step)

    # --- forwarding ------------------------------------------------------------------------

    def _check(self, index: int, lane: Lane, ledger: Ledger, at: Moment) -> Iterator[Stride]:
        if at.own < lane.sure_until and at.own < lane.window_until:
            yield Stride("finds its hold good", lane._replace(phase="cleared"), ledger)
        else:
            yield Stride("finds its hold bad", settling(lane, NotSent(Unsent.HOLD_BAD)), ledger)
        if "no connection" in self.scenario.troubles:
            not_sent = settling(lane, NotSent(Unsent.NO_CONNECTION))
            yield Stride("gets no connection", not_sent, ledger, cost="troubles")
        step = self.store.renew(ledger, self.home(index, lane), self.attempt(index, lane), at)
        sure = at.own + step.verdict.hold_left if isinstance(step.verdict, Held) else 0
        renewed = lane._replace(sure_until=sure)
        yield Stride(f"renews: {word_of(step)}", renewed, step.after, step)

    def _write(self, lane: Lane, ledger: Ledger, at: Moment) -> Stride:
        written = lane._replace(phase="sent", wire="pending", sure_until=0, window_until=FOR_EVER)
        return Stride("writes its first byte", written, ledger, did="byte")

    def _listen(
        self, index: int, lane: Lane, ledger: Ledger, at: Moment, owner_done: bool
    ) -> Iterator[Stride]:
        answer = self._answer(index, lane, owner_done)
        if answer is not None:
            outcome = judge(answer, MEANINGS, earlier=lane.earlier, answer_limit=100)
            yield Stride(f"gets answer {answer.status}", settling(lane, outcome), ledger)
        home, attempt = self.home(index, lane), self.attempt(index, lane)
        if lane.phase == "listening" or "connection lost" in self.scenario.troubles:
            doubt = Doubt.TIMEOUT if lane.phase == "listening" else Doubt.CONNECTION_LOST
            lost = settling(lane, OutcomeUnknown(Evidence(doubt)))
            cost: Cost | None = None if lane.phase == "listening" else "troubles"
            yield Stride("loses its connection", lost, ledger, cost=cost)
        if lane.phase == "sent" and "timeout" in self.scenario.troubles:
            reply = Reply(reason=Reason.OUTCOME_UNKNOWN, sent=True)
            listening = lane._replace(phase="listening", answered=True)
            step = self.store.settle(ledger, home, attempt, TimedOut(), at)
            yield Stride(
                "times out and listens on", listening, step.after, step, reply, cost="troubles"
            )
            yield Stride(
                "times out, cannot tell the ledger, listens on",
                listening,
                ledger,
                reply=reply,
                cost="ledger_cuts",
            )
        if "streams" in self.scenario.troubles and lane.wire == "performed" and not lane.yields_at:
            step = self.store.settle(ledger, home, attempt, Streaming(STREAM_HOLD), at)
            streaming = lane._replace(yields_at=at.own + STREAM_HOLD)
            yield Stride("gets the head of a stream", streaming, step.after, step)
        step = self.store.renew(ledger, home, attempt, at)
        yield Stride(f"renews: {word_of(step)}", lane, step.after, step)

    def _answer(self, index: int, lane: Lane, owner_done: bool) -> Answer | None:
        """What the upstream would answer now."""
        match lane.wire:
            case "performed":
                return self.answers[index]
            case "refused":
                return TOO_MANY
            case "copy":
                return self.answers[lane.copy_of] if owner_done else CONFLICT
            case _:
                return None

    # --- settlement ------------------------------------------------------------------------

    def _settle(self, index: int, lane: Lane, ledger: Ledger, at: Moment) -> Iterator[Stride]:
        assert lane.outcome is not None
        home, attempt = self.home(index, lane), self.attempt(index, lane)
        step = self.store.settle(ledger, home, attempt, lane.outcome, at)
        said = f"settles {type(lane.outcome).__name__}"
        after, reply = _settled(lane, step)
        yield Stride(f"{said}: {word_of(step)}", after, step.after, step, reply)
        spooled = over(lane)._replace(spool=Spooled(lane.outcome), home=lane.home)
        reply = None if lane.answered else _unrecorded(lane.outcome)
        yield Stride(
            f"{said}; the ledger is away", spooled, ledger, reply=reply, cost="ledger_cuts"
        )
        yield Stride(
            f"{said}: {word_of(step)}, which is lost",
            spooled,
            step.after,
            step,
            reply,
            cost="ledger_cuts",
        )

    def _left_behind(self, index: int, lane: Lane, ledger: Ledger, at: Moment) -> Iterator[Stride]:
        """What outlives its call: a spooled outcome, and a question that was held up."""
        if lane.spool is not None and lane.spool.due <= at.own:
            outcome, _, again = lane.spool
            home, attempt = self.home(index, lane), self.attempt(index, lane)
            step = self.store.settle(ledger, home, attempt, outcome, at)
            once_more = isinstance(outcome, NotSent) and not again
            left = None
            if once_more and step.verdict == Superseded(nothing=True):
                left = Spooled(outcome, at.own + self.scenario.terms.hold, again=True)
            says = f"has its spooled {type(outcome).__name__} written: {word_of(step)}"
            yield Stride(says, lane._replace(spool=left), step.after, step)
        if lane.late is not None:
            call = self._call(index, *lane.late)
            step = self.store.admit(ledger, call, at)
            says = f"has its late question answered, unheard: {word_of(step)}"
            yield Stride(says, lane._replace(late=None), step.after, step)

    def _declared_gone(
        self, index: int, lane: Lane, ledger: Ledger, at: Moment
    ) -> Iterator[Stride]:
        """An operator says that its process is gone, after it has renewed nothing for a hold."""
        if "gone" not in self.scenario.acts:
            return
        home, attempt = self.home(index, lane), self.attempt(index, lane)
        if not any(record.id == home for record in unknown_records(ledger, at.ledger)):
            return
        outcome = OutcomeUnknown(Evidence(Doubt.INTERRUPTED))
        step = self.store.settle(ledger, home, attempt, outcome, at)
        yield Stride(f"is declared gone: {word_of(step)}", lane, step.after, step)

    # --- the upstream ----------------------------------------------------------------------

    def _upstream(self, lane: Lane, ledger: Ledger) -> Iterator[Stride]:
        """It performs what was written to it, or refuses before work."""
        if lane.wire == "pending":
            performed = lane._replace(wire="performed")
            yield Stride("has its effect", performed, ledger, did="effect")
        under_way = lane.connected and lane.wire in ("pending", "copy")
        if "refused before work" in self.scenario.troubles and under_way:
            refused = lane._replace(wire="refused")
            yield Stride("is refused by the upstream", refused, ledger, cost="troubles")


def _settled(lane: Lane, step: Step) -> tuple[Lane, Reply | None]:
    """What becomes of a call whose outcome was written, and what its caller is told."""
    if lane.answered:
        return over(lane), None
    match lane.outcome, step.verdict:
        case Responded(kept=Answer() as answer), _:
            return over(lane), Reply(answer)
        case RefusedBeforeWork(), _:
            return over(lane), Reply(TOO_MANY)
        case NotSent(), Released(unknown=unknown):
            reason = Reason.OUTCOME_UNKNOWN if unknown else Reason.NOT_SENT
            return over(lane), Reply(reason=reason, sent=unknown)
        case NotSent(), _ if lane.number == 1:
            asked = Asked(waited=True)
            return Lane(phase="asking", number=2, asked=asked, late=lane.late), None
        case NotSent(), _:
            return over(lane), Reply(reason=Reason.OUTCOME_UNKNOWN)
        case _:
            return over(lane), Reply(reason=Reason.OUTCOME_UNKNOWN, sent=True)


def _unrecorded(outcome: Outcome) -> Reply:
    """What a caller is told while the settlement is in the spool."""
    match outcome:
        case Responded(kept=Answer() as answer):
            return Reply(answer)
        case RefusedBeforeWork():
            return Reply(TOO_MANY)
        case NotSent():
            return Reply(reason=Reason.LEDGER_UNAVAILABLE)
        case _:
            return Reply(reason=Reason.OUTCOME_UNKNOWN)


def word_of(step: Step) -> str:
    """The verdict in a few words."""
    match step.verdict:
        case Wait(on=on):
            return f"wait for {on}"
        case Refuse(reason=reason, sent=sent):
            return f"refused {reason}, sent {sent}"
        case Released(unknown=unknown):
            return "released, back to unknown" if unknown else "released, free"
        case verdict:
            state = getattr(verdict, "state", "")
            return f"{type(verdict).__name__} {state}".strip().lower()
