"""A gateway on a real port, wired as the server wires it, and a client that sends plain bytes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, cast

import yaml
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from fencegate.core.attempts import AttemptIds
from fencegate.core.events import Event
from fencegate.core.model import EntityId, Record, RecordId, word_of
from fencegate.gateway.app import App
from fencegate.gateway.gate import Gate
from fencegate.gateway.holds import Holds
from fencegate.ledger.clock import wall_clock
from fencegate.ledger.protocol import Filter, Ledger
from fencegate.policy import Policies, load
from fencegate.server.applied import Applied
from fencegate.server.ports import config_of

VIA = b"fencegate-under-test"
Lines = Iterable[tuple[str, str]]
ROUTES = [
    {"match": "POST|PUT|PATCH|DELETE /items/{item}", "entity": "item:{path.item}"},
    {"match": "POST|PUT|PATCH|DELETE /items/{item}/**", "entity": "item:{path.item}"},
    {"match": "POST /notes", "entity": "note:{json./id}"},
    {"match": "POST /plain", "guard": "none"},
]


class Around:
    """A ledger with a fault: what a subclass does not define is done by the ledger within."""

    def __init__(self, within: Ledger) -> None:
        self.within = within

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)

    @property
    def ledger(self) -> Ledger:
        return cast(Ledger, self)


class Clock:
    """The ledger's clock: the wall's, and what the test has put it forward by."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return wall_clock() + self.ahead


def write_policies(
    folder: Path,
    url: str,
    upstream: Mapping[str, Any],
    *,
    routes: Sequence[Mapping[str, Any]] = ROUTES,
    gateway: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    callers: Sequence[Mapping[str, Any]] | str = "off",
    environ: Mapping[str, str] | None = None,
) -> Policies:
    """Policy files for one upstream `api` under `/api`, loaded as a gateway loads them."""
    files = folder / f"policies-{token_hex(4)}"
    files.mkdir()
    of_api = {"name": "api", "mount": "/api", "url": url, "timeout": "5s", **upstream}
    _write(files / "api.yaml", {"upstream": of_api, "routes": list(routes)})
    of_gateway = {"gateway": gateway or {}, "callers": callers, "defaults": defaults or {}}
    _write(files / "gateway.yaml", of_gateway)
    return load(files, environ or {})


def _write(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(json.loads(json.dumps(values))))


# --- the client ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Got:
    """A response as it was read."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        values = self.all(name)
        assert len(values) <= 1, values
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        return [value for field, value in self.headers if field == name]

    @property
    def problem(self) -> dict[str, Any]:
        assert self.header("content-type") == "application/problem+json", self
        said: dict[str, Any] = json.loads(self.body)
        assert said["status"] == self.status
        return said

    @property
    def code(self) -> str:
        code: str = self.problem["code"]
        return code


def request_bytes(method: str, target: str, headers: Lines, body: bytes | None) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: gateway.example"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")


async def read_response(reader: asyncio.StreamReader, method: str = "POST") -> Got:
    """One response with a Content-Length, or one that has no body; it must come in time."""
    async with asyncio.timeout(30):
        return await _read_response(reader, method)


async def _read_response(reader: asyncio.StreamReader, method: str) -> Got:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status_line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    status = int(status_line.split(" ")[1])
    headers = [(n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines)]
    got = Got(status, headers, b"")
    assert got.header("transfer-encoding") is None
    if method == "HEAD" or status in (204, 304):
        return got
    return Got(status, headers, await reader.readexactly(int(got.header("content-length") or "")))


@asynccontextmanager
async def connected(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ask(
    port: int, method: str, target: str, headers: Lines = (), body: bytes | None = None
) -> Got:
    """One request on a connection of its own."""
    async with connected(port) as (reader, writer):
        writer.write(request_bytes(method, target, headers, body))
        return await read_response(reader, method)


async def until(fact: Callable[[], Any], seconds: float = 10) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, "it did not come to pass"
        await asyncio.sleep(0.002)


# --- the gateway ---------------------------------------------------------------------------


@dataclass
class Gateway:
    """One gateway under test; `call` sends a guarded call the usual way."""

    port: int
    app: App
    gate: Gate
    applied: Applied
    events: list[Event] = field(default_factory=list)

    async def call(
        self,
        key: str | None = "k1",
        fence: int | str | None = 41,
        item: str = "8812",
        *,
        method: str = "POST",
        path: str | None = None,
        body: bytes | None = b'{"amount":200}',
        headers: Lines = (),
    ) -> Got:
        target = path or f"/api/items/{item}"
        return await ask(self.port, method, target, lines_of(key, fence, headers), body)

    async def state_of(self, key: str = "k1") -> str | None:
        """The state of a record in one word; None if there is no record."""
        record = await self.record_of(key)
        return None if record is None else word_of(record.state)

    async def record_of(self, key: str = "k1") -> Record | None:
        return await self.gate.ledger.inspect_key(RecordId("api", None, key))

    async def high_water(self, item: str = "8812") -> int:
        view = await self.gate.ledger.inspect(EntityId("", f"item:{item}"))
        return view.entity.high_water

    async def all_rows(self, *items: str) -> list[Any]:
        """All that the ledger holds, for looking whether anything has changed."""
        ledger = self.gate.ledger
        entities = [await ledger.inspect(EntityId("", f"item:{item}")) for item in items]
        return [*entities, await ledger.list(Filter()), await ledger.journal()]

    def said(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


class Start(Protocol):
    def __call__(
        self,
        *,
        on: Ledger = ...,
        url: str = ...,
        more: Mapping[str, Any] | None = ...,
        **upstream: Any,
    ) -> Awaitable[Gateway]: ...


def lines_of(key: str | None, fence: int | str | None, headers: Lines = ()) -> Lines:
    lines = [("Content-Type", "application/json")]
    if fence is not None:
        lines.append(("X-Execution-Fence", str(fence)))
    if key is not None:
        lines.append(("Idempotency-Key", key))
    return [*lines, *headers]


@asynccontextmanager
async def serving(policies: Policies, ledger: Ledger) -> AsyncIterator[Gateway]:
    """A gateway on a free port of loopback, on the loop of the test."""
    events: list[Event] = []
    holds = Holds(ledger, policies.gateway.hold, events.append)
    gate = Gate(ledger, holds, AttemptIds(token_hex(8)), events.append)
    applied = Applied(policies, gate, VIA)
    app = App(gate, applied.intake())
    config = config_of(app)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: HttpToolsProtocol(config, state, {}), "127.0.0.1", 0
    )
    renewing = asyncio.create_task(holds.run())
    try:
        yield Gateway(server.sockets[0].getsockname()[1], app, gate, applied, events)
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await gate.drained(5)
        renewing.cancel()
        applied.close()


async def through_asgi(
    app: App,
    method: str,
    target: str,
    headers: Iterable[tuple[bytes, bytes]] = (),
    body: bytes = b"",
) -> Got:
    """A request past the server, for what its parser would not let through."""
    sent: list[Any] = []
    path, _, query = target.encode("latin-1").partition(b"?")
    scope = {
        "type": "http",
        "method": method,
        "raw_path": path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in headers],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    head, whole = sent
    lines = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head["headers"]]
    return Got(head["status"], lines, whole["body"])
