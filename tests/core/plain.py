"""The plain values of the table as the program's own, and the program's rulings as plain values."""

from __future__ import annotations

from functools import cache

from fencegate.core.fingerprint import PARTS, Fingerprint, Scheme
from fencegate.core.model import (
    Asked,
    Attempt,
    AttemptId,
    Call,
    Compare,
    Decision,
    Disowned,
    Done,
    Entity,
    EntityId,
    Expired,
    FenceLead,
    Freed,
    Go,
    Held,
    Lost,
    OnUnknown,
    Open,
    Other,
    Predecessor,
    Probe,
    Record,
    RecordId,
    Refuse,
    Released,
    Renewal,
    Replay,
    Ruling,
    Settled,
    Settlement,
    StaleReplay,
    State,
    Superseded,
    Terms,
    Unknown,
    Wait,
    word_of,
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
    Streaming,
    TimedOut,
    Unkept,
    Unsent,
)
from fencegate.core.resolution import (
    Abandoned,
    Applied,
    NotApplied,
    NotResolved,
    Probed,
    Resolution,
    Resolved,
    VerdictOn,
)
from tests.core.table import (
    HOLD,
    NOW,
    RETENTION,
    STREAM_HOLD,
    TIMEOUT,
    TOMBSTONE,
    Asks,
    Kept,
    Left,
    Lower,
    Route,
    Settles,
    Tried,
    Verdict,
)

ENTITY = EntityId("", "invoice:8812")
SAME = Fingerprint(Scheme(), tuple(bytes([number]) * 32 for number in range(len(PARTS))))
OTHER = Fingerprint(Scheme(), (*SAME.parts[:-1], b"\xff" * 32))
PRINTS = {"same": SAME, "other": OTHER}
ANSWER = Answer(201, ((b"content-type", b"text/plain"),), b"captured")
OUTCOMES: dict[str, Outcome] = {
    "answer": Responded(ANSWER),
    "other answer": Responded(Answer(402, (), b"declined")),
    "large answer": Responded(ANSWER.unkept()),
    "refused": RefusedBeforeWork(429),
    "not_sent": NotSent(Unsent.NO_CONNECTION),
    "timed_out": TimedOut(),
    "streaming": Streaming(STREAM_HOLD),
    "unknown": OutcomeUnknown(Evidence(Doubt.CONNECTION_LOST)),
}

# --- to the program ------------------------------------------------------------------------


@cache
def record_of(kept: Kept, id: RecordId) -> Record:
    return Record(
        id=id,
        credential=kept.owner,
        fingerprint=PRINTS[kept.sort],
        entity=ENTITY,
        attempts=tuple(_attempt(tried, number) for number, tried in enumerate(kept.tried, 1)),
        state=_state(kept),
        tries=max(len(kept.tried), 1),
        hold=HOLD,
        retention=RETENTION,
        tombstone=TOMBSTONE,
        disowned=tuple(
            Disowned(_attempt(Tried(id, NOW - HOLD, ended=NOW), 1), until=kept.until)
            for id in kept.disowned
        ),
    )


def _attempt(tried: Tried, number: int) -> Attempt:
    id = AttemptId(tried.id)
    return Attempt(id, number, 1, None, tried.admitted, tried.doubtful, tried.ended)


def _state(kept: Kept) -> State:
    match kept.state:
        case "sending":
            return Open(kept.until, yields_at=kept.yields_at)
        case "listening":
            return Open(kept.until, listening=True)
        case "done":
            unkept = ANSWER.unkept() if kept.status else Unkept()
            return Done(ANSWER if kept.body else unkept, kept.until)
        case "unknown":
            return Unknown()
        case "expired":
            return Expired(kept.until - TOMBSTONE)
        case _:
            return Freed()


@cache
def entity_of(high_water: int, frozen: bool) -> Entity:
    return Entity(ENTITY, high_water, frozen=frozen)


@cache
def others_of(lower: tuple[Lower, ...]) -> tuple[Other, ...]:
    return tuple(Other(one.fence, _other_state(one)) for one in lower)


def _other_state(lower: Lower) -> Open | Unknown:
    if lower.state == "unknown":
        return Unknown()
    return Open(lower.until, lower.state == "listening", lower.yields_at)


@cache
def call_of(asks: Asks, key: str, caller: str | None) -> Call:
    return Call(
        upstream="payments",
        caller=caller,
        credential=asks.owner,
        entity=ENTITY,
        fence=asks.fence,
        key=key,
        prints=(PRINTS[asks.sort],),
        attempt=AttemptId("asking"),
        asked=Asked(
            waited=asks.waited,
            found=AttemptId(asks.found) if asks.found else None,
            duplicate_wait_over=asks.key_wait_over,
            predecessor_wait_over=asks.order_wait_over,
            probed=asks.probed,
        ),
    )


@cache
def terms_of(route: Route) -> Terms:
    lead = FenceLead(route.lead[1], clock=route.lead[0] == "clock") if route.lead else None
    return Terms(
        hold=HOLD,
        timeout=TIMEOUT,
        retention=RETENTION,
        tombstone=TOMBSTONE,
        max_fence_lead=lead,
        stale_replay=StaleReplay(route.stale_replay),
        on_unknown=OnUnknown(route.on_unknown),
        resend_limit=route.resend_limit,
        key_window=route.key_window,
        predecessor=Predecessor(route.predecessor),
    )


def verdict_of(verdict: Verdict) -> VerdictOn:
    match verdict.word:
        case "applied with answer":
            return Applied(ANSWER)
        case "applied":
            return Applied()
        case "not applied":
            return NotApplied()
        case "abandon":
            return Abandoned()
        case _:
            assert verdict.attempt is not None
            yes = verdict.word == "probe yes"
            return Probed(AttemptId(verdict.attempt), yes, verdict.after)


# --- from the program ----------------------------------------------------------------------


def left_of(ruling: Ruling[Decision]) -> Left:
    record = ruling.left.record
    verdict, told = _decision(ruling.verdict)
    return Left(
        verdict,
        ruling.left.entity.high_water,
        word_of(record.state) if record else "none",
        tuple(attempt.id for attempt in record.attempts) if record else (),
        tuple(note.kind.value for note in ruling.notes),
        told,
    )


def _decision(decision: Decision) -> tuple[str, tuple[tuple[str, object], ...]]:
    match decision:
        case Go(hold_left=hold, window_left=window, earlier=earlier):
            return "go", (("earlier", earlier), ("hold", hold), ("window", window))
        case Wait(on=on, found=found, lapses_in=lapses):
            return f"wait {on}", (("found", found), ("lapses", lapses))
        case Replay(stale=stale):
            return "replay", (("stale", stale),)
        case Probe(attempt=attempt):
            return "probe", (("attempt", attempt),)
        case Compare():
            return "compare", ()
        case Refuse() as refuse:
            return f"refuse {refuse.reason}", (
                ("sent", refuse.sent),
                ("state", refuse.state),
                ("parts", refuse.parts),
                ("status", refuse.status),
                ("retry", refuse.retry_in),
            )


def settles_of(ruling: Ruling[Settlement] | Ruling[Renewal] | Ruling[Resolution]) -> Settles:
    record = ruling.left.record
    notes = tuple(note.kind.value for note in ruling.notes)
    verdict = _verdict(ruling.verdict)
    if record is None:
        return Settles(verdict, "none", (), (), (), None, notes)
    return Settles(
        verdict,
        word_of(record.state),
        tuple(attempt.id for attempt in record.attempts),
        tuple(attempt.ended_at is not None for attempt in record.attempts),
        tuple(disowned.attempt.id for disowned in record.disowned),
        _until(record),
        notes,
        record.state.yields_at if isinstance(record.state, Open) else None,
    )


def _verdict(verdict: Settlement | Renewal | Resolution) -> str:
    match verdict:
        case Settled(state=state):
            return f"settled {state}"
        case Released(unknown=unknown):
            return "released unknown" if unknown else "released free"
        case Superseded(nothing=nothing):
            return "superseded nothing" if nothing else "superseded"
        case Held():
            return "held"
        case Lost():
            return "lost"
        case Resolved(state=state):
            return f"resolved {state}"
        case NotResolved(reason=reason):
            return reason.value


def _until(record: Record) -> int | None:
    match record.state:
        case Open(hold_until=until) | Done(expires_at=until):
            return until
        case Unknown():
            since = record.current.doubtful_since
            return None if since is None else since + record.tombstone
        case Expired(at=at):
            return at + record.tombstone
        case Freed():
            return None
