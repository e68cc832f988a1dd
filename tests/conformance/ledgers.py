"""The ledgers that the suite is run on, and the clock that it gives them.

A new ledger is one more entry in `LEDGERS`. What it can do is said there; no test asks its name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencegate.core.model import DAY, Instant, Micros
from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Ledger
from fencegate.ledger.sqlite import open_sqlite

START: Instant = 20_000 * DAY
PATIENT = 60.0  # seconds: a busy machine is no finding


class FakeClock:
    """A ledger's clock that stands still until it is moved."""

    def __init__(self, now: Instant = START) -> None:
        self.now = now

    def __call__(self) -> Instant:
        return self.now

    def move(self, by: Micros) -> None:
        self.now += by


@dataclass(frozen=True)
class Kind:
    """How a ledger of this kind is opened at a place (an empty folder), and what it can do.

    `durable`: closed and opened again it is the same ledger. `shared`: two that are open at one
    place are one ledger.
    """

    name: str
    open: Callable[[FakeClock, Path], Awaitable[Ledger]]
    durable: bool
    shared: bool


async def _memory(clock: FakeClock, place: Path) -> Ledger:
    return MemoryLedger(clock)


async def _sqlite(clock: FakeClock, place: Path) -> Ledger:
    return await open_sqlite(place / "ledger.db", clock, patience=PATIENT)


LEDGERS = (
    Kind("memory", _memory, durable=False, shared=False),
    Kind("sqlite", _sqlite, durable=True, shared=True),
)


def _of(kinds: list[Kind]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds, ids=[kind.name for kind in kinds])


every_ledger = _of(list(LEDGERS))
durable_ledgers = _of([kind for kind in LEDGERS if kind.durable])
shared_ledgers = _of([kind for kind in LEDGERS if kind.shared])


@asynccontextmanager
async def opened(kind: Kind, place: Path) -> AsyncIterator[tuple[Ledger, FakeClock]]:
    """A new ledger and its clock."""
    clock = FakeClock()
    ledger = await kind.open(clock, place)
    try:
        yield ledger, clock
    finally:
        await ledger.close()
