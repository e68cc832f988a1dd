"""From bytes to an order. Whatever is missing or doubtful is refused here, before the ledger.

The order in which faults are reported: framing, route, body size, entity, fence, key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from fencegate.core.attempts import AttemptIds
from fencegate.core.bodies import Ambiguous
from fencegate.core.fingerprint import Fingerprint, Request, Scheme, fingerprint
from fencegate.core.model import AttemptId, Call, EntityId
from fencegate.core.outcomes import Headers
from fencegate.core.reading import Malformed, read_fence, read_key, spell_entity
from fencegate.core.reasons import Reason
from fencegate.gateway.order import Order
from fencegate.gateway.problems import Problem, unread
from fencegate.gateway.protected import FENCE, HOLDER, KEY, framing_fault
from fencegate.gateway.upstream import Leg, Outgoing
from fencegate.policy import Found, Guard, NoRoute, Passed, PathAmbiguous, Policies, Route

DEFAULT_DOMAIN = ""
MAX_HOLDER = 256

ReadBody = Callable[[int], Awaitable[bytes | None]]
"""Reads the whole body of at most so many bytes; None if it is larger."""


@dataclass(frozen=True, slots=True, repr=False)
class Incoming:
    """The head of a request, as the server hands it over, how to read its body, and how
    to be told that the client has left."""

    method: str
    target: bytes
    headers: Headers
    read_body: ReadBody
    left: Callable[[], Awaitable[None]]

    def lines(self, name: bytes) -> list[bytes]:
        return [value for field, value in self.headers if field.lower() == name]


@dataclass(frozen=True, slots=True, repr=False)
class Unguarded:
    """To be passed on as it is."""

    outgoing: Outgoing
    leg: Leg
    ref: str


class Intake:
    """Reads requests by the policies."""

    def __init__(self, policies: Policies, legs: dict[str, Leg], ids: AttemptIds) -> None:
        self._policies = policies
        self._legs = legs
        self._ids = ids

    async def read(self, incoming: Incoming) -> Order | Unguarded | Problem:
        """An order, something to be passed on, or why it is refused.

        Raises `ClientDisconnect` from `read_body` when the client leaves before its body is read.
        """
        ref = self._ids()
        match self._policies.find(incoming.method, incoming.target):
            case Found(route=route, upstream_target=target) if route.guard is Guard.NONE:
                settings = (route.connect_timeout, route.timeout, route.body_limit)
                return await self._unguarded(incoming, route.upstream.name, target, settings, ref)
            case Passed(upstream=upstream, upstream_target=target):
                times = (upstream.connect_timeout, upstream.timeout, upstream.body_limit)
                return await self._unguarded(incoming, upstream.name, target, times, ref)
            case _ if fault := framing_fault(incoming.headers):
                return unread(Reason.FRAMING, fault, ref)
            case Found() as found:
                return await self._guarded(incoming, found, ref)
            case PathAmbiguous(expected=expected):
                return unread(Reason.PATH_AMBIGUOUS, f"The path has {expected}.", ref)
            case NoRoute(write=True):
                seen = f"{incoming.method} on this path is a write, and no route covers it."
                return unread(Reason.NO_ROUTE, seen, ref)
            case NoRoute():
                return unread(Reason.NO_ROUTE, "No mount covers this path.", ref, status=404)

    async def _guarded(self, incoming: Incoming, found: Found, ref: str) -> Order | Problem:
        route = found.route
        body = await incoming.read_body(route.body_limit)
        if body is None:
            return unread(Reason.BODY_TOO_LARGE, f"The limit is {route.body_limit} bytes.", ref)
        request = Request(incoming.method, incoming.target, incoming.headers, body)
        read = _identity(route, found.captures, request, ref)
        if isinstance(read, Problem):
            return read
        return Order(
            call=read,
            terms=route.terms,
            outgoing=_outgoing(incoming, found.upstream_target, body, route, read.key),
            leg=self._legs[route.upstream.name],
            statuses=route.statuses,
            answer_limit=route.answer_limit,
            duplicate_wait=route.duplicate_wait,
            predecessor_wait=route.predecessor_wait,
            print_under=lambda scheme: _print(request, read.entity.name, scheme),
            left=incoming.left,
        )

    async def _unguarded(
        self,
        incoming: Incoming,
        upstream: str,
        target: bytes,
        settings: tuple[float, float, int],
        ref: str,
    ) -> Unguarded | Problem:
        connect_timeout, timeout, body_limit = settings
        body = await incoming.read_body(body_limit)
        if body is None:
            return unread(Reason.BODY_TOO_LARGE, f"The limit is {body_limit} bytes.", ref)
        outgoing = Outgoing(
            incoming.method, target, incoming.headers, body, connect_timeout, timeout
        )
        return Unguarded(outgoing, self._legs[upstream], ref)


def _identity(
    route: Route, captures: dict[str, bytes], request: Request, ref: str
) -> Call | Problem:
    """Entity, fence, key and fingerprint of a guarded request."""
    assert route.entity is not None
    entity = route.entity.render(captures, request)
    if isinstance(entity, Malformed):
        return _unfilled(Reason.ENTITY_UNRESOLVED, entity, request, route, ref)

    fence = read_fence(request.lines(FENCE))
    if fence is None:
        return unread(Reason.FENCE_REQUIRED, "X-Execution-Fence is not there.", ref)
    if isinstance(fence, Malformed):
        return unread(Reason.FENCE_INVALID, f"X-Execution-Fence is {fence.expected}.", ref)

    key = read_key(request.lines(KEY)) if route.key is None else route.key.render(captures, request)
    if key is None:
        return unread(Reason.KEY_REQUIRED, "Idempotency-Key is not there.", ref)
    if isinstance(key, Malformed) and route.key is None:
        return unread(Reason.KEY_INVALID, f"Idempotency-Key is {key.expected}.", ref)
    if isinstance(key, Malformed):
        return _unfilled(Reason.KEY_INVALID, key, request, route, ref)

    taken = fingerprint(request, entity, route.scheme)
    if isinstance(taken, Ambiguous):
        return _ambiguous(taken, ref)
    return Call(
        upstream=route.upstream.name,
        caller=None,
        credential=_credential(request),
        entity=EntityId(DEFAULT_DOMAIN, entity),
        fence=fence,
        key=key,
        prints=(taken,),
        attempt=AttemptId(ref),
        holder=read_holder(request.lines(HOLDER)),
    )


def _unfilled(
    reason: Reason, malformed: Malformed, request: Request, route: Route, ref: str
) -> Problem:
    """A template that could not be filled in; maybe because the body has more than one reading."""
    taken = fingerprint(request, "", route.scheme)
    if isinstance(taken, Ambiguous):
        return _ambiguous(taken, ref)
    return unread(reason, f"{malformed.expected}.", ref)


def _ambiguous(body: Ambiguous, ref: str) -> Problem:
    return unread(Reason.BODY_AMBIGUOUS, f"The body is ambiguous: {body.why}.", ref)


def _outgoing(incoming: Incoming, target: bytes, body: bytes, route: Route, key: str) -> Outgoing:
    """What goes upstream. An upstream that de-duplicates by our key must be sent it, also where
    the route has made the key."""
    headers = incoming.headers
    if route.key is not None and route.terms.key_window is not None:
        headers = tuple(h for h in headers if h[0].lower() != KEY) + ((KEY, _as_string(key)),)
    return Outgoing(incoming.method, target, headers, body, route.connect_timeout, route.timeout)


def _as_string(key: str) -> bytes:
    """A key as an RFC 8941 string, where it cannot be sent raw."""
    if isinstance(read_key([key.encode()]), str):
        return key.encode()
    return b'"' + key.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


def _print(request: Request, entity: str, scheme: Scheme) -> Fingerprint:
    """The request under the scheme of an older record; ValueError if it has none."""
    taken = fingerprint(request, entity, scheme)
    if isinstance(taken, Ambiguous):
        raise ValueError(f"the request has no fingerprint under an older scheme: {taken.why}")
    return taken


def _credential(request: Request) -> str:
    """The digest of the Authorization value, or of nothing: who sends none is one caller."""
    return sha256(b"\0".join(request.lines(b"authorization"))).hexdigest()


def read_holder(lines: list[bytes]) -> str | None:
    """Who says to hold the lease; what is no short plain text is not shown to anyone."""
    if len(lines) != 1 or len(lines[0]) > MAX_HOLDER:
        return None
    spelled = spell_entity(lines[0].decode("latin-1"))
    return spelled if isinstance(spelled, str) else None
