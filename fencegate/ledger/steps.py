"""The verbs, each as one step over rows: load the snapshot, ask the law, write what it returned.

A store gives `Rows` that are its own inside one atomic section; everything a ledger decides is
decided here, once for all stores that can run the law in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from fencegate.core import admission, identity, resolution, settlement
from fencegate.core.aging import aged_record
from fencegate.core.identity import Adopted, Adoption, Identities, changed
from fencegate.core.intent import intent_of
from fencegate.core.model import (
    AttemptId,
    Call,
    Decision,
    Entity,
    EntityId,
    FenceLead,
    Freed,
    Instant,
    Intent,
    Note,
    OneEffectPer,
    Open,
    Other,
    Record,
    RecordId,
    Refuse,
    Renewal,
    Settlement,
    Snapshot,
    Terms,
    Unknown,
)
from fencegate.core.outcomes import Outcome
from fencegate.core.resolution import Announcement, Frozen, NotReset, Reset, Resolution, VerdictOn
from fencegate.ledger.protocol import Act, AuditRow, EntityView, JournalRow, Told, Topic

SHOWN_OPEN = 100


class Rows(Protocol):
    """The rows of a store inside one atomic section. `changed` gathers what watchers wait for."""

    changed: set[Topic]

    def entity(self, id: EntityId) -> Entity | None: ...
    def put_entity(self, entity: Entity) -> None: ...
    def record(self, id: RecordId) -> Record | None: ...
    def put_record(self, record: Record) -> None: ...
    def drop_record(self, id: RecordId) -> None: ...

    def others(
        self, entity: EntityId, below: int, but: RecordId, now: Instant
    ) -> tuple[Other, ...]:
        """Witnesses of open and of unknown records of other keys with a lower fence."""
        ...

    def lapsed(self, entity: EntityId, below: int, now: Instant) -> Sequence[Record]:
        """Records with a lower fence that are written down as open, and whose hold ran out."""
        ...

    def open_records(
        self, entity: EntityId, below: int | None, now: Instant, limit: int
    ) -> tuple[Record, ...]: ...

    def count_open(self, entity: EntityId, below: int | None, now: Instant) -> int: ...

    def intent(self, entity: Entity, intent: bytes) -> Intent | None:
        """What the index names under the entity's high water of now."""
        ...

    def put_intent(self, entity: Entity, intent: bytes, names: Intent) -> None: ...
    def leave_index(self, record: RecordId) -> None: ...
    def empty_index(self, entity: EntityId) -> None: ...
    def due(self, now: Instant, limit: int) -> Sequence[Record]: ...
    def latest(self) -> Instant: ...
    def identities(self) -> Identities: ...
    def put_identities(self, wanted: Identities) -> None: ...

    def count_live(self, upstream: str, now: Instant) -> int:
        """How many records of the upstream are open or unknown by now."""
        ...

    def take_over(self) -> int:
        """Apply `identity.taken_over` to every observed entity, and forget what was observed: a
        later switch must not raise again what was reset. Answers how many rose."""
        ...

    def add_journal(self, row: JournalRow) -> None: ...
    def add_audit(self, row: AuditRow) -> None: ...


# --- calls ---------------------------------------------------------------------------------


def admit(rows: Rows, call: Call, terms: Terms, now: Instant) -> Told[Decision]:
    _write_lapsed(rows, call, now)
    seen = _seen_by(rows, call, terms, now)
    ruling = admission.admit(seen, call, terms, now)
    _write(rows, seen, ruling.left)
    _write_index(rows, seen, ruling.left, call, terms)
    if isinstance(ruling.verdict, Refuse):
        rows.add_journal(_refused(call, ruling.verdict, now))
    for note in ruling.notes:
        rows.add_journal(_noted(note, call, ruling.left, now))
    return Told(ruling.verdict, ruling.notes)


def preview(rows: Rows, call: Call, terms: Terms, now: Instant) -> Decision:
    seen = _as_if_written(rows, _seen_by(rows, call, terms, now), call, now)
    return admission.admit(seen, call, terms, now).verdict


def renew(rows: Rows, held: Sequence[tuple[RecordId, AttemptId]], now: Instant) -> list[Renewal]:
    return [_renew(rows, record, attempt, now) for record, attempt in held]


def settle(
    rows: Rows, record: RecordId, attempt: AttemptId, outcome: Outcome, now: Instant
) -> Told[Settlement]:
    seen = _seen(rows, record)
    ruling = settlement.settle(seen, attempt, outcome, now)
    _write(rows, seen, ruling.left)
    for note in ruling.notes:
        rows.add_journal(_settled(note, ruling.left, attempt, now))
    return Told(ruling.verdict, ruling.notes)


def _renew(rows: Rows, record: RecordId, attempt: AttemptId, now: Instant) -> Renewal:
    seen = _seen(rows, record)
    ruling = settlement.renew(seen, attempt, now)
    _write(rows, seen, ruling.left)
    return ruling.verdict


# --- operators -----------------------------------------------------------------------------


def announce(
    rows: Rows,
    entity: EntityId,
    fence: int,
    holder: str | None,
    lead: FenceLead | None,
    now: Instant,
) -> tuple[Announcement, int]:
    seen = Snapshot(_entity(rows, entity))
    ruling = resolution.announce(seen, fence, holder, lead, now)
    _write(rows, seen, ruling.left)
    return ruling.verdict, rows.count_open(entity, fence, now)


def resolve(rows: Rows, record: RecordId, verdict: VerdictOn, act: Act, now: Instant) -> Resolution:
    seen = _seen(rows, record)
    ruling = resolution.resolve(seen, verdict, now)
    _write(rows, seen, ruling.left)
    _audit(rows, act, f"resolve {type(verdict).__name__}", repr(record), ruling.verdict, now)
    return ruling.verdict


def freeze(rows: Rows, entity: EntityId, frozen: bool, act: Act, now: Instant) -> Frozen:
    seen = Snapshot(_entity(rows, entity))
    ruling = resolution.freeze(seen, frozen)
    _write(rows, seen, ruling.left)
    _audit(rows, act, "freeze" if frozen else "unfreeze", repr(entity), ruling.verdict, now)
    return ruling.verdict


def reset(
    rows: Rows, entity: EntityId, high_water: int, act: Act, now: Instant
) -> Reset | NotReset:
    seen = Snapshot(_entity(rows, entity))
    open_now = rows.count_open(entity, None, now)
    ruling = resolution.reset(seen, high_water, open_now, now)
    _write(rows, seen, ruling.left)
    if isinstance(ruling.verdict, Reset):
        rows.empty_index(entity)
    _audit(rows, act, "reset", repr(entity), ruling.verdict, now)
    return ruling.verdict


def adopt(
    rows: Rows, identities: Identities, accept: bool, act: Act, now: Instant, *, preview: bool
) -> Adoption:
    stored = _plain(rows.identities())
    wanted = _plain(identities)
    live = {upstream: rows.count_live(upstream, now) for upstream in changed(stored, wanted)}
    verdict = identity.adopt(stored, wanted, live, accept)
    if isinstance(verdict, Adopted) and wanted != stored and not preview:
        _write_adopted(rows, wanted, verdict, act, now)
    return verdict


def inspect(rows: Rows, entity: EntityId, now: Instant) -> EntityView:
    return EntityView(_entity(rows, entity), rows.open_records(entity, None, now, SHOWN_OPEN))


def inspect_key(rows: Rows, record: RecordId, now: Instant) -> Record | None:
    return aged_record(rows.record(record), now)


def expire(rows: Rows, now: Instant, limit: int) -> int:
    due = rows.due(now, limit)
    for record in due:
        _write_record(rows, record, aged_record(record, now), record.id)
    return len(due)


# --- loading -------------------------------------------------------------------------------


def _seen_by(rows: Rows, call: Call, terms: Terms, now: Instant) -> Snapshot:
    """The snapshot that the law needs for a call: the key's own record is looked up first."""
    entity = _entity(rows, call.entity)
    own = rows.record(call.record_id)
    intent = None
    if terms.one_effect_per is not OneEffectPer.KEY:
        intent = rows.intent(entity, intent_of(call))
    named = None
    if intent and terms.one_effect_per is OneEffectPer.INTENT and _none(own, now):
        named = rows.record(intent.key)
        named = named if aged_record(named, now) else None
    record = own if named is None else named
    but = call.record_id if record is None else record.id
    others = rows.others(call.entity, call.fence, but, now)
    return Snapshot(entity, record, others, intent, rows.latest())


def _as_if_written(rows: Rows, seen: Snapshot, call: Call, now: Instant) -> Snapshot:
    """The snapshot as `admit` finds it once it has written down what has lapsed."""
    lapsed = {r.id: aged_record(r, now) for r in rows.lapsed(call.entity, call.fence, now)}
    but = call.record_id if seen.record is None else seen.record.id
    unknown = tuple(
        Other(record.fence, record.state)
        for id, record in lapsed.items()
        if record and isinstance(record.state, Unknown) and id != but
    )
    named = seen.intent.key if seen.intent else None
    gone = named in lapsed and lapsed[named] is None  # and so it has left the index
    return replace(seen, others=seen.others + unknown, intent=None if gone else seen.intent)


def _plain(identities: Identities) -> dict[str, dict[str, str]]:
    """To be compared and kept: an upstream without items is none."""
    return {upstream: dict(items) for upstream, items in identities.items() if items}


def _none(record: Record | None, now: Instant) -> bool:
    record = aged_record(record, now)
    return record is None or isinstance(record.state, Freed)


def _seen(rows: Rows, id: RecordId) -> Snapshot:
    record = rows.record(id)
    entity = record.entity if record else EntityId("", "")
    return Snapshot(Entity(entity), record)


def _entity(rows: Rows, id: EntityId) -> Entity:
    return rows.entity(id) or Entity(id)


# --- writing -------------------------------------------------------------------------------


def _write(rows: Rows, seen: Snapshot, left: Snapshot) -> None:
    if left.entity != seen.entity:
        rows.put_entity(left.entity)
    before = seen.record
    if left.record != before:
        id = left.record.id if left.record else before.id if before else None
        assert id is not None
        _write_record(rows, before, left.record, id)


def _write_lapsed(rows: Rows, call: Call, now: Instant) -> None:
    """What is overtaken because its hold ran out must stay so, though the clock go back."""
    for record in rows.lapsed(call.entity, call.fence, now):
        _write_record(rows, record, aged_record(record, now), record.id)


def _write_adopted(
    rows: Rows, wanted: Identities, adopted: Adopted, act: Act, now: Instant
) -> None:
    rows.put_identities(wanted)
    for change in adopted.changes:
        _audit(rows, act, "adopt", change.upstream, change, now)
    if adopted.switched:
        _audit(rows, act, "observed", "entities", rows.take_over(), now)


def _write_record(rows: Rows, before: Record | None, after: Record | None, id: RecordId) -> None:
    if after is None:
        rows.drop_record(id)
    else:
        rows.put_record(after)
    if after is None or isinstance(after.state, Freed):
        rows.leave_index(id)
    if before is not None and _is_news(before, after):
        rows.changed.update((before.id, before.entity))


def _write_index(rows: Rows, seen: Snapshot, left: Snapshot, call: Call, terms: Terms) -> None:
    if terms.one_effect_per is OneEffectPer.KEY or left.intent is None:
        return
    if left.intent != seen.intent or left.entity.high_water != seen.entity.high_water:
        rows.put_intent(left.entity, intent_of(call), left.intent)


def _is_news(before: Record, after: Record | None) -> bool:
    """Is there news for who waits? All but the renewal of an open attempt is."""
    if after is None or not isinstance(before.state, Open) or not isinstance(after.state, Open):
        return True
    return after.state.yields_at != before.state.yields_at


# --- journal and audit ---------------------------------------------------------------------


def _refused(call: Call, refusal: Refuse, now: Instant) -> JournalRow:
    return JournalRow(
        number=0,
        at=now,
        kind="refused",
        code=refusal.reason.value,
        entity=call.entity,
        record=call.record_id,
        fence=call.fence,
        high_water=refusal.high_water,
        holder=call.holder,
        attempt=call.attempt,
    )


def _noted(note: Note, call: Call, left: Snapshot, now: Instant) -> JournalRow:
    return JournalRow(
        number=0,
        at=now,
        kind=note.kind.value,
        code=None,
        entity=call.entity,
        record=call.record_id,
        fence=call.fence,
        high_water=left.entity.high_water,
        holder=call.holder,
        attempt=call.attempt,
        other_key=note.other_key,
        apart=note.apart,
    )


def _settled(note: Note, left: Snapshot, attempt: AttemptId, now: Instant) -> JournalRow:
    record = left.record
    assert record is not None
    return JournalRow(
        number=0,
        at=now,
        kind=note.kind.value,
        code=None,
        entity=record.entity,
        record=record.id,
        fence=record.fence if record.attempts else None,
        high_water=None,
        holder=None,
        attempt=attempt,
    )


def _audit(rows: Rows, act: Act, what: str, subject: str, verdict: object, now: Instant) -> None:
    rows.add_audit(AuditRow(0, now, act.actor, what, subject, act.reason, repr(verdict)))
