"""How a gateway goes away.

SIGTERM        `/readyz` is red at once; calls are taken for `drain_delay` more, so that who
               spreads traffic has seen it; then none is, and what is under way may end within
               `drain_timeout`; what has not ended then is given up and recorded as unknown
SIGINT         the same without the delay: somebody sits at a terminal
either again   what is under way is given up at once
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fencegate.core.events import Event, GatewayDraining
from fencegate.server.applied import Applied
from fencegate.server.ports import Port
from fencegate.server.readiness import Readiness

GIVEN_UP = 3.0  # seconds in which what was given up is recorded and answered


class Draining:
    """What becomes of the data port and of what is under way, signal by signal."""

    def __init__(
        self,
        data_port: Port,
        readiness: Readiness,
        applied: Applied,
        emit: Callable[[Event], None],
    ) -> None:
        self._data_port = data_port
        self._readiness = readiness
        self._applied = applied
        self._emit = emit
        self._stopping = False
        self._until = 0.0

    def begin(self, *, delayed: bool) -> None:
        """Called for each signal."""
        loop = asyncio.get_running_loop()
        if self._readiness.draining:
            self._give_up()
            return
        self._readiness.draining = True
        gateway = self._applied.policies.gateway
        delay, timeout = gateway.drain_delay if delayed else 0.0, self._applied.drain
        self._emit(GatewayDraining(delay, timeout))
        loop.call_later(delay, self._stop, timeout)

    def left(self) -> float:
        """Seconds that what is under way still has, recording included."""
        return max(self._until - asyncio.get_running_loop().time(), 0.0) + GIVEN_UP

    def _stop(self, timeout: float) -> None:
        if not self._stopping:
            self._stopping = True
            self._until = asyncio.get_running_loop().time() + timeout
            self._data_port.stop(timeout + GIVEN_UP)
            asyncio.get_running_loop().call_later(timeout, self._applied.interrupt)

    def _give_up(self) -> None:
        self._stop(0.0)
        self._until = 0.0
        self._applied.interrupt()
        asyncio.get_running_loop().call_later(GIVEN_UP, self._data_port.force)
