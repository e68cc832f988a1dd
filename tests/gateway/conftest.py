"""The double, ledgers and gateways as fixtures, and the event loops that the tests run on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop

from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Ledger
from fencegate.ledger.sqlite import open_sqlite
from tests.double import Double
from tests.gateway.peers import upstream_up
from tests.gateway.rig import Clock, Gateway, Start, serving, write_policies


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The leg is at home on both loops; a gateway process runs on uvloop."""
    if item.path.name == "test_leg.py":
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def double() -> Iterator[Double]:
    with upstream_up() as upstream:
        yield upstream


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
async def ledger(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[Ledger]:
    kept: Ledger
    if request.param == "memory":
        kept = MemoryLedger(clock)
    else:
        kept = await open_sqlite(tmp_path / "ledger.db", clock)
    yield kept
    await kept.close()


@pytest.fixture
async def start(double: Double, ledger: Ledger, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts gateways before the double: `await start(duplicate_wait="50ms")`.

    Settings are those of the upstream; see `write_policies` for the others.
    """
    async with AsyncExitStack() as running:

        async def start_one(
            *,
            on: Ledger = ledger,
            url: str = "",
            more: Mapping[str, Any] | None = None,
            **upstream: Any,
        ) -> Gateway:
            policies = write_policies(tmp_path, url or double.url, upstream, **(more or {}))
            return await running.enter_async_context(serving(policies, on))

        yield start_one
