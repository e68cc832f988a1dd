"""The holds of the attempts that are open here, on a clock that runs during suspend.

A local hold counts from when the confirmed admission or renewal was *sent*, so it never outlasts
the ledger's. One task renews all of them together; a renewal that the ledger refuses makes the
local hold bad at once, and it is never good again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fencegate.core.events import Event, HoldLost, LedgerFailed
from fencegate.core.model import SECOND, AttemptId, Go, Held, Micros, RecordId
from fencegate.ledger.protocol import Ledger, LedgerUnavailable

RENEWALS_PER_HOLD = 3  # two renewals may be lost before a hold is


def boottime() -> float:
    """Seconds on a clock that does not stop while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class Hold:
    """One attempt's right to send, until `good_until` (and never after `window_until`)."""

    record: RecordId
    attempt: AttemptId
    good_until: float
    window_until: float | None
    clock: Callable[[], float]
    lost: bool = False

    def good(self) -> bool:
        """May the first byte leave now?"""
        now = self.clock()
        in_window = self.window_until is None or now < self.window_until
        return not self.lost and now < self.good_until and in_window


class Holds:
    """All holds of this process."""

    def __init__(
        self,
        ledger: Ledger,
        hold: Micros,
        emit: Callable[[Event], None],
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._ledger = ledger
        self._sooner = asyncio.Event()
        self.every(hold)
        self._emit = emit
        self.clock = clock
        self._kept: dict[AttemptId, Hold] = {}

    def every(self, hold: Micros) -> None:
        """Renew often enough for holds of this length, beginning now."""
        self._every = hold / SECOND / RENEWALS_PER_HOLD
        self._sooner.set()

    def of(self, go: Go, asked_at: float) -> Hold:
        """The local hold of an admission that was sent at `asked_at`."""
        window = None if go.window_left is None else asked_at + go.window_left / SECOND
        good_until = asked_at + go.hold_left / SECOND
        return Hold(go.record_id, go.attempt, good_until, window, self.clock)

    @contextmanager
    def kept(self, hold: Hold) -> Iterator[Hold]:
        """Renew it until the block is left."""
        self._kept[hold.attempt] = hold
        try:
            yield hold
        finally:
            del self._kept[hold.attempt]

    async def run(self) -> None:
        """Renew for ever; the owner of the task cancels it."""
        while True:
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._sooner.wait()
            if self._kept:
                await self.renew()

    async def renew(self) -> None:
        """One renewal of all that are kept. Without an answer nothing changes: a hold runs out."""
        held = list(self._kept.values())
        sent_at = self.clock()
        try:
            renewals = await self._ledger.renew([(hold.record, hold.attempt) for hold in held])
        except LedgerUnavailable as error:
            self._emit(LedgerFailed("renew", str(error), error.unclear))
            return
        for hold, renewal in zip(held, renewals, strict=True):
            if isinstance(renewal, Held):
                hold.good_until = sent_at + renewal.hold_left / SECOND
            elif not hold.lost:
                hold.lost = True
                if hold.attempt in self._kept:
                    self._emit(HoldLost(hold.attempt))
