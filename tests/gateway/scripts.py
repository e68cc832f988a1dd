"""More script words for the double: what an upstream may do to a connection."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress

from tests.double import Hit, Script

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()


def say(*pieces: bytes, every: float = 0.0) -> Script:
    """These bytes as they are, piece by piece; the connection stays open."""

    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        hit.effects += 1
        for number, piece in enumerate(pieces):
            if number and every:
                await asyncio.sleep(every)
            writer.write(piece)
            await writer.drain()

    return play


def trickle(data: Iterable[int], every: float) -> Script:
    return say(*(bytes([byte]) for byte in data), every=every)


def say_then_reset(data: bytes = b"") -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        hit.effects += 1
        if data:
            writer.write(data)
            await writer.drain()
        reset(writer)

    return play


def nothing() -> Script:
    """The effect, and never an answer."""
    return say()


def then(first: Script, after: Script) -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await first(hit, writer)
        await after(hit, writer)

    return play


def close(closed: threading.Event, *, by_reset: bool = False) -> Script:
    """Close after what was said; `closed` is set when the peer's kernel can know of it."""

    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        if by_reset:
            reset(writer)
        else:
            writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        closed.set()

    return play


def held(released: threading.Event, afterwards: Script) -> Script:
    """Read, and go on when the test says so."""

    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        while not released.is_set():
            await asyncio.sleep(0.002)
        await afterwards(hit, writer)

    return play


def noting(connections: list[int], afterwards: Script) -> Script:
    """Note the client's port: one number for each connection."""

    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        connections.append(writer.get_extra_info("peername")[1])
        await afterwards(hit, writer)

    return play
