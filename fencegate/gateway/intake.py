"""From bytes to an order. Whatever is missing or doubtful is refused here, before the ledger.

The order in which faults are reported: framing, route, caller, body size, entity, fence, key.
Where a route only observes, what would be refused is passed on, but for framing and size.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fencegate.core.attempts import AttemptIds
from fencegate.core.fingerprint import Request
from fencegate.core.outcomes import Headers
from fencegate.core.reasons import Reason
from fencegate.gateway.callers import NOBODY, Shown, who, without_known_tokens
from fencegate.gateway.calls import read_call
from fencegate.gateway.order import Order, observed
from fencegate.gateway.outgoing import forwarded_headers
from fencegate.gateway.problems import Problem, unread
from fencegate.gateway.protected import framing_fault, override_fault
from fencegate.gateway.upstream import Leg, Outgoing
from fencegate.policy import (
    Finding,
    Found,
    Guard,
    Mode,
    NoRoute,
    Passed,
    PathAmbiguous,
    Policies,
    Route,
    Upstream,
)

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
    """To be passed on as it is. `would`: why it would have been refused, were it not observed."""

    outgoing: Outgoing
    leg: Leg
    ref: str
    upstream: str
    route: str | None
    would: Problem | None = None


@dataclass(frozen=True, slots=True)
class _Way:
    """Where a request goes that no guard is asked of."""

    upstream: Upstream
    route: str | None
    target: bytes
    connect_timeout: float
    timeout: float
    body_limit: int
    mode: Mode


class Intake:
    """Reads requests by the policies."""

    def __init__(
        self, policies: Policies, legs: dict[str, Leg], ids: AttemptIds, via: bytes
    ) -> None:
        """`via` is this gateway's name in `Via`, by which it knows its own requests."""
        self._via = via
        self.policies = policies
        self.legs = legs
        self._ids = ids

    async def read(self, incoming: Incoming) -> Order | Unguarded | Problem:
        """An order, something to be passed on, or why it is refused.

        Raises `ClientDisconnect` from `read_body` when the client leaves before its body is read.
        """
        ref = self._ids()
        if refused := self._never_forwarded(incoming, ref):
            return refused
        finding = self.policies.find(incoming.method, incoming.target)
        match finding:
            case Found(route=route, upstream_target=target) if route.guard is Guard.NONE:
                return await self._unguarded(incoming, _way_of(route, target), ref)
            case Passed() as passed:
                return await self._unguarded(incoming, _way(passed), ref)
            case _ if fault := framing_fault(incoming.headers, _fields(finding)):
                return unread(Reason.FRAMING, fault, ref)
            case Found() as found:
                return await self._guarded(incoming, found, ref)
            case PathAmbiguous(expected=expected, observed=passed):
                refused = unread(Reason.PATH_AMBIGUOUS, f"The path has {expected}.", ref)
            case NoRoute(write=True, observed=passed):
                seen = f"{incoming.method} on this path is a write, and no route covers it."
                refused = unread(Reason.NO_ROUTE, seen, ref)
            case NoRoute():
                return unread(Reason.NO_ROUTE, "No mount covers this path.", ref, status=404)
        if passed is None:
            return refused
        return await self._unguarded(incoming, _way(passed), ref, would=refused)

    def _never_forwarded(self, incoming: Incoming, ref: str) -> Problem | None:
        """What no route can allow."""
        if incoming.method in ("CONNECT", "TRACE"):
            return unread(Reason.METHOD_REFUSED, f"The method is {incoming.method}.", ref)
        if any(self._via in value for value in incoming.lines(b"via")):
            return unread(Reason.LOOP, "Via names this gateway.", ref)
        return None

    async def _guarded(
        self, incoming: Incoming, found: Found, ref: str
    ) -> Order | Unguarded | Problem:
        route, target = found.route, found.upstream_target
        shown = who(self.policies.callers, incoming.headers)
        if shown is None and route.mode is Mode.ENFORCE:
            return _unknown(ref)
        body = await incoming.read_body(route.body_limit)
        if body is None:
            return _too_large(route.body_limit, ref)
        if shown is None:
            return self._passed(incoming, body, _way_of(route, target), None, _unknown(ref), ref)
        request = Request(incoming.method, incoming.target, incoming.headers, body)
        read = read_call(request, found, shown.caller, self.policies.gateway, ref)
        if isinstance(read, Problem):
            if route.mode is Mode.ENFORCE:
                return read
            return self._passed(incoming, body, _way_of(route, target), shown, read, ref)
        key = read.call.key if route.guard.asks_key else None
        if route.mode is Mode.OBSERVE:
            key = None  # what an enforcing gateway would add is not added
        headers = forwarded_headers(incoming.headers, route.upstream, shown, key)
        order = Order(
            call=read.call,
            terms=route.terms,
            outgoing=Outgoing(
                incoming.method, target, headers, body, route.connect_timeout, route.timeout
            ),
            leg=self.legs[route.upstream.name],
            route=route,
            print_under=read.print_under,
            left=incoming.left,
        )
        if route.mode is Mode.OBSERVE:
            return observed(order)
        return order

    # --- what no guard is asked of ---------------------------------------------------------

    async def _unguarded(
        self, incoming: Incoming, way: _Way, ref: str, *, would: Problem | None = None
    ) -> Unguarded | Problem:
        if self.policies.guards(way.upstream) and (fault := override_fault(incoming.headers)):
            return unread(Reason.FRAMING, fault, ref)
        shown = who(self.policies.callers, incoming.headers)
        if shown is None and way.mode is Mode.ENFORCE:
            return _unknown(ref)
        body = await incoming.read_body(way.body_limit)
        if body is None:
            return _too_large(way.body_limit, ref)
        if shown is None:
            would = would or _unknown(ref)
        return self._passed(incoming, body, way, shown, would, ref)

    def _passed(
        self,
        incoming: Incoming,
        body: bytes,
        way: _Way,
        shown: Shown | None,
        would: Problem | None,
        ref: str,
    ) -> Unguarded:
        """Whoever is not known goes upstream without the credentials that are ours, and with keys
        that are nobody's."""
        headers = incoming.headers
        if shown is None:
            headers = without_known_tokens(self.policies.callers, headers)
        headers = forwarded_headers(headers, way.upstream, shown or NOBODY, None)
        outgoing = Outgoing(
            incoming.method, way.target, headers, body, way.connect_timeout, way.timeout,
            inject=shown is not None,
        )  # fmt: skip
        leg, name = self.legs[way.upstream.name], way.upstream.name
        return Unguarded(outgoing, leg, ref, name, way.route, would)


def _fields(finding: Finding) -> frozenset[bytes]:
    return finding.route.fields if isinstance(finding, Found) else frozenset()


def _way(passed: Passed) -> _Way:
    of = passed.upstream
    target = passed.upstream_target
    return _Way(of, None, target, of.connect_timeout, of.timeout, of.body_limit, of.mode)


def _way_of(route: Route, target: bytes) -> _Way:
    return _Way(
        upstream=route.upstream,
        route=route.pattern.text,
        target=target,
        connect_timeout=route.connect_timeout,
        timeout=route.timeout,
        body_limit=route.body_limit,
        mode=route.mode,
    )


def _unknown(ref: str) -> Problem:
    seen = "No token of a known caller was shown in Fencegate-Token or as Authorization: Bearer."
    return unread(Reason.CALLER_UNKNOWN, seen, ref)


def _too_large(limit: int, ref: str) -> Problem:
    return unread(Reason.BODY_TOO_LARGE, f"The limit is {limit} bytes.", ref)
