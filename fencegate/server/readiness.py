"""May traffic be sent here? Not while this process goes away, and not while its ledger is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fencegate.core.events import Event, LedgerFailed
from fencegate.ledger.protocol import Ledger, LedgerUnavailable

LOOK_EVERY = 2.0  # seconds; with the ledger's own patience of less than 2 s, red within 5 s


class Readiness:
    def __init__(self, ledger: Ledger, emit: Callable[[Event], None]) -> None:
        self._ledger = ledger
        self._emit = emit
        self._away: str | None = None
        self.draining = False

    def why_not(self) -> str | None:
        """Why no traffic should be sent here; None if it may be."""
        return "draining" if self.draining else self._away

    async def run(self) -> None:
        """Look after the ledger for ever; the owner of the task cancels it."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """One step in the ledger that changes nothing."""
        try:
            await self._ledger.renew([])
            self._away = None
        except LedgerUnavailable as error:
            if self._away is None:
                self._emit(LedgerFailed("look", str(error), error.unclear))
            self._away = "the ledger does not answer"
