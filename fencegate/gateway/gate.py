"""What one gateway process has: its ledger, its holds, and the tasks that nobody may lose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fencegate.core.attempts import AttemptIds
from fencegate.core.events import Event
from fencegate.gateway.holds import Holds
from fencegate.gateway.slots import Slots
from fencegate.ledger.protocol import Ledger

T = TypeVar("T")


class Gate:
    def __init__(
        self, ledger: Ledger, holds: Holds, ids: AttemptIds, emit: Callable[[Event], None]
    ) -> None:
        self.ledger = ledger
        self.holds = holds
        self.ids = ids
        self.slots = Slots()
        self.emit = emit
        self._tasks: set[asyncio.Task[Any]] = set()

    async def detached(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work that goes on when the waiter is cancelled."""
        return await asyncio.shield(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Let work run by itself; `drained` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drained(self, timeout: float) -> int:
        """Wait until nothing is under way; answers how much was left at the end of the time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
        return len(self._tasks)
