"""What a ledger must answer and hold: the law over dicts, one call after the other.

It shares the pure law with every ledger and nothing else: how a snapshot is found and what is
written of a ruling is said here once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from fencegate.core import admission, resolution, settlement
from fencegate.core.aging import aged_record
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
from fencegate.ledger.protocol import Act, EntityView, JournalRow, Told


class Oracle:
    """The verbs of a ledger, for one caller at a time."""

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._clock = clock
        self._latest: Instant = 0
        self._entities: dict[EntityId, Entity] = {}
        self._records: dict[RecordId, Record] = {}
        self._on: dict[EntityId, set[RecordId]] = defaultdict(set)
        self._index: dict[EntityId, dict[bytes, Intent]] = defaultdict(dict)
        self.journal: list[JournalRow] = []

    # --- calls -----------------------------------------------------------------------------

    async def admit(self, call: Call, terms: Terms) -> Told[Decision]:
        now = self._now()
        entity = self._entity(call.entity)
        index = self._index[call.entity]
        asks_index = terms.one_effect_per is not OneEffectPer.KEY
        named = index.get(intent_of(call)) if asks_index else None
        record = self._record(call.record_id)
        if terms.one_effect_per is OneEffectPer.INTENT and named and _nothing(record):
            record = self._record(named.key) or record
        own = record.id if record else call.record_id
        seen = Snapshot(entity, record, self._below(call, own), named, self._latest)

        ruling = admission.admit(seen, call, terms, now)
        left = ruling.left
        if left.entity.high_water > entity.high_water:
            index.clear()
        self._entities[entity.id] = left.entity
        self._keep(record.id if record else None, left.record)
        if asks_index and left.intent:
            index[intent_of(call)] = left.intent
        if isinstance(ruling.verdict, Refuse):
            self._tell(call, "refused", left.entity, code=ruling.verdict.reason.value)
        for note in ruling.notes:
            self._tell(call, note.kind.value, left.entity, note=note)
        return Told(ruling.verdict, ruling.notes)

    async def renew(self, held: Sequence[tuple[RecordId, AttemptId]]) -> list[Renewal]:
        return [self._renew(id, attempt) for id, attempt in held]

    async def settle(
        self, record: RecordId, attempt: AttemptId, outcome: Outcome
    ) -> Told[Settlement]:
        now = self._now()
        ruling = settlement.settle(self._seen(record), attempt, outcome, now)
        self._keep(record, ruling.left.record)
        for note in ruling.notes:
            left = ruling.left.record
            assert left is not None
            fence = left.fence if left.attempts else None
            self._add(now, note.kind.value, left.entity, record, attempt, fence=fence)
        return Told(ruling.verdict, ruling.notes)

    def _renew(self, id: RecordId, attempt: AttemptId) -> Renewal:
        ruling = settlement.renew(self._seen(id), attempt, self._now())
        self._keep(id, ruling.left.record)
        return ruling.verdict

    # --- operators -------------------------------------------------------------------------

    async def announce(
        self, entity: EntityId, fence: int, holder: str | None, lead: FenceLead | None
    ) -> tuple[Announcement, int]:
        now = self._now()
        seen = Snapshot(self._entity(entity))
        ruling = resolution.announce(seen, fence, holder, lead, now)
        self._entities[entity] = ruling.left.entity
        if ruling.left.entity.high_water > seen.entity.high_water:
            self._index[entity].clear()
        return ruling.verdict, sum(record.fence < fence for record in self._open(entity))

    async def resolve(self, record: RecordId, verdict: VerdictOn, act: Act) -> Resolution:
        ruling = resolution.resolve(self._seen(record), verdict, self._now())
        self._keep(record, ruling.left.record)
        return ruling.verdict

    async def freeze(self, entity: EntityId, frozen: bool, act: Act) -> Frozen:
        self._now()
        ruling = resolution.freeze(Snapshot(self._entity(entity)), frozen)
        self._entities[entity] = ruling.left.entity
        return ruling.verdict

    async def reset(self, entity: EntityId, high_water: int, act: Act) -> Reset | NotReset:
        now = self._now()
        seen = Snapshot(self._entity(entity))
        ruling = resolution.reset(seen, high_water, len(self._open(entity)), now)
        self._entities[entity] = ruling.left.entity
        if isinstance(ruling.verdict, Reset):
            self._index[entity].clear()
        return ruling.verdict

    async def inspect(self, entity: EntityId) -> EntityView:
        return EntityView(self._entity(entity), tuple(self._open(entity)))

    async def inspect_key(self, record: RecordId) -> Record | None:
        return self._record(record)

    # --- rows ------------------------------------------------------------------------------

    def _now(self) -> Instant:
        now = self._clock()
        self._latest = max(self._latest, now)
        return now

    def _entity(self, id: EntityId) -> Entity:
        return self._entities.get(id, Entity(id))

    def _record(self, id: RecordId) -> Record | None:
        return aged_record(self._records.get(id), self._clock())

    def _seen(self, id: RecordId) -> Snapshot:
        record = self._record(id)
        return Snapshot(self._entity(record.entity if record else EntityId("", "")), record)

    def _records_on(self, entity: EntityId) -> list[Record]:
        found = (self._record(id) for id in self._on[entity])
        return [record for record in found if record is not None]

    def _below(self, call: Call, own: RecordId) -> tuple[Other, ...]:
        return tuple(
            Other(record.fence, record.state)
            for record in self._records_on(call.entity)
            if isinstance(record.state, (Open, Unknown))
            and record.fence < call.fence
            and record.id != own
        )

    def _open(self, entity: EntityId) -> list[Record]:
        found = [r for r in self._records_on(entity) if isinstance(r.state, Open)]
        return sorted(found, key=lambda r: (r.fence, r.current.admitted_at, r.id.key))

    def _keep(self, was: RecordId | None, record: Record | None) -> None:
        """What became of a record; one that is free or gone is named by no intent."""
        id = record.id if record else was
        if id is None:
            return
        old = self._records.pop(id, None)
        if record is not None:
            self._records[id] = record
            self._on[record.entity].add(id)
        if old is not None and _nothing(record):
            index = self._index[old.entity]
            for intent in [intent for intent, names in index.items() if names.key == id]:
                del index[intent]

    # --- journal ---------------------------------------------------------------------------

    def _tell(
        self,
        call: Call,
        kind: str,
        entity: Entity,
        code: str | None = None,
        note: Note | None = None,
    ) -> None:
        self._add(
            self._clock(),
            kind,
            call.entity,
            call.record_id,
            call.attempt,
            code=code,
            fence=call.fence,
            high_water=entity.high_water,
            holder=call.holder,
            other_key=note.other_key if note else None,
            apart=note.apart if note else None,
        )

    def _add(
        self,
        at: Instant,
        kind: str,
        entity: EntityId,
        record: RecordId,
        attempt: AttemptId,
        *,
        code: str | None = None,
        fence: int | None = None,
        high_water: int | None = None,
        holder: str | None = None,
        other_key: str | None = None,
        apart: int | None = None,
    ) -> None:
        row = JournalRow(
            0,
            at,
            kind,
            code,
            entity,
            record,
            fence,
            high_water,
            holder,
            attempt,
            other_key,
            apart,
        )
        self.journal.append(row)


def _nothing(record: Record | None) -> bool:
    return record is None or isinstance(record.state, Freed)
