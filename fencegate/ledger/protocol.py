"""What the gateway and the operators see of a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from fencegate.core.identity import Adoption, Identities
from fencegate.core.model import (
    AttemptId,
    Call,
    Decision,
    Entity,
    EntityId,
    FenceLead,
    Instant,
    Note,
    Record,
    RecordId,
    Renewal,
    Settlement,
    Terms,
)
from fencegate.core.outcomes import Outcome
from fencegate.core.resolution import (
    Announcement,
    Frozen,
    NotReset,
    Reset,
    Resolution,
    VerdictOn,
)

Topic = RecordId | EntityId
Verdict = TypeVar("Verdict", covariant=True)


class LedgerUnavailable(Exception):
    """The ledger cannot decide. `unclear` says that it may have decided all the same, and the
    caller must undo by the attempt's id; otherwise nothing was recorded and never will be."""

    def __init__(self, why: str, *, unclear: bool = False) -> None:
        super().__init__(why)
        self.unclear = unclear


class LedgerUnusable(Exception):
    """The ledger cannot be opened: a wrong address, another program's file, a newer schema."""


@dataclass(frozen=True, slots=True)
class Told(Generic[Verdict]):
    """A verdict, and what was put in the journal besides a refusal."""

    verdict: Verdict
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """Who did an operator's act, and why. Both stand in the audit."""

    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class EntityView:
    """An entity's row and its open records, lowest fence first (at most 100)."""

    entity: Entity
    open: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records a list shows; what is None does not matter."""

    upstream: str | None = None
    state: str | None = None
    entity: EntityId | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some records in a fixed order; `after` continues the list, None ends it."""

    records: tuple[Record, ...]
    after: RecordId | None


@dataclass(frozen=True, slots=True)
class JournalRow:
    """A refusal (`kind` is "refused", `code` why) or another note. Never a body or a header."""

    number: int
    at: Instant
    kind: str
    code: str | None
    entity: EntityId
    record: RecordId
    fence: int | None
    high_water: int | None
    holder: str | None
    attempt: str | None
    other_key: str | None = None
    apart: int | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An operator's act, with its reason and what it changed."""

    number: int
    at: Instant
    actor: str
    act: str
    subject: str
    reason: str
    result: str


class Watch(Protocol):
    async def changed(self, timeout: float) -> bool:
        """Wait until the topic may have changed; False when `timeout` seconds are over."""
        ...


class Ledger(Protocol):
    """Every verb is one atomic step by the ledger's clock; `LedgerUnavailable` is its only error.

    Lists and `inspect` show what is true now, also where no sweeper has written it down. Lists
    leave bodies out: an answer that is kept has an empty one there.
    """

    @property
    def id(self) -> str:
        """Made once with the ledger; two ids behind one address are two ledgers."""
        ...

    async def admit(self, call: Call, terms: Terms) -> Told[Decision]: ...

    async def preview(self, call: Call, terms: Terms) -> Decision:
        """What `admit` would say now. Nothing is changed and nothing recorded, neither high water
        nor the journal: a `Go` is no permission to send. `LedgerUnavailable` is the only error."""
        ...

    async def renew(self, held: Sequence[tuple[RecordId, AttemptId]]) -> list[Renewal]:
        """Renew the holds of many attempts in one step; answers in their order."""
        ...

    async def settle(
        self, record: RecordId, attempt: AttemptId, outcome: Outcome
    ) -> Told[Settlement]: ...

    async def announce(
        self, entity: EntityId, fence: int, holder: str | None, lead: FenceLead | None
    ) -> tuple[Announcement, int]:
        """Raise high water; also answers how many attempts with a lower fence are open."""
        ...

    async def resolve(self, record: RecordId, verdict: VerdictOn, act: Act) -> Resolution: ...

    async def freeze(self, entity: EntityId, frozen: bool, act: Act) -> Frozen: ...

    async def reset(self, entity: EntityId, high_water: int, act: Act) -> Reset | NotReset: ...

    async def adopt(
        self, identities: Identities, accept: bool, act: Act, *, preview: bool = False
    ) -> Adoption:
        """Keep how identities are read from now on, in place of all that was kept.

        Refused, and nothing is changed, where a changed upstream has open or unknown records,
        unless `accept`. Where a route no longer observes, high water rises to what was observed;
        who watches those entities is not told. What changed is audited. The same identities
        again, also from another gateway, change and write nothing. `preview` answers what would
        become of it and writes nothing. `LedgerUnavailable` is the only error."""
        ...

    async def inspect(self, entity: EntityId) -> EntityView: ...

    async def inspect_key(self, record: RecordId) -> Record | None: ...

    async def list(
        self, filter: Filter, after: RecordId | None = None, limit: int = 100
    ) -> Page: ...

    async def journal(self, after: int = 0, limit: int = 100) -> tuple[JournalRow, ...]: ...

    async def audit(self, after: int = 0, limit: int = 100) -> tuple[AuditRow, ...]: ...

    async def expire(self, limit: int = 100) -> int:
        """Write down what time has done to at most `limit` records; answers to how many."""
        ...

    def watch(self, topic: Topic) -> AbstractContextManager[Watch]:
        """Be told of changes from entering on: look once more after entering, then wait."""
        ...

    async def close(self) -> None: ...
