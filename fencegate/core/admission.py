"""Admission: one step in which a call is replayed, refused, sent on its way or made to wait.

What time has done is applied first. Then the rows of the law, in this order:

    0  a fence too far ahead is refused, and nothing is raised
    1  a frozen entity is refused
    2  a key of another caller is refused, and nothing is revealed
    3  a key reused for another request is refused
    4  a kept answer is replayed; the replay says if the fence is stale
    5  an answer that is not kept is refused
    6  an expired key is refused for ever
    7  a fence below high water is refused
    8  a key that is running: wait, or be refused
    9  an unknown outcome: by the route's terms resent, probed or refused
   10  no record: go, or wait for a lower fence that is still on the wire

In rows 4 to 6 and from row 7 on, a higher fence raises high water.
"""

from __future__ import annotations

from dataclasses import replace

from fencegate.core.aging import aged
from fencegate.core.fingerprint import Fingerprint
from fencegate.core.model import (
    Attempt,
    AttemptId,
    Call,
    Compare,
    Decision,
    Done,
    Entity,
    Expired,
    FenceLead,
    Freed,
    Go,
    Instant,
    Intent,
    Micros,
    Note,
    NoteKind,
    OneEffectPer,
    OnUnknown,
    Open,
    Predecessor,
    Probe,
    Record,
    Refuse,
    Replay,
    Ruling,
    Snapshot,
    StaleReplay,
    Terms,
    Unknown,
    Wait,
    WaitFor,
    word_of,
)
from fencegate.core.outcomes import Answer
from fencegate.core.reasons import Reason


def admit(seen: Snapshot, call: Call, terms: Terms, now: Instant) -> Ruling[Decision]:
    """Decide on one call. Asked again under an attempt that the record holds: the same answer."""
    seen = aged(seen, now)
    record, stale = seen.record, call.fence < seen.entity.high_water
    if record is not None and record.holds(call.attempt):
        return Ruling(_go(record, call.attempt, terms, seen.entity.high_water, now), seen)

    if too_far(call.fence, seen.entity.high_water, terms.max_fence_lead, now):  # row 0
        return _refuse(seen, call, Reason.FENCE_TOO_FAR)
    if seen.entity.frozen:  # row 1
        return _refuse(seen, call, Reason.FROZEN)

    if record is not None and not isinstance(record.state, Freed):
        if record.credential != call.credential:  # row 2
            return _refuse(seen, call, Reason.KEY_OF_OTHER_CALLER)
        mine = call.print_under(record.fingerprint.scheme)
        if mine is None:
            return Ruling(Compare(record.fingerprint.scheme), seen)
        if parts := differing(record, call, mine):  # row 3
            return _refuse(seen, call, Reason.KEY_REUSED, parts=parts)

        match record.state:
            case Done(answer=Answer() as answer):  # row 4
                if stale and terms.stale_replay is StaleReplay.REFUSE:
                    return _refuse(seen, call, Reason.STALE_FENCE)
                left = _entered(_raised(seen, call, now), call, terms, now)
                by_intent = record.id != call.record_id
                return Ruling(Replay(answer, left.entity.high_water, stale, by_intent), left)
            case Done(answer=gone):  # row 5
                raised = _raised(seen, call, now)
                return _refuse(raised, call, Reason.ANSWER_NOT_KEPT, status=gone.status)
            case Expired():  # row 6
                return _refuse(_raised(seen, call, now), call, Reason.KEY_EXPIRED)
            case _:
                pass

    if stale:  # row 7
        return _refuse(seen, call, Reason.STALE_FENCE)
    seen = _entered(_raised(seen, call, now), call, terms, now)

    match record:
        case Record(state=Open(hold_until=hold_until)):  # row 8
            if call.asked.duplicate_wait_over:
                return _refuse(seen, call, Reason.IN_FLIGHT, retry_in=hold_until - now)
            lapses_in = hold_until - now
            return Ruling(Wait(WaitFor.KEY, record.id, lapses_in, call.asked.found), seen)
        case Record(state=Unknown()):  # row 9
            if may_resend(seen, record, call, terms, now):
                return _go_or_wait(seen, call, terms, now, found=record.current.id)
            if terms.on_unknown is OnUnknown.PROBE and not call.asked.probed:
                return Ruling(Probe(record.id, record.current.id), seen)
            return _refuse(seen, call, Reason.OUTCOME_UNKNOWN)
        case _:  # row 10
            return _go_or_wait(seen, call, terms, now, found=call.asked.found)


def too_far(fence: int, high_water: int, lead: FenceLead | None, now: Instant) -> bool:
    """Row 0: one absurd fence must not fence out everyone."""
    if lead is None:
        return False
    return fence > (max(high_water, now) if lead.clock else high_water) + lead.ahead


def differing(record: Record, call: Call, mine: Fingerprint) -> tuple[str, ...]:
    """Row 3: the parts in which a call is not the one that its key stands for. The same name in
    another fence domain is another entity."""
    parts = record.fingerprint.differs_from(mine)
    if not parts and record.entity != call.entity:
        return ("entity",)
    return parts


def may_resend(seen: Snapshot, record: Record, call: Call, terms: Terms, now: Instant) -> bool:
    """Row 9: may a new attempt be sent while an earlier one may have had its effect?"""
    if terms.on_unknown is not OnUnknown.RESEND:
        return False
    if call.asked.waited and call.asked.found != record.current.id:
        return False
    if len(record.attempts) > terms.resend_limit:
        return False
    if now < seen.latest - terms.timeout:  # the ledger's clock has gone back
        return False
    if terms.one_effect_per is OneEffectPer.INTENT and _names_another(seen, call):
        return False
    left = window_left(record, terms, now)
    return left is not None and left > 0


def window_left(record: Record, terms: Terms, now: Instant) -> Micros | None:
    """How long the upstream will still know our key, less `timeout`; None if it never does."""
    if terms.key_window is None:
        return None
    return record.attempts[0].admitted_at + terms.key_window - terms.timeout - now


# --- going and waiting ---------------------------------------------------------------------


def _go_or_wait(
    seen: Snapshot, call: Call, terms: Terms, now: Instant, *, found: AttemptId | None
) -> Ruling[Decision]:
    """A lower fence that is still on the wire goes first; what is in doubt is overtaken."""
    below = [other.state for other in seen.others if other.fence < call.fence]
    ahead = [state for state in below if isinstance(state, Open) and not _yields(state, now)]
    if ahead and terms.predecessor is not Predecessor.IGNORE:
        ends_in = max(state.hold_until for state in ahead) - now
        if not call.asked.predecessor_wait_over:
            return Ruling(Wait(WaitFor.PREDECESSOR, call.record_id, ends_in, found), seen)
        if terms.predecessor is Predecessor.REFUSE:
            return _refuse(seen, call, Reason.PREDECESSOR_OPEN, retry_in=ends_in)

    left = seen.with_record(_sending(seen.record, call, terms, now))
    assert left.record is not None
    go = _go(left.record, call.attempt, terms, left.entity.high_water, now)
    overtakes = bool(ahead) or any(isinstance(state, Unknown) for state in below)
    return Ruling(go, left, (*_overtook(overtakes), *_duplicate(left, call, now)))


def _sending(record: Record | None, call: Call, terms: Terms, now: Instant) -> Record:
    """The record with this call's attempt as the current one, sending."""
    tries = record.tries + 1 if record else 1
    attempt = Attempt(call.attempt, tries, call.fence, call.holder, now)
    return Record(
        id=record.id if record else call.record_id,
        credential=call.credential,
        fingerprint=record.fingerprint if record and record.attempts else call.prints[0],
        entity=call.entity,
        attempts=(*record.attempts, attempt) if record else (attempt,),
        state=Open(hold_until=now + terms.hold),
        tries=tries,
        hold=terms.hold,
        retention=terms.retention,
        tombstone=terms.tombstone,
        disowned=record.disowned if record else (),
    )


def _go(record: Record, attempt: AttemptId, terms: Terms, high_water: int, now: Instant) -> Go:
    """What a gateway must know to send: nothing is left of a hold that is another's or ran out."""
    number = next(a.number for a in record.attempts if a.id == attempt)
    hold_left = 0
    if isinstance(record.state, Open) and record.current.id == attempt:
        hold_left = record.state.hold_until - now
    earlier = record.attempts[0].id != attempt
    window = window_left(record, terms, now) if earlier else None
    return Go(attempt, number, record.id, high_water, hold_left, window, earlier)


def _yields(state: Open, now: Instant) -> bool:
    """A streamed answer holds up its successors for a while only."""
    return state.yields_at is not None and state.yields_at <= now


# --- what is left behind -------------------------------------------------------------------


def _raised(seen: Snapshot, call: Call, now: Instant) -> Snapshot:
    """High water at least at the call's fence; the index is emptied where it rose."""
    if call.fence <= seen.entity.high_water:
        return seen
    was = seen.entity
    entity = Entity(was.id, call.fence, call.holder, now, was.frozen)
    return Snapshot(entity, seen.record, seen.others, None, seen.latest)


def _entered(seen: Snapshot, call: Call, terms: Terms, now: Instant) -> Snapshot:
    """The call's key in the index under its fence, if the intent names no key with a record."""
    if terms.one_effect_per is OneEffectPer.KEY:
        return seen
    names_nothing = terms.one_effect_per is OneEffectPer.INTENT and (
        seen.record is None or isinstance(seen.record.state, Freed)
    )
    if seen.intent is not None and not names_nothing:
        return seen
    return replace(seen, intent=Intent(call.record_id, now))


def _names_another(seen: Snapshot, call: Call) -> bool:
    return seen.intent is not None and seen.intent.key != call.record_id


def _overtook(overtakes: bool) -> tuple[Note, ...]:
    return (Note(NoteKind.OVERTOOK_UNKNOWN),) if overtakes else ()


def _duplicate(seen: Snapshot, call: Call, now: Instant) -> tuple[Note, ...]:
    if seen.intent is None or seen.intent.key == call.record_id:
        return ()
    apart = now - seen.intent.since
    return (Note(NoteKind.POSSIBLE_DUPLICATE, other_key=seen.intent.key.key, apart=apart),)


def _refuse(
    seen: Snapshot,
    call: Call,
    reason: Reason,
    *,
    parts: tuple[str, ...] = (),
    status: int | None = None,
    retry_in: Micros | None = None,
) -> Ruling[Decision]:
    """A refusal with the facts a caller may know; of another caller's record it may know none."""
    record, entity = seen.record, seen.entity
    sent: bool | None = False
    state: str | None = None
    if record is not None and not isinstance(record.state, Freed):
        own = record.credential == call.credential
        sent, state = (True, word_of(record.state)) if own else (None, None)
    refusal = Refuse(
        reason,
        entity.high_water,
        entity.holder,
        entity.accepted_at,
        sent,
        state,
        parts,
        status,
        retry_in,
    )
    return Ruling(refusal, seen)
