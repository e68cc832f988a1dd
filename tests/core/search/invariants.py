"""The invariants, by name, each with the exceptions that are stated with it.

A check looks at one move: the world before it, and the move with the world after it. It returns
what is wrong in a sentence, or None. Exceptions that the searched worlds cannot reach are named
in the docstrings and need no code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fencegate.core.admission import admit
from fencegate.core.aging import aged_record
from fencegate.core.model import (
    AttemptId,
    Call,
    Done,
    Expired,
    Freed,
    Go,
    Held,
    OneEffectPer,
    OnUnknown,
    Open,
    Other,
    Predecessor,
    Record,
    Snapshot,
    State,
    Terms,
    Unknown,
    Wait,
    word_of,
)
from tests.core.search.lane import Lane
from tests.core.search.store import Step
from tests.core.search.world import Model, Move, World

Broken = str | None
Check = Callable[[Model, World, Move], Broken]
StepCheck = Callable[[Model, Step], Broken]
EndCheck = Callable[[Model, World], Broken]


# --- effects -------------------------------------------------------------------------------


def i1_one_effect_per_key(model: Model, before: World, move: Move) -> Broken:
    """At most one effect per (upstream, caller, key), and per intent where the route says so.

    A resend excuses nothing here, since the upstream de-duplicates; nor do a probe and an
    operator, since they tell the truth. What is left is the process that was stopped between its
    hold check and its first byte, where one of these or the end of `key_window` came first.
    """
    lanes = model.lanes_of(move.after)
    mine = _effects(model, lanes, move.lane)
    if len(mine) > 1 and not _stopped_after_an_act(model, lanes, mine):
        return f"calls {_numbers(mine)} each had an effect under one key"
    return None


def _effects(model: Model, lanes: list[Lane], index: int) -> list[int]:
    """Whose attempts had an effect that is this call's: under its key, or its intent."""
    performed = [other for other, lane in enumerate(lanes) if lane.wire == "performed"]
    return [other for other in performed if _same_operation(model, index, other)]


def _same_operation(model: Model, one: int, other: int) -> bool:
    if model.spaces[one] == model.spaces[other]:
        return True
    if model.scenario.terms.one_effect_per is not OneEffectPer.INTENT:
        return False
    a, b = model.calls[one], model.calls[other]
    return (a.caller, a.fence, a.prints) == (b.caller, b.fence, b.prints)


def _speaks_for(model: Model, owner: int, index: int) -> bool:
    """Is the operation of the one also the other's? By intent also through a third call, that
    has the key of the one and the intent of the other."""
    return any(
        _same_operation(model, owner, third) and _same_operation(model, third, index)
        for third in range(len(model.calls))
    )


def _stopped_after_an_act(model: Model, lanes: list[Lane], mine: list[int]) -> bool:
    acted = model.scenario.terms.on_unknown is not OnUnknown.REFUSE
    acted = acted or any(lanes[index].let_go for index in mine)
    return acted and any(lanes[index].stopped for index in mine)


# --- order on the wire ---------------------------------------------------------------------


def i2_order_of_first_bytes(model: Model, before: World, move: Move) -> Broken:
    """No first byte after that of a higher fence, unless the higher one's route says `proceed`
    or `ignore`, the process was stopped just before it, or the ledger's clock stepped forward.
    """
    lane = model.lanes[before.lanes[move.lane]]
    if model.scenario.terms.predecessor is not Predecessor.REFUSE:
        return None
    if lane.stopped or before.skew > 0:
        return None
    for other, higher in enumerate(model.lanes_of(before)):
        if higher.wire != "unwritten" and _above(model, other, move.lane):
            return f"call {move.lane + 1} wrote after call {other + 1} with a higher fence"
    return None


def i2_no_overlap(model: Model, before: World, move: Move) -> Broken:
    """A lower attempt is not at the upstream when a higher one comes, unless that was excused
    when the higher one was admitted (`world` remembers it), and put in the journal."""
    lane = model.lanes[before.lanes[move.lane]]
    for other, lower in enumerate(model.lanes_of(before)):
        excused = lane.may_overtake >> other & 1
        if lower.in_the_air and _above(model, move.lane, other) and not excused:
            return f"call {move.lane + 1} overlaps call {other + 1} with a lower fence"
    return None


def _above(model: Model, one: int, other: int) -> bool:
    return model.calls[one].fence > model.calls[other].fence


# --- answers -------------------------------------------------------------------------------


def i3_success_means_one_effect(model: Model, before: World, move: Move) -> Broken:
    """A success is of the call's own request, has exactly one effect, and a replay equals the
    first answer. The exceptions are those of I1."""
    owner = _owner(model, move)
    if owner is None:
        return None
    lanes = model.lanes_of(move.after)
    if not _speaks_for(model, owner, move.lane):
        return f"call {move.lane + 1} got the answer of call {owner + 1} under another key"
    if model.calls[owner].prints != model.calls[move.lane].prints:
        return f"call {move.lane + 1} got the answer to another request, call {owner + 1}"
    if lanes[owner].wire != "performed":
        return f"call {move.lane + 1} is told of success, and nothing was performed"
    effects = _effects(model, lanes, owner)
    if len(effects) != 1 and not _stopped_after_an_act(model, lanes, effects):
        return f"a success with {len(effects)} effects: calls {_numbers(effects)}"
    assert move.reply is not None
    if move.reply.answer != model.ways.answers[owner]:
        return f"call {move.lane + 1} was replayed another answer than the first"
    return None


def i6_answers_stay_with_their_caller(model: Model, before: World, move: Move) -> Broken:
    """No answer of one caller reaches another, not even through the upstream's memory."""
    owner = _owner(model, move)
    if owner is None:
        return None
    mine, theirs = model.calls[move.lane], model.calls[owner]
    if (mine.caller, mine.credential) != (theirs.caller, theirs.credential):
        return f"call {move.lane + 1} got the answer of call {owner + 1}, another caller's"
    return None


def _owner(model: Model, move: Move) -> int | None:
    """Whose effect the success means that was just answered."""
    answer = move.reply.answer if move.reply else None
    if answer is None or answer.status != 200:
        return None
    return next(i for i, own in enumerate(model.ways.answers) if own.body == answer.body)


# --- refusals ------------------------------------------------------------------------------


def i7_not_sent_is_the_truth(model: Model, before: World, move: Move) -> Broken:
    """`sent: false` is said only if no attempt under the key was written.

    A listed refused status, and `not_applied` by a probe or an operator, count as not sent.
    """
    if move.reply is None or move.reply.sent is not False:
        return None
    for other, lane in enumerate(model.lanes_of(move.after)):
        written = lane.wire not in ("unwritten", "refused") and not lane.let_go
        if written and model.spaces[other] == model.spaces[move.lane]:
            return f"call {move.lane + 1} is told sent: false, call {other + 1} was written"
    return None


def i7_not_sent_stays_the_truth(model: Model, before: World, move: Move) -> Broken:
    """What was on its way when `sent: false` was said under its key is never written."""
    if model.lanes[before.lanes[move.lane]].promised:
        return f"call {move.lane + 1} wrote its first byte after sent: false was said of its key"
    return None


def i9_every_end_is_said(model: Model, before: World, move: Move) -> Broken:
    """A call ends with an answer or with a refusal that says why, unless its gateway crashed."""
    if model.lanes[before.lanes[move.lane]].answered:
        return None
    if move.reply is None or (move.reply.answer is None) == (move.reply.reason is None):
        return f"call {move.lane + 1} ended without an answer and without a reason"
    return None


def i9_nobody_is_left_waiting(model: Model, world: World) -> Broken:
    """Where nothing can happen any more, every call has ended."""
    for index, lane in enumerate(model.lanes_of(world)):
        if lane.phase not in ("over", "dead"):
            return f"call {index + 1} is left {lane.phase} for ever"
    return None


# --- the ledger's steps --------------------------------------------------------------------


def i4_high_water_never_falls(model: Model, step: Step) -> Broken:
    """Nothing lowers high water (a reset, which may, is not searched), and who goes was not
    below it."""
    was, now = step.before.entity.high_water, step.after.entity.high_water
    if now < was:
        return f"high water fell from {was} to {now}"
    if isinstance(step.verdict, Go) and step.verdict.high_water < was:
        return f"a call went under high water {step.verdict.high_water}, it was {was}"
    return None


def i5_closed_records_stay_closed(model: Model, step: Step) -> Broken:
    """A done record becomes a tombstone when its retention ends, and never anything else; a
    tombstone stays one while it is kept (here, to the end of the search)."""
    for id, record in step.before.records:
        after = step.after.record(id)
        became = after.state if after else None
        match record.state:
            case Done() if became == record.state:
                pass
            case Done(expires_at=end) if not (isinstance(became, Expired) and end <= step.at):
                return f"{id.key} was done and became {_word(became)}"
            case Expired() if not isinstance(became, Expired):
                return f"{id.key} was a tombstone and became {_word(became)}"
            case _:
                pass
    return None


def i5_superseded_settlements_change_nothing(model: Model, step: Step) -> Broken:
    """A settlement by an attempt that is not the record's current one leaves its state alone."""
    before = aged_record(step.before.record(step.record), step.at)
    if step.verb != "settle" or before is None or isinstance(before.state, Freed):
        return None
    if before.current.id == step.attempt:
        return None
    after = step.after.record(step.record)
    if isinstance(before.state, Expired) and after and isinstance(after.state, Expired):
        before = replace(before, state=after.state)  # the model does not keep when it expired
    if after is None or (after.state, _ids(after)) != (before.state, _ids(before)):
        return f"a settlement by {step.attempt} changed the record of {before.current.id}"
    return None


def i8_every_record_ends(model: Model, step: Step) -> Broken:
    """With every gateway gone nothing is open after one hold (and what a clock that went back
    delays): neither does its own key wait any more, nor whoever comes with a higher fence."""
    later = step.at + model.scenario.terms.hold + model.scenario.setback
    entity = replace(step.after.entity, frozen=False)
    records = [record for _, record in step.after.records]
    for record in records:
        told = admit(Snapshot(entity, record, latest=later), _retry(record), NOBODY_WAITS, later)
        if isinstance(told.verdict, Wait):
            return f"{record.id.key} is held up: a retry is told {told.verdict}"
    others = tuple(
        Other(record.fence, record.state)
        for record in records
        if isinstance(record.state, (Open, Unknown))
    )
    newcomer = replace(model.calls[0], key="another", fence=entity.high_water + 1)
    told = admit(Snapshot(entity, None, others, latest=later), newcomer, NOBODY_WAITS, later)
    if not isinstance(told.verdict, Go):
        return f"the entity is held up: a newcomer is told {told.verdict}"
    return None


def _retry(record: Record) -> Call:
    """An honest retry of what the record is of, under the largest of fences."""
    return Call(
        upstream=record.id.upstream,
        caller=record.id.caller,
        credential=record.credential,
        entity=record.entity,
        fence=2**63 - 1,
        key=record.id.key,
        prints=(record.fingerprint,),
        attempt=AttemptId("retry-1"),
    )


def a_renewal_never_revives(model: Model, step: Step) -> Broken:
    """A hold that has run out is not renewed (no invariant of its own; section 3 of the design)."""
    before = step.before.record(step.record)
    if not isinstance(step.verdict, Held) or before is None:
        return None
    if not isinstance(before.state, Open) or before.state.hold_until <= step.at:
        return f"the hold of {step.attempt} had run out, and was renewed"
    return None


def row_1_frozen_admits_nothing(model: Model, step: Step) -> Broken:
    """On a frozen entity nothing new goes (no invariant of its own; row 1 of the law)."""
    if step.verb == "admit" and step.before.entity.frozen and _number_of_tries(step) > 0:
        return "a call was admitted on a frozen entity"
    return None


def _number_of_tries(step: Step) -> int:
    """How many attempts were recorded in this step."""
    tries = [sum(r.tries for _, r in ledger.records) for ledger in (step.after, step.before)]
    return tries[0] - tries[1]


def _word(state: State | None) -> str:
    return "nothing" if state is None else word_of(state)


def _ids(record: Record) -> list[AttemptId]:
    return [attempt.id for attempt in record.attempts]


def _numbers(indices: list[int]) -> str:
    return " and ".join(str(index + 1) for index in indices)


NOBODY_WAITS = Terms(hold=2, max_fence_lead=None)

OF_STEPS: tuple[StepCheck, ...] = (
    i4_high_water_never_falls,
    i5_closed_records_stay_closed,
    i5_superseded_settlements_change_nothing,
    i8_every_record_ends,
    a_renewal_never_revives,
    row_1_frozen_admits_nothing,
)
OF_EFFECTS: tuple[Check, ...] = (i1_one_effect_per_key,)
OF_FIRST_BYTES: tuple[Check, ...] = (
    i2_order_of_first_bytes,
    i2_no_overlap,
    i7_not_sent_stays_the_truth,
)
OF_REPLIES: tuple[Check, ...] = (
    i3_success_means_one_effect,
    i6_answers_stay_with_their_caller,
    i7_not_sent_is_the_truth,
)
OF_ENDS: tuple[Check, ...] = (i9_every_end_is_said,)
OF_DEAD_ENDS: tuple[EndCheck, ...] = (i9_nobody_is_left_waiting,)
