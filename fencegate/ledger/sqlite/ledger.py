"""`sqlite://`: the verbs over one file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fencegate.core.identity import Adoption, Identities
from fencegate.core.model import (
    AttemptId,
    Call,
    Decision,
    EntityId,
    FenceLead,
    Instant,
    Record,
    RecordId,
    Renewal,
    Settlement,
    Terms,
)
from fencegate.core.outcomes import Outcome
from fencegate.core.resolution import Announcement, Frozen, NotReset, Reset, Resolution, VerdictOn
from fencegate.ledger import steps
from fencegate.ledger.clock import wall_clock
from fencegate.ledger.protocol import (
    Act,
    AuditRow,
    EntityView,
    Filter,
    JournalRow,
    LedgerUnavailable,
    Page,
    Told,
    Topic,
    Watch,
)
from fencegate.ledger.sqlite.neighbours import Neighbours
from fencegate.ledger.sqlite.rows import SqliteRows
from fencegate.ledger.sqlite.schema import connect, open_file
from fencegate.ledger.sqlite.turn import Turn
from fencegate.ledger.sqlite.writer import Writer
from fencegate.ledger.watching import Watching

T = TypeVar("T")
PATIENCE = 1.8  # seconds; a call whose ledger does not answer is refused within 2 s


async def open_sqlite(
    path: Path, clock: Callable[[], Instant] = wall_clock, patience: float = PATIENCE
) -> SqliteLedger:
    """Open a ledger's file, making or migrating it. Raises `LedgerUnusable`."""
    turn, id = await asyncio.to_thread(open_file, path)
    return SqliteLedger(path, id, turn, clock, patience)


class SqliteLedger:
    def __init__(
        self, path: Path, id: str, turn: Turn, clock: Callable[[], Instant], patience: float
    ) -> None:
        self.id = id
        self._clock = clock
        self._patience = patience
        self._watching = Watching()
        self._writer = Writer(lambda: connect(path), turn, clock, self._watching.tell)
        self._neighbours = Neighbours(path, self._watching)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="ledger-reader")
        self._reader: sqlite3.Connection | None = None
        self._path = path
        self._closed = False

    # --- calls -----------------------------------------------------------------------------

    async def admit(self, call: Call, terms: Terms) -> Told[Decision]:
        return await self._write(lambda rows, now: steps.admit(rows, call, terms, now))

    async def preview(self, call: Call, terms: Terms) -> Decision:
        return await self._read(lambda rows: steps.preview(rows, call, terms, self._clock()))

    async def renew(self, held: Sequence[tuple[RecordId, AttemptId]]) -> list[Renewal]:
        return await self._write(lambda rows, now: steps.renew(rows, held, now))

    async def settle(
        self, record: RecordId, attempt: AttemptId, outcome: Outcome
    ) -> Told[Settlement]:
        return await self._write(
            lambda rows, now: steps.settle(rows, record, attempt, outcome, now)
        )

    # --- operators -------------------------------------------------------------------------

    async def announce(
        self, entity: EntityId, fence: int, holder: str | None, lead: FenceLead | None
    ) -> tuple[Announcement, int]:
        return await self._write(
            lambda rows, now: steps.announce(rows, entity, fence, holder, lead, now)
        )

    async def resolve(self, record: RecordId, verdict: VerdictOn, act: Act) -> Resolution:
        return await self._write(lambda rows, now: steps.resolve(rows, record, verdict, act, now))

    async def freeze(self, entity: EntityId, frozen: bool, act: Act) -> Frozen:
        return await self._write(lambda rows, now: steps.freeze(rows, entity, frozen, act, now))

    async def reset(self, entity: EntityId, high_water: int, act: Act) -> Reset | NotReset:
        return await self._write(lambda rows, now: steps.reset(rows, entity, high_water, act, now))

    async def adopt(
        self, identities: Identities, accept: bool, act: Act, *, preview: bool = False
    ) -> Adoption:
        def step(rows: SqliteRows, now: Instant) -> Adoption:
            return steps.adopt(rows, identities, accept, act, now, preview=preview)

        if preview:
            return await self._read(lambda rows: step(rows, self._clock()))
        return await self._write(step)

    async def inspect(self, entity: EntityId) -> EntityView:
        return await self._read(lambda rows: steps.inspect(rows, entity, self._clock()))

    async def inspect_key(self, record: RecordId) -> Record | None:
        return await self._read(lambda rows: steps.inspect_key(rows, record, self._clock()))

    async def list(self, filter: Filter, after: RecordId | None = None, limit: int = 100) -> Page:
        return await self._read(lambda rows: rows.list(filter, after, self._clock(), limit))

    async def journal(self, after: int = 0, limit: int = 100) -> tuple[JournalRow, ...]:
        return await self._read(lambda rows: rows.journal(after, limit))

    async def audit(self, after: int = 0, limit: int = 100) -> tuple[AuditRow, ...]:
        return await self._read(lambda rows: rows.audit(after, limit))

    async def expire(self, limit: int = 100) -> int:
        return await self._write(lambda rows, now: steps.expire(rows, now, limit))

    @contextmanager
    def watch(self, topic: Topic) -> Iterator[Watch]:
        with self._watching.watch(topic) as watcher, self._neighbours.listening():
            yield watcher

    async def close(self) -> None:
        """Write what was asked, and let go of the file."""
        self._neighbours.close()
        await self._writer.close()
        if not self._closed:
            self._closed = True
            self._reading.submit(self._close_reader)
            self._reading.shutdown()

    # --- how -------------------------------------------------------------------------------

    async def _write(self, work: Callable[[SqliteRows, Instant], T]) -> T:
        asked = self._writer.ask(work)
        try:
            async with asyncio.timeout(self._patience):
                answer: T = await asked.answer
                return answer
        except TimeoutError:
            unclear = not self._writer.withdraw(asked)
            why = f"no answer from the ledger's file within {self._patience} s"
            raise LedgerUnavailable(why, unclear=unclear) from None
        except asyncio.CancelledError:
            self._writer.withdraw(asked)
            raise

    async def _read(self, work: Callable[[SqliteRows], T]) -> T:
        if self._closed:
            raise LedgerUnavailable("the ledger is closed")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._reading, self._on_reader, work)
        except sqlite3.Error as error:
            raise LedgerUnavailable(f"{type(error).__name__}: {error}") from error

    def _on_reader(self, work: Callable[[SqliteRows], Any]) -> Any:
        if self._reader is None:
            self._reader = connect(self._path)
        self._reader.execute("BEGIN")
        try:
            return work(SqliteRows(self._reader))
        finally:
            self._reader.execute("ROLLBACK")

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
