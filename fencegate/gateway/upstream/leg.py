"""A leg: the pool of connections to one upstream, and the one attempt that a call gets."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fencegate.core.outcomes import Answer, Headers, NotSent, OutcomeUnknown, Unsent
from fencegate.gateway.upstream.connection import Connection
from fencegate.gateway.upstream.head import request_head

MayWrite = Callable[[], bool]
"""Asked just before the first byte: is the attempt's hold still good?"""


@dataclass(frozen=True, slots=True, repr=False)
class LegSettings:
    """Where an upstream is. Times in seconds."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    inject: Headers
    via: bytes
    reuse_within: float
    pool: int = 64

    @property
    def authority(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.tls else 80
        return (host if self.port == default else f"{host}:{self.port}").encode("ascii")


@dataclass(frozen=True, slots=True, repr=False)
class Outgoing:
    """What is sent: the target and the header bytes as the policy saw them. `inject`: with the
    headers that the gateway sets."""

    method: str
    target: bytes
    headers: Headers
    body: bytes
    connect_timeout: float
    timeout: float
    inject: bool = True


class Leg:
    """Sends to one upstream. Every `forward` writes to at most one connection, once."""

    def __init__(self, settings: LegSettings) -> None:
        self._settings = settings
        self._closed = False
        self._busy: set[Connection] = set()
        self._idle: deque[Connection] = deque()

    async def forward(
        self, outgoing: Outgoing, may_write: MayWrite
    ) -> Answer | NotSent | OutcomeUnknown:
        head = self._head(outgoing)
        connection = await self._connection(outgoing.connect_timeout)
        if connection is None:
            return NotSent(Unsent.NO_CONNECTION)
        if not may_write():
            self._keep(connection)
            return NotSent(Unsent.HOLD_BAD)
        connection.write(outgoing.method, head, outgoing.body, outgoing.timeout)
        self._busy.add(connection)
        try:
            ended = await connection.ended()
        finally:
            self._busy.discard(connection)
        if connection.reusable:
            self._keep(connection)
        else:
            connection.close()
        return ended

    def close(self) -> None:
        """Close what is idle, now and from now on; exchanges under way run on."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    def interrupt(self) -> None:
        """Give up all exchanges under way: their outcomes are unknown."""
        for connection in list(self._busy):
            connection.interrupt()

    def _head(self, outgoing: Outgoing) -> bytes:
        settings = self._settings
        return request_head(
            outgoing.method,
            outgoing.target,
            settings.authority,
            outgoing.headers,
            len(outgoing.body),
            inject=settings.inject if outgoing.inject else (),
            via=settings.via,
        )

    async def _connection(self, connect_timeout: float) -> Connection | None:
        """An idle connection that may be used again, or a new one; None if none can be made.

        Between this and the first byte nothing is awaited: what shows no end now is written to.
        """
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh(self._settings.reuse_within):
                return connection
            connection.close()
        try:
            async with asyncio.timeout(connect_timeout):
                connection = await self._connect()
        except (OSError, ssl.SSLError, TimeoutError, UnicodeError):  # the last: no name for DNS
            return None
        if connection.closing or (self._settings.tls is None and not connection.silent):
            connection.close()  # the peer hung up at once, and nothing was written
            return None
        return connection

    def _keep(self, connection: Connection) -> None:
        """For the next call; those at the other end that have become too old are closed."""
        if self._closed or not self._settings.pool:
            connection.close()
            return
        while self._idle and not self._idle[0].young(self._settings.reuse_within):
            self._idle.popleft().close()
        if len(self._idle) >= self._settings.pool:
            self._idle.popleft().close()
        self._idle.append(connection)

    async def _connect(self) -> Connection:
        settings = self._settings
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection,
            settings.host,
            settings.port,
            ssl=settings.tls,
            server_hostname=settings.host if settings.tls else None,
        )
        return connection
