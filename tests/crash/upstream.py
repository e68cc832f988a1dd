"""The upstream of a crash run: the double, with a log of times, answers and open connections.

A request of these runs fits into one segment, so the order in which the double has read them is
the order of their first bytes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from tests.crash.checker import Answer, Call, Write
from tests.crash.nursery import DEADLINE, Stuck
from tests.double import Double, Hit, Script, deny, do_drop, do_late, ok


def reserve_port() -> socket.socket:
    """A port that is nobody else's as long as this socket is open: bound, and refusing."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


@dataclass
class _Played:
    hit: Hit
    at: float
    written: bytearray = field(default_factory=bytearray)


class Upstream(Double):
    """Its port is its own from the start; it refuses connections until it is started."""

    def __init__(self) -> None:
        super().__init__()
        self._socket = reserve_port()
        self.port = self._socket.getsockname()[1]
        self.release = threading.Event()  # answers that are late come when this is set
        self.well = False
        self._played: list[_Played] = []
        self._serving: set[int] = set()
        self._served: set[int] = set()
        self._started = False
        self.default = self._logged(charge(self))

    def then(self, *scripts: Script) -> None:
        """What the next hits get; all further ones are charged."""
        self.script += [self._logged(script) for script in scripts]

    def always(self, script: Script) -> None:
        self.default = self._logged(script)

    def recover(self) -> None:
        """From now on it listens and does what it is asked, at once."""
        self.well = True
        self.script.clear()
        self.release.set()
        self.start()

    def start(self) -> Double:
        if not self._started:
            self._started = True
            super().start()
        return self

    def stop(self) -> None:
        if self._started:
            super().stop()
        self._socket.close()

    def caught_up(self) -> None:
        """Wait until all that had been sent by processes which are gone has been read.

        Connections are accepted in their order: when one of our own has been served, so has, or
        is being, every earlier one. Not while a gateway lives, which may keep its connections.
        """
        self._served.clear()
        with socket.create_connection(("127.0.0.1", self.port)) as probe:
            ours = probe.getsockname()[1]
        end = time.monotonic() + DEADLINE
        while ours not in self._served or self._serving:
            if time.monotonic() > end:
                raise Stuck("the upstream is still reading")
            time.sleep(0.002)

    @property
    def writes(self) -> tuple[Write, ...]:
        """The log, for the judge."""
        return tuple(
            Write(_call(played.hit), played.at, played.hit.effects, _answer(played.written))
            for played in list(self._played)
        )

    # --- in the thread of the double -------------------------------------------------------

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, sock=self._socket, backlog=64)
        )
        started.set()
        self._loop.run_forever()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("peername")[1]
        self._serving.add(port)
        try:
            await super()._serve(reader, writer)
        finally:
            self._serving.discard(port)
            self._served.add(port)

    def _logged(self, script: Script) -> Script:
        async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
            played = _Played(hit, time.monotonic())
            self._played.append(played)
            await script(hit, cast(asyncio.StreamWriter, _Tee(writer, played.written)))

        return play


class _Tee:
    """A writer that keeps what it writes."""

    def __init__(self, writer: asyncio.StreamWriter, kept: bytearray) -> None:
        self._kept = kept
        self.drain = writer.drain
        self.close = writer.close
        self._write: Callable[[bytes], None] = writer.write

    def write(self, data: bytes) -> None:
        self._kept += data
        self._write(data)


def _call(hit: Hit) -> Call:
    entity = hit.target.rpartition("/")[2]
    id, key = hit.header("x-call") or "?", hit.header("idempotency-key") or "?"
    return Call(id, entity, int(hit.header("x-execution-fence") or 0), key, hit.body)


def _answer(written: bytearray) -> Answer | None:
    """What was written, if it is a whole answer."""
    head, end, body = bytes(written).partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = tuple((n, v.strip()) for n, _, v in (line.partition(":") for line in lines))
    answer = Answer(int(first.split(" ")[1]), headers, body)
    return answer if answer.field("content-length") == str(len(body)) else None


# --- what the upstream does ----------------------------------------------------------------


def _number(upstream: Upstream) -> tuple[bytes, list[tuple[str, str]]]:
    """An answer that no other charge of this upstream gets, with a field that stands twice."""
    number = len(upstream.hits)
    headers = [("Content-Type", "application/json"), ("X-Charge", f"{number}"), ("X-Charge", "ok")]
    return b'{"charge":%d}' % number, headers


def charge(upstream: Upstream) -> Script:
    """Effect, then an answer of its own."""

    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await ok(201, *_number(upstream))(hit, writer)

    return play


def charge_late(upstream: Upstream) -> Script:
    """Effect at once; the answer when the upstream's `release` is set."""

    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await do_late(upstream.release, 201, _number(upstream)[0])(hit, writer)

    return play


def charge_once_per_key(upstream: Upstream, *, drop_first: bool = False) -> Script:
    """An upstream that de-duplicates: a key that it knows gets the first answer, no effect."""
    known: dict[str, tuple[bytes, list[tuple[str, str]]]] = {}

    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        key = hit.header("idempotency-key") or ""
        if key in known:
            await deny(201, *known[key])(hit, writer)
            return
        known[key] = _number(upstream)
        dropped = drop_first and not upstream.well and len(known) == 1
        await (do_drop() if dropped else ok(201, *known[key]))(hit, writer)

    return play
