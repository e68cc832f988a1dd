"""Settlement: how an outcome enters the ledger, and how a hold is kept.

An outcome changes the record only if it comes from the record's current attempt and the record
is open or unknown. Then:

    responded                 -> done
    refused before work,
    not sent                  -> this attempt is undone: back to unknown where an earlier one may
                                 have been sent, else the key is free
    timed out                 -> still open, listening (from sending only)
    unknown                   -> unknown

Anything else changes no record. It is kept as evidence, and where it contradicts the record the
journal says so. The late answer of an attempt that was called not applied makes its still free
key done. The same settlement twice is none.
"""

from __future__ import annotations

from dataclasses import replace

from fencegate.core.aging import aged, in_doubt
from fencegate.core.model import (
    Attempt,
    AttemptId,
    Done,
    Expired,
    Freed,
    Held,
    Instant,
    Lost,
    Note,
    NoteKind,
    Open,
    Record,
    Released,
    Renewal,
    Ruling,
    Settled,
    Settlement,
    Snapshot,
    Superseded,
    Unknown,
    word_of,
)
from fencegate.core.outcomes import (
    Answer,
    NotSent,
    Outcome,
    OutcomeUnknown,
    RefusedBeforeWork,
    Responded,
    Streaming,
    TimedOut,
    Unkept,
)


def settle(
    seen: Snapshot, attempt: AttemptId, outcome: Outcome, now: Instant
) -> Ruling[Settlement]:
    """Enter the outcome of one attempt."""
    seen = aged(seen, now)
    record = seen.record
    if record is None:
        return Ruling(Superseded(nothing=True), seen)
    if isinstance(record.state, Freed):
        return _on_freed(seen, record, attempt, outcome, now)
    if record.current.id != attempt:
        return _superseded(seen, record, attempt, outcome, now)
    if isinstance(record.state, (Done, Expired)):
        return _on_closed(seen, record, outcome)

    match outcome:
        case Responded(kept=kept):
            ended = replace(record.current, ended_at=now)
            done = record.with_current(ended, Done(kept, now + record.retention))
            return Ruling(Settled("done"), seen.with_record(done))
        case RefusedBeforeWork() | NotSent():
            return released(seen, record)
        case TimedOut():
            return _still_open(seen, record, listening=True)
        case Streaming(stream_hold=stream_hold):
            return _still_open(seen, record, yields_at=now + stream_hold)
        case OutcomeUnknown(evidence=evidence):
            unknown = in_doubt(record, now, evidence, ended=now)
            return Ruling(Settled("unknown"), seen.with_record(unknown))


def renew(seen: Snapshot, attempt: AttemptId, now: Instant) -> Ruling[Renewal]:
    """Keep the hold of an open attempt. A hold that has run out is never revived."""
    seen = aged(seen, now)
    match seen.record:
        case Record(state=Open() as state) as record if record.current.id == attempt:
            held = replace(record, state=replace(state, hold_until=now + record.hold))
            return Ruling(Held(record.hold), seen.with_record(held))
        case _:
            return Ruling(Lost(), seen)


def released(seen: Snapshot, record: Record) -> Ruling[Settlement]:
    """Undo the current attempt, never an earlier one."""
    earlier = record.attempts[:-1]
    if earlier:
        back = replace(record, attempts=earlier, state=Unknown())
        return Ruling(Released(unknown=True), seen.with_record(back))
    return Ruling(Released(unknown=False), seen.with_record(freed(record)))


def freed(record: Record) -> Record | None:
    """The record without attempts: nothing, unless late answers of it must still be known."""
    if not record.disowned:
        return None
    return replace(record, attempts=(), state=Freed())


def _still_open(
    seen: Snapshot, record: Record, *, listening: bool = False, yields_at: Instant | None = None
) -> Ruling[Settlement]:
    """Listening and streaming are entered from open only: what ran out is not revived."""
    if isinstance(record.state, Open):
        state = replace(
            record.state,
            listening=record.state.listening or listening,
            yields_at=record.state.yields_at or yields_at,
        )
        seen, record = seen.with_record(replace(record, state=state)), replace(record, state=state)
    return Ruling(Settled(word_of(record.state)), seen)


# --- what changes no record ----------------------------------------------------------------


def _on_freed(
    seen: Snapshot, record: Record, attempt: AttemptId, outcome: Outcome, now: Instant
) -> Ruling[Settlement]:
    late = next((d for d in record.disowned if d.attempt.id == attempt), None)
    if late is None or not isinstance(outcome, Responded):
        return _superseded(seen, record, attempt, outcome, now)
    done = replace(
        record,
        attempts=(replace(late.attempt, ended_at=now),),
        state=Done(outcome.kept, now + record.retention),
        disowned=tuple(d for d in record.disowned if d is not late),
    )
    return Ruling(Settled("done"), seen.with_record(done), (Note(NoteKind.OUTCOME_CONTRADICTED),))


def _superseded(
    seen: Snapshot, record: Record, attempt: AttemptId, outcome: Outcome, now: Instant
) -> Ruling[Settlement]:
    """Evidence only: an earlier attempt under the key is known to have ended. An attempt that the
    record never held may still be on its way here, when it is undone."""
    disowned = _is_disowned(record, attempt)
    if isinstance(outcome, NotSent) and not disowned and not record.holds(attempt):
        return Ruling(Superseded(nothing=True), seen)
    ends = not isinstance(outcome, (TimedOut, Streaming))
    attempts = tuple(
        _ended(a, outcome, now) if a.id == attempt and ends else a for a in record.attempts
    )
    notes = _evidence(record, outcome, disowned=disowned)
    return Ruling(Superseded(), seen.with_record(replace(record, attempts=attempts)), notes)


def _on_closed(seen: Snapshot, record: Record, outcome: Outcome) -> Ruling[Settlement]:
    match record.state, outcome:
        case Done(answer=answer), Responded(kept=kept) if _same(answer, kept):
            return Ruling(Settled("done"), seen)
        case Done(), NotSent() | RefusedBeforeWork():
            contradicted = Note(NoteKind.OUTCOME_CONTRADICTED)
            return Ruling(Superseded(), seen, (contradicted,))
        case _:
            return Ruling(Superseded(), seen, _evidence(record, outcome, disowned=False))


def _evidence(record: Record, outcome: Outcome, *, disowned: bool) -> tuple[Note, ...]:
    if isinstance(outcome, Responded) and (disowned or _answered_otherwise(record, outcome)):
        return (Note(NoteKind.OUTCOME_CONTRADICTED),)
    return (Note(NoteKind.SETTLEMENT_SUPERSEDED),)


def _answered_otherwise(record: Record, outcome: Responded) -> bool:
    match record.state:
        case Done(answer=answer):
            return answer.status is not None and answer.status != outcome.kept.status
        case _:
            return False


def _ended(attempt: Attempt, outcome: Outcome, now: Instant) -> Attempt:
    evidence = outcome.evidence if isinstance(outcome, OutcomeUnknown) else attempt.evidence
    return replace(attempt, ended_at=attempt.ended_at or now, evidence=evidence)


def _is_disowned(record: Record, attempt: AttemptId) -> bool:
    return any(d.attempt.id == attempt for d in record.disowned)


def _same(one: Answer | Unkept, other: Answer | Unkept) -> bool:
    return (one.status, one.digest) == (other.status, other.digest)
