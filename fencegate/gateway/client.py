"""A client behind ASGI's `receive`: its body, bounded, and the moment it leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class ClientDisconnect(Exception):
    """The client left before its body was read: nothing was asked, nobody is answered."""


class Client:
    def __init__(self, receive: Receive, declared_length: int | None) -> None:
        self._receive = receive
        self._declared_length = declared_length
        self._body: bytes | None = None

    async def read_body(self, limit: int) -> bytes | None:
        """The whole body; None as soon as it is known to be larger than `limit` bytes. It may be
        asked for again once it is there."""
        if self._body is not None:
            return self._body if len(self._body) <= limit else None
        if self._declared_length is not None and self._declared_length > limit:
            return None
        pieces: list[bytes] = []
        length = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            length += len(piece)
            if length > limit:
                return None
            pieces.append(piece)
            if not message.get("more_body", False):
                self._body = b"".join(pieces)
                return self._body

    async def left(self) -> None:
        """Ends when the client hangs up. Only after its body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
