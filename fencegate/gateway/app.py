"""The data port as a plain ASGI application: requests in, replies out, nothing in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from fencegate.core.events import CallEnded, CallUnread
from fencegate.core.outcomes import Headers
from fencegate.core.reasons import Reason
from fencegate.gateway.admitting import ClientLeft
from fencegate.gateway.announcing import announce
from fencegate.gateway.client import Client, ClientDisconnect, Receive
from fencegate.gateway.exchange import exchange
from fencegate.gateway.gate import Gate
from fencegate.gateway.intake import Incoming, Intake, Unguarded
from fencegate.gateway.observing import observe, pass_on
from fencegate.gateway.order import Order
from fencegate.gateway.problems import KINDS, Problem, unread
from fencegate.gateway.replies import Reply, of_problem

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OWN = b"/_fencegate/"
ENTITIES = b"/_fencegate/v1/entities/"
PROBLEMS = b"/_fencegate/problems/"
BODILESS = frozenset({204, 304})


class App:
    """The ASGI callable. `intake` may be exchanged for another: a request keeps the one by which
    it was read."""

    def __init__(
        self,
        gate: Gate,
        intake: Intake,
        why_not_ready: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._gate = gate
        self._why_not_ready = why_not_ready
        self.intake = intake
        self._steady = asyncio.Event()
        self._steady.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the data port speaks HTTP, not {scope['type']}")
        incoming = _incoming(scope, receive)
        try:
            reply, ref = await self._reply(incoming)
        except (ClientDisconnect, ClientLeft):
            return
        await self._send(send, incoming.method, reply, ref)

    async def _reply(self, incoming: Incoming) -> tuple[Reply, str]:
        began = time.monotonic()
        if incoming.target.startswith(OWN):
            ref = self._gate.ids()
            return await self._own(incoming, ref), ref
        match await self._read(incoming):
            case Problem() as problem:
                return self._unread(problem)
            case Unguarded() as unguarded:
                return await pass_on(self._gate, unguarded), unguarded.ref
            case Order(observed=True) as order:
                return await observe(self._gate, order), order.ref
            case Order() as order:
                reply, order = await exchange(self._gate, order)
                self._gate.emit(_ended(order, reply, time.monotonic() - began))
                return reply, order.ref

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """No call that has been read goes on to the ledger while the policies change."""
        self._steady.clear()
        try:
            yield
        finally:
            self._steady.set()

    async def _read(self, incoming: Incoming) -> Order | Unguarded | Problem:
        """By the policies that hold when the body is there: an upload may have outlived older
        ones, and nothing may be recorded by their reading."""
        while True:
            intake = self.intake
            read = await intake.read(incoming)
            await self._steady.wait()
            if self.intake is intake:
                return read

    def _unread(self, problem: Problem) -> tuple[Reply, str]:
        self._gate.emit(CallUnread(problem.ref, problem.status, problem.reason.value))
        return of_problem(problem), problem.ref

    # --- our own paths ---------------------------------------------------------------------

    async def _own(self, incoming: Incoming, ref: str) -> Reply:
        path = incoming.target.partition(b"?")[0]
        if path == OWN + b"livez" and incoming.method == "GET":
            return _json({"live": True})
        if path == OWN + b"readyz" and incoming.method == "GET":
            return self._ready()
        if path.startswith(ENTITIES) and path.endswith(b"/fence") and incoming.method == "PUT":
            entity = path[len(ENTITIES) : -len(b"/fence")]
            return await announce(self._gate, self.intake.policies, incoming, entity, ref)
        code = path.removeprefix(PROBLEMS).decode("latin-1")
        if incoming.method == "GET" and (page := _problem_page(code)):
            return page
        problem = unread(Reason.NO_ROUTE, "The gateway has no such path.", ref, status=404)
        return of_problem(problem)

    def _ready(self) -> Reply:
        """Whoever spreads traffic asks this."""
        why, ledger = self._why_not_ready(), self._gate.ledger.id
        if why is None:
            return _json({"ready": True, "ledger": ledger})
        return _json({"ready": False, "ledger": ledger, "why": why}, status=503)

    # --- sending ---------------------------------------------------------------------------

    async def _send(self, send: Send, method: str, reply: Reply, ref: str) -> None:
        headers = [
            *(_without_length(reply.headers) if reply.status in BODILESS else reply.headers),
            (b"fencegate-ref", ref.encode()),
            (b"fencegate-ledger", self._gate.ledger.id.encode()),
        ]
        if reply.decision is not None:
            headers.append((b"fencegate-decision", reply.decision.encode()))
        if reply.high_water is not None:
            headers.append((b"fencegate-high-water", b"%d" % reply.high_water))
        if reply.proxy_status is not None:
            headers.append((b"proxy-status", reply.proxy_status))
        if reply.status not in BODILESS and method != "HEAD":
            headers.append((b"content-length", b"%d" % len(reply.body)))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


def _without_length(headers: Headers) -> Headers:
    """The server would wait for the body that a 204 or 304 does not have."""
    return tuple(header for header in headers if header[0].lower() != b"content-length")


def _incoming(scope: Scope, receive: Receive) -> Incoming:
    headers: Headers = tuple(scope["headers"])
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    lengths = [value for name, value in headers if name == b"content-length"]
    declared = int(lengths[0]) if lengths and lengths[0].isdigit() else None
    client = Client(receive, declared)
    return Incoming(scope["method"], target, headers, client.read_body, client.left)


def _ended(order: Order, reply: Reply, seconds: float) -> CallEnded:
    call = order.call
    return CallEnded(
        ref=order.ref,
        decision=reply.decision,
        status=reply.status,
        upstream=call.upstream,
        method=order.outgoing.method,
        entity=call.entity.shown,
        fence=order.fence,
        key=order.key,
        holder=call.holder,
        code=reply.code,
        high_water=reply.high_water,
        attempt=reply.attempt,
        outcome=reply.outcome,
        settlement=reply.settlement,
        seconds=round(seconds, 6),
    )


def _json(said: dict[str, Any], status: int = 200) -> Reply:
    headers: Headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
    return Reply(None, status, headers, orjson.dumps(said))


def _problem_page(code: str) -> Reply | None:
    """What a problem's `type` leads to."""
    kind = next((kind for reason, kind in KINDS.items() if reason == code), None)
    if kind is None:
        return None
    return _json(
        {"code": code, "status": kind.status, "title": kind.title, "meaning": kind.meaning}
    )
