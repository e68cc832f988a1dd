"""The law over a dict: the model of every ledger, the ledger of unit tests, and `memory://`.

Nothing survives the process. One event loop; every step runs to its end without waiting.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from secrets import token_hex
from typing import TypeVar

from fencegate.core.aging import aged_record, due_at
from fencegate.core.identity import Adoption, Identities, enforced, taken_over
from fencegate.core.model import (
    AttemptId,
    Call,
    Decision,
    Done,
    Entity,
    EntityId,
    FenceLead,
    Instant,
    Intent,
    Open,
    Other,
    Record,
    RecordId,
    Renewal,
    Settlement,
    Terms,
    Unknown,
    word_of,
)
from fencegate.core.outcomes import Answer, Outcome
from fencegate.core.resolution import Announcement, Frozen, NotReset, Reset, Resolution, VerdictOn
from fencegate.ledger import steps
from fencegate.ledger.clock import wall_clock
from fencegate.ledger.protocol import (
    Act,
    AuditRow,
    EntityView,
    Filter,
    JournalRow,
    Page,
    Told,
    Topic,
    Watch,
)
from fencegate.ledger.watching import Watching

T = TypeVar("T")
LIVE = (Open, Unknown)


class MemoryRows:
    """Rows in dicts. An entity's live records and its index are found without a search."""

    def __init__(self) -> None:
        self.changed: set[Topic] = set()
        self._latest: Instant = 0
        self._entities: dict[EntityId, Entity] = {}
        self._records: dict[RecordId, Record] = {}
        self._live: dict[EntityId, dict[RecordId, Record]] = {}
        self._index: dict[EntityId, tuple[int, dict[bytes, Intent]]] = {}
        self._identities: Identities = {}
        self.journal: list[JournalRow] = []
        self.audit: list[AuditRow] = []

    def entity(self, id: EntityId) -> Entity | None:
        return self._entities.get(id)

    def put_entity(self, entity: Entity) -> None:
        self._entities[entity.id] = entity

    def record(self, id: RecordId) -> Record | None:
        return self._records.get(id)

    def put_record(self, record: Record) -> None:
        self._forget(record.id)
        self._records[record.id] = record
        if isinstance(record.state, LIVE):
            self._live.setdefault(record.entity, {})[record.id] = record

    def drop_record(self, id: RecordId) -> None:
        self._forget(id)
        self._records.pop(id, None)

    def others(
        self, entity: EntityId, below: int, but: RecordId, now: Instant
    ) -> tuple[Other, ...]:
        live = (aged_record(record, now) for record in self._live.get(entity, {}).values())
        return tuple(
            Other(record.fence, record.state)
            for record in live
            if record is not None
            and isinstance(record.state, LIVE)
            and record.fence < below
            and record.id != but
        )

    def lapsed(self, entity: EntityId, below: int, now: Instant) -> Sequence[Record]:
        return [
            record
            for record in self._live.get(entity, {}).values()
            if isinstance(record.state, Open)
            and record.state.hold_until <= now
            and record.fence < below
        ]

    def open_records(
        self, entity: EntityId, below: int | None, now: Instant, limit: int
    ) -> tuple[Record, ...]:
        live = self._live.get(entity, {}).values()
        found = (aged for record in live if (aged := aged_record(record, now)))
        kept = (
            record
            for record in found
            if isinstance(record.state, Open) and (below is None or record.fence < below)
        )
        return tuple(sorted(kept, key=lambda r: (r.fence, r.current.admitted_at, r.id.key)))[:limit]

    def count_open(self, entity: EntityId, below: int | None, now: Instant) -> int:
        return len(self.open_records(entity, below, now, limit=len(self._records)))

    def intent(self, entity: Entity, intent: bytes) -> Intent | None:
        under, index = self._index.get(entity.id, (0, {}))
        return index.get(intent) if under == entity.high_water else None

    def put_intent(self, entity: Entity, intent: bytes, names: Intent) -> None:
        under, index = self._index.get(entity.id, (0, {}))
        if under != entity.high_water:
            index = {}
        self._index[entity.id] = (entity.high_water, {**index, intent: names})

    def leave_index(self, record: RecordId) -> None:
        for entity, (under, index) in self._index.items():
            kept = {intent: names for intent, names in index.items() if names.key != record}
            self._index[entity] = (under, kept)

    def empty_index(self, entity: EntityId) -> None:
        self._index.pop(entity, None)

    def due(self, now: Instant, limit: int) -> Sequence[Record]:
        timed = ((due_at(record), record) for record in self._records.values())
        due = ((at, record) for at, record in timed if at is not None and at <= now)
        return [record for _, record in sorted(due, key=lambda pair: pair[0])][:limit]

    def latest(self) -> Instant:
        return self._latest

    def saw(self, now: Instant) -> None:
        self._latest = max(self._latest, now)

    def identities(self) -> Identities:
        return self._identities

    def put_identities(self, wanted: Identities) -> None:
        self._identities = wanted

    def count_live(self, upstream: str, now: Instant) -> int:
        live = (record for records in self._live.values() for record in records.values())
        aged = (aged_record(record, now) for record in live if record.id.upstream == upstream)
        return sum(record is not None and isinstance(record.state, LIVE) for record in aged)

    def take_over(self) -> int:
        raised = 0
        for observed in list(self._entities.values()):
            if (id := enforced(observed.id)) is None:
                continue
            was = self._entities.get(id, Entity(id))
            if (entity := taken_over(was, observed)) != was:
                self.put_entity(entity)
                raised += 1
            del self._entities[observed.id]
        return raised

    def add_journal(self, row: JournalRow) -> None:
        self.journal.append(replace(row, number=len(self.journal) + 1))

    def add_audit(self, row: AuditRow) -> None:
        self.audit.append(replace(row, number=len(self.audit) + 1))

    def records(self) -> list[Record]:
        return sorted(self._records.values(), key=lambda record: order_of(record.id))

    def _forget(self, id: RecordId) -> None:
        old = self._records.get(id)
        if old is not None:
            self._live.get(old.entity, {}).pop(id, None)


class MemoryLedger:
    """`memory://`: for tests and demos."""

    def __init__(self, clock: Callable[[], Instant] = wall_clock) -> None:
        self.id = token_hex(16)
        self._clock = clock
        self._rows = MemoryRows()
        self._watching = Watching()

    async def admit(self, call: Call, terms: Terms) -> Told[Decision]:
        return self._step(lambda rows, now: steps.admit(rows, call, terms, now))

    async def preview(self, call: Call, terms: Terms) -> Decision:
        return steps.preview(self._rows, call, terms, self._clock())

    async def renew(self, held: Sequence[tuple[RecordId, AttemptId]]) -> list[Renewal]:
        return self._step(lambda rows, now: steps.renew(rows, held, now))

    async def settle(
        self, record: RecordId, attempt: AttemptId, outcome: Outcome
    ) -> Told[Settlement]:
        return self._step(lambda rows, now: steps.settle(rows, record, attempt, outcome, now))

    async def announce(
        self, entity: EntityId, fence: int, holder: str | None, lead: FenceLead | None
    ) -> tuple[Announcement, int]:
        return self._step(lambda rows, now: steps.announce(rows, entity, fence, holder, lead, now))

    async def resolve(self, record: RecordId, verdict: VerdictOn, act: Act) -> Resolution:
        return self._step(lambda rows, now: steps.resolve(rows, record, verdict, act, now))

    async def freeze(self, entity: EntityId, frozen: bool, act: Act) -> Frozen:
        return self._step(lambda rows, now: steps.freeze(rows, entity, frozen, act, now))

    async def reset(self, entity: EntityId, high_water: int, act: Act) -> Reset | NotReset:
        return self._step(lambda rows, now: steps.reset(rows, entity, high_water, act, now))

    async def adopt(
        self, identities: Identities, accept: bool, act: Act, *, preview: bool = False
    ) -> Adoption:
        if preview:
            now = self._clock()
            return steps.adopt(self._rows, identities, accept, act, now, preview=True)
        return self._step(
            lambda rows, now: steps.adopt(rows, identities, accept, act, now, preview=False)
        )

    async def inspect(self, entity: EntityId) -> EntityView:
        return steps.inspect(self._rows, entity, self._clock())

    async def inspect_key(self, record: RecordId) -> Record | None:
        return steps.inspect_key(self._rows, record, self._clock())

    async def list(self, filter: Filter, after: RecordId | None = None, limit: int = 100) -> Page:
        now = self._clock()
        aged = (aged_record(record, now) for record in self._rows.records())
        found = [record for record in aged if record is not None and _shown(record, filter)]
        if after is not None:
            found = found[bisect_right([order_of(r.id) for r in found], order_of(after)) :]
        page = tuple(_without_body(record) for record in found[:limit])
        return Page(page, page[-1].id if len(found) > limit else None)

    async def journal(self, after: int = 0, limit: int = 100) -> tuple[JournalRow, ...]:
        return tuple(self._rows.journal[after : after + limit])

    async def audit(self, after: int = 0, limit: int = 100) -> tuple[AuditRow, ...]:
        return tuple(self._rows.audit[after : after + limit])

    async def expire(self, limit: int = 100) -> int:
        return self._step(lambda rows, now: steps.expire(rows, now, limit))

    def watch(self, topic: Topic) -> AbstractContextManager[Watch]:
        return self._watching.watch(topic)

    async def close(self) -> None:
        """Nothing is kept open."""

    def _step(self, work: Callable[[MemoryRows, Instant], T]) -> T:
        now = self._clock()
        told = work(self._rows, now)
        self._rows.saw(now)
        self._watching.tell(self._rows.changed)
        self._rows.changed.clear()
        return told


def order_of(id: RecordId) -> tuple[str, str, str]:
    """The order of lists: upstream, caller (none first), key."""
    return id.upstream, id.caller or "", id.key


def _without_body(record: Record) -> Record:
    match record.state:
        case Done(answer=Answer() as answer) as done:
            return replace(record, state=replace(done, answer=replace(answer, body=b"")))
        case _:
            return record


def _shown(record: Record, filter: Filter) -> bool:
    return (
        (filter.upstream is None or record.id.upstream == filter.upstream)
        and (filter.state is None or word_of(record.state) == filter.state)
        and (filter.entity is None or record.entity == filter.entity)
        and (filter.key is None or record.id.key == filter.key)
    )
