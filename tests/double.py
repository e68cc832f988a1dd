"""An upstream double: a real HTTP server on loopback with a script, and a log of its own.

Like many real APIs it ignores idempotency keys. For each path it takes one script word per hit:

    ok(status, body, headers)   effect, then an answer
    deny(status, headers)       no effect, an answer
    do_err(status)              effect, then an answer with that status
    do_drop / read_drop         with or without effect, then closed without a byte
    do_cut(n)                   effect, a head, n bytes of the body, closed
    do_late(event)              effect at once, the answer when the event is set
    late_do(event)              effect and answer when the event is set
    raw(bytes)                  effect, then these bytes as they are, closed

It runs in a thread of its own, so that it lives on whatever becomes of the gateway.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

Script = Callable[["Hit", asyncio.StreamWriter], Coroutine[Any, Any, None]]


@dataclass
class Hit:
    """One request as it was read, and whether it had its effect."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    raw_head: bytes
    effects: int = 0

    def header(self, name: str) -> str | None:
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)


@dataclass
class Double:
    """`hits` is the log; `script` answers one hit after the other, `default` all further ones."""

    hits: list[Hit] = field(default_factory=list)
    script: list[Script] = field(default_factory=list)
    default: Script | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def effects(self) -> int:
        return sum(hit.effects for hit in self.hits)

    def effects_of(self, key: str) -> int:
        """Effects of the calls that carried this idempotency key."""
        return sum(hit.effects for hit in self.hits if hit.header("idempotency-key") == key)

    def start(self) -> Double:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda loop, context: None)  # peers may be killed
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self.port)
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        server.close()
        for task in (tasks := asyncio.all_tasks(self._loop)):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (hit := await _read(reader)) is not None:
                script = self.script.pop(0) if self.script else self.default or ok()
                self.hits.append(hit)
                await script(hit, writer)
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Hit | None:
    """One request with a Content-Length or chunked body; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ")
    headers = [(n, v.strip()) for n, _, v in (line.partition(":") for line in lines[1:] if line)]
    hit = Hit(method, target, headers, b"", head)
    hit.body = await reader.readexactly(int(hit.header("content-length") or 0))
    return hit


# --- script words --------------------------------------------------------------------------

Headers = list[tuple[str, str]]
JSON: Headers = [("Content-Type", "application/json")]


def _bytes(status: int, body: bytes, headers: Headers) -> bytes:
    lines = [f"HTTP/1.1 {status} Said"] + [f"{name}: {value}" for name, value in headers]
    if status != 204:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def ok(status: int = 201, body: bytes = b'{"ok":true}', headers: Headers = JSON) -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        hit.effects += 1
        writer.write(_bytes(status, body, headers))
        await writer.drain()

    return play


def deny(status: int, body: bytes = b"{}", headers: Headers = JSON) -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        writer.write(_bytes(status, body, headers))
        await writer.drain()

    return play


def do_err(status: int) -> Script:
    return ok(status, b'{"error":"after the effect"}')


def do_drop() -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        hit.effects += 1
        writer.close()

    return play


def read_drop() -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        writer.close()

    return play


def do_cut(count: int, body: bytes = b"0123456789" * 10) -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        hit.effects += 1
        whole = _bytes(200, body, JSON)
        writer.write(whole[: len(whole) - len(body) + count])
        await writer.drain()
        writer.close()

    return play


def do_late(released: threading.Event, status: int = 201, body: bytes = b'{"late":1}') -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        hit.effects += 1
        await asyncio.to_thread(released.wait)
        writer.write(_bytes(status, body, JSON))
        await writer.drain()

    return play


def late_do(released: threading.Event, status: int = 201, body: bytes = b'{"late":1}') -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await asyncio.to_thread(released.wait)
        hit.effects += 1
        writer.write(_bytes(status, body, JSON))
        await writer.drain()

    return play


def raw(data: bytes) -> Script:
    async def play(hit: Hit, writer: asyncio.StreamWriter) -> None:
        hit.effects += 1
        writer.write(data)
        await writer.drain()
        writer.close()

    return play
