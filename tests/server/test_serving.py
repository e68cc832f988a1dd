"""The start: policies are adopted once, by a ledger that may be busy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import LedgerUnavailable
from fencegate.server import NotStarted, serving
from tests.gateway.rig import Around, write_policies


class Busy(Around):
    """Does not answer the first few times, though it may have done what was asked."""

    def __init__(self, times: int) -> None:
        super().__init__(MemoryLedger())
        self.asked = 0
        self._times = times

    async def adopt(self, *args: Any, **named: Any) -> Any:
        self.asked += 1
        told = await self.within.adopt(*args, **named)
        if self.asked <= self._times:
            raise LedgerUnavailable("busy", unclear=True)
        return told


async def test_a_start_waits_for_a_ledger_that_is_busy(tmp_path: Path) -> None:
    busy = Busy(2)
    policies = write_policies(tmp_path, "http://127.0.0.1:9", {})
    await serving._adopted(busy.ledger, policies, accept=False)
    assert busy.asked == 3


async def test_a_start_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "START_PATIENCE", 0.0)
    busy = Busy(1_000_000)
    policies = write_policies(tmp_path, "http://127.0.0.1:9", {})
    with pytest.raises(NotStarted, match="the ledger cannot be asked: busy; start again"):
        await serving._adopted(busy.ledger, policies, accept=False)
