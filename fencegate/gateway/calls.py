"""From a guarded request to a call: entity, fence, key and fingerprint, by what its route asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from fencegate.core.bodies import Ambiguous
from fencegate.core.fingerprint import Fingerprint, Request, Scheme, fingerprint
from fencegate.core.model import NO_ENTITY, AttemptId, Call, EntityId
from fencegate.core.reading import Malformed, read_domain, read_fence, read_key, spell_entity
from fencegate.core.reasons import Reason
from fencegate.gateway.problems import Problem, unread
from fencegate.gateway.proofs import proven
from fencegate.gateway.protected import DOMAIN, FENCE, HOLDER, KEY, PROOF
from fencegate.policy import Absent, Found, FromHeader, GatewaySettings, Guard, Reading, Route, Seen

ANY_FENCE = 1  # of calls that are asked for none: all are equal
UNKEYED = "·"  # begins what stands for a key where none is asked for; no key holds it
MAX_HOLDER = 256


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call, and how it is compared with a record that was made under an older scheme."""

    call: Call
    print_under: Callable[[Scheme], Fingerprint]


def read_call(
    request: Request, found: Found, caller: str | None, gateway: GatewaySettings, ref: str
) -> ReadCall | Problem:
    """The call that a guarded request makes, or the first thing that is wrong with it."""
    route = found.route
    seen = Seen(request, found.captures, caller)
    entity = _entity(route, seen, gateway, ref)
    if isinstance(entity, Problem):
        return entity
    fence = _fence(route, seen, entity, ref)
    if isinstance(fence, Problem):
        return fence
    key = _key(route, seen, ref)
    if isinstance(key, Problem):
        return key
    named = entity.shown or ""
    taken = fingerprint(request, named, route.scheme)
    if isinstance(taken, Ambiguous):
        return _ambiguous(taken, ref)
    call = Call(
        upstream=route.upstream.name,
        caller=caller,
        credential=_credential(request) if caller is None else "",
        entity=entity,
        fence=fence,
        key=key,
        prints=(taken,),
        attempt=AttemptId(ref),
        holder=read_holder(request.lines(HOLDER)),
    )
    return ReadCall(call, lambda scheme: _print(request, named, scheme))


# --- entity --------------------------------------------------------------------------------


def _entity(route: Route, seen: Seen, gateway: GatewaySettings, ref: str) -> EntityId | Problem:
    name: str | Absent | Malformed = Absent()
    if route.entity is not None:
        name = route.entity.read(seen, fold=gateway.fold_case)
    if isinstance(name, Malformed):
        return _unread(Reason.ENTITY_UNRESOLVED, f"{name.expected}.", route, seen, ref)
    if route.guard is Guard.KEY_ONLY:
        return EntityId(NO_ENTITY, route.upstream.name)
    if isinstance(name, Absent):
        return _missing(Reason.ENTITY_UNRESOLVED, route.entity, route, seen, ref)
    domain = domain_of(route, seen.request.lines(DOMAIN))
    if isinstance(domain, Malformed):
        why = f"X-Fence-Domain is {domain.expected}."
        return unread(Reason.ENTITY_UNRESOLVED, why, ref)
    return EntityId(domain, name)


def domain_of(route: Route, lines: list[bytes]) -> str | Malformed:
    """The domain of a call's fence: the route's, or the one that the caller sends."""
    if isinstance(route.domain, FromHeader):
        return read_domain(lines) or ""
    return route.domain


# --- fence ---------------------------------------------------------------------------------


def _fence(route: Route, seen: Seen, entity: EntityId, ref: str) -> int | Problem:
    if not route.guard.asks_fence:
        return ANY_FENCE
    fence = _read_fence(route, seen, ref)
    if isinstance(fence, Problem):
        return fence
    if not proven(route.fence_secret, seen.request.lines(PROOF), entity, fence):
        return unread(Reason.FENCE_UNPROVEN, "X-Execution-Fence-Proof does not sign it.", ref)
    return fence


def _read_fence(route: Route, seen: Seen, ref: str) -> int | Problem:
    if route.fence is not None:
        missing, invalid = Reason.FENCE_REQUIRED, Reason.FENCE_INVALID
        stated = _stated(route.fence, missing, invalid, route, seen, ref)
        return stated if isinstance(stated, Problem) else int(stated)
    match read_fence(seen.request.lines(FENCE)):
        case None:
            return unread(Reason.FENCE_REQUIRED, "X-Execution-Fence is not there.", ref)
        case Malformed(expected=expected):
            return unread(Reason.FENCE_INVALID, f"X-Execution-Fence is {expected}.", ref)
        case fence:
            return fence


# --- key -----------------------------------------------------------------------------------


def _key(route: Route, seen: Seen, ref: str) -> str | Problem:
    if not route.guard.asks_key:
        return f"{UNKEYED}{ref}"
    if route.key is not None:
        missing, invalid = Reason.KEY_REQUIRED, Reason.KEY_INVALID
        return _stated(route.key, missing, invalid, route, seen, ref)
    match read_key(seen.request.lines(KEY)):
        case None:
            return unread(Reason.KEY_REQUIRED, "Idempotency-Key is not there.", ref)
        case Malformed(expected=expected):
            return unread(Reason.KEY_INVALID, f"Idempotency-Key is {expected}.", ref)
        case key:
            return key


def _stated(
    reading: Reading, missing: Reason, invalid: Reason, route: Route, seen: Seen, ref: str
) -> str | Problem:
    """What a route reads from a place of its own."""
    match reading.read(seen):
        case Absent():
            return _missing(missing, reading, route, seen, ref)
        case Malformed(expected=expected):
            return _unread(invalid, f"{expected}.", route, seen, ref)
        case text:
            return text


# --- what is wrong -------------------------------------------------------------------------


def _missing(
    reason: Reason, reading: Reading | None, route: Route, seen: Seen, ref: str
) -> Problem:
    return _unread(reason, f"{reading} is missing; send it.", route, seen, ref)


def _unread(reason: Reason, why: str, route: Route, seen: Seen, ref: str) -> Problem:
    """A value that could not be read; maybe because the body has more than one reading."""
    taken = fingerprint(seen.request, "", route.scheme)
    if isinstance(taken, Ambiguous):
        return _ambiguous(taken, ref)
    return unread(reason, why, ref)


def _ambiguous(body: Ambiguous, ref: str) -> Problem:
    return unread(Reason.BODY_AMBIGUOUS, f"The body is ambiguous: {body.why}.", ref)


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
