"""What applies to a request: compiled policies, and the way from a target to its route.

A target is looked up by mount, then by method and path. What is sent on is the target as it
came, byte for byte, with the mount exchanged for the base path of the upstream's URL. A path
that has no one reading is refused wherever a guarded route takes its method, before any route
is tried: another spelling must not lead a write around its guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from fencegate.core.fingerprint import Scheme
from fencegate.core.model import FenceLead, Micros, Terms
from fencegate.core.outcomes import Statuses
from fencegate.core.reading import Malformed, domain_of_text
from fencegate.policy.callers import Callers
from fencegate.policy.domains import FromHeader
from fencegate.policy.matching import Matching
from fencegate.policy.paths import READS, Path, Pattern, guess_path, read_path
from fencegate.policy.probes import Probe
from fencegate.policy.templates import Reading
from fencegate.policy.tls import Tls
from fencegate.policy.values import PORTS

Seconds = float


class Guard(StrEnum):
    """What a route asks of its calls.

    FULL: fence, key and entity. KEY_ONLY: a key; a fence is ignored. FENCE_ONLY: fence and
    entity; nothing is recorded under a key. NONE: nothing.
    """

    FULL = "full"
    KEY_ONLY = "key-only"
    FENCE_ONLY = "fence-only"
    NONE = "none"

    @property
    def asks_fence(self) -> bool:
        return self in (Guard.FULL, Guard.FENCE_ONLY)

    @property
    def asks_key(self) -> bool:
        return self in (Guard.FULL, Guard.KEY_ONLY)


class Mode(StrEnum):
    """ENFORCE: what the law says is done. OBSERVE: all is forwarded, and what the law would have
    said is reported."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class Unmatched(StrEnum):
    """What becomes of a write that no route covers."""

    REFUSE = "refuse"
    PASS = "pass"


class EncodedSlash(StrEnum):
    """What becomes of `%2F` in a path."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """What holds for all upstreams. `max_fence_lead` (None is `off`) and `fence_secret` are those
    of announcements. `drain_timeout` None: the longest timeout and a little more."""

    hold: Micros
    tombstone: Micros
    unmatched: Unmatched
    max_fence_lead: FenceLead | None
    fold_case: bool = False
    drain_delay: Seconds = 0.0
    drain_timeout: Seconds | None = None
    fence_secret: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Upstream:
    """An API behind the gateway. `headers` are set on every request; they may be secret.

    `base_path` ends without a slash. Times and limit are for what is passed. `key_header` is
    where the upstream wants our key, None where it knows of none; `pool` is how many idle
    connections are kept.
    """

    name: str
    kind: str
    mount: str
    scheme: str
    host: str
    port: int
    base_path: bytes
    timeout: Seconds
    connect_timeout: Seconds
    reuse_within: Seconds
    body_limit: int
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    key_header: bytes | None = None
    pool: int = 64
    tls: Tls = field(default_factory=Tls)
    mode: Mode = Mode.ENFORCE

    @property
    def authority(self) -> str:
        """Host and port as the Host field says them: without the scheme's own port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def target(self, rest: bytes) -> bytes:
        """What the upstream is asked for, of a target without its mount."""
        if rest.startswith(b"/"):
            return self.base_path + rest
        return (self.base_path or b"/") + rest


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `calls` at once in the scope that states it: an upstream, or one route of it."""

    scope: str
    calls: int


@dataclass(frozen=True, slots=True)
class Route:
    """One pattern and its settings, the nearest of each.

    A route whose guard asks for a fence has an entity. `fence` and `key` None: they are read from
    their headers. `domain` is that of the issuer of its fences. `fields` are the header fields that
    decide about its calls, besides the gateway's own.
    """

    upstream: Upstream
    pattern: Pattern
    guard: Guard
    entity: Reading | None
    fence: Reading | None
    key: Reading | None
    terms: Terms
    statuses: Statuses
    scheme: Scheme
    duplicate_wait: Seconds
    predecessor_wait: Seconds
    timeout: Seconds
    connect_timeout: Seconds
    late_answer: Micros
    body_limit: int
    answer_limit: int
    domain: str | FromHeader = ""
    encoded_slash: EncodedSlash = EncodedSlash.REFUSE
    redact: tuple[str, ...] = ()
    probe: Probe | None = None
    limit: Limit | None = None
    mode: Mode = Mode.ENFORCE
    fence_secret: bytes | None = None
    fields: frozenset[bytes] = frozenset()

    def __repr__(self) -> str:
        return f"Route({self.upstream.name}: {self.pattern.text}, guard {self.guard})"


# --- what is found -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """A route takes the request. `captures` are path segments as they came, still encoded."""

    route: Route
    captures: dict[str, bytes]
    upstream_target: bytes


@dataclass(frozen=True, slots=True)
class Passed:
    """No route covers the request, and it need not: it goes to the upstream unguarded."""

    upstream: Upstream
    upstream_target: bytes


@dataclass(frozen=True, slots=True)
class PathAmbiguous:
    """A guarded route might be meant. `expected`: what the path has, and what to send instead.
    `observed`: where only observing routes might be, the request is passed on all the same."""

    expected: str
    observed: Passed | None = None


@dataclass(frozen=True, slots=True)
class NoRoute:
    """A write that no route covers, or (`write` False) a path that no mount covers. `observed`:
    where nothing is enforced it is passed on all the same."""

    write: bool
    observed: Passed | None = None


Finding = Found | Passed | PathAmbiguous | NoRoute


@dataclass(frozen=True)
class _Mount:
    upstream: Upstream
    routes: tuple[Route, ...]

    @cached_property
    def matching(self) -> Matching:
        return Matching([route.pattern for route in self.routes])

    @cached_property
    def guarded(self) -> tuple[Route, ...]:
        return tuple(route for route in self.routes if route.guard is not Guard.NONE)

    def may_be_guarded(self, method: str) -> list[Route]:
        """The guarded routes that take the method, for a path that could be any of theirs."""
        return [route for route in self.guarded if route.pattern.takes(method)]


@dataclass(frozen=True, slots=True)
class Policies:
    """All that the policy files say. Routes stand in their files' order.

    `domains` are those that routes name; `any_domain`: a route takes them from a header.
    """

    gateway: GatewaySettings
    upstreams: tuple[Upstream, ...]
    routes: tuple[Route, ...]
    callers: Callers | None = None
    _mounts: dict[bytes, _Mount] = field(init=False, repr=False, compare=False)
    _depths: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        routes: dict[str, list[Route]] = {upstream.mount: [] for upstream in self.upstreams}
        for route in self.routes:
            routes[route.upstream.mount].append(route)
        mounts = {
            upstream.mount.rstrip("/").encode(): _Mount(upstream, tuple(routes[upstream.mount]))
            for upstream in self.upstreams
        }
        # A mount within another's comes first.
        depths = sorted({prefix.count(b"/") for prefix in mounts}, reverse=True)
        object.__setattr__(self, "_mounts", mounts)
        object.__setattr__(self, "_depths", tuple(depths))

    def guards(self, upstream: Upstream) -> bool:
        """Does any route of the upstream ask for something?"""
        return bool(self._mounts[upstream.mount.rstrip("/").encode()].guarded)

    @property
    def observes(self) -> bool:
        """Does any route only observe?"""
        return any(route.mode is Mode.OBSERVE for route in self.routes)

    def names_domain(self, domain: str) -> bool:
        """May a route read its fences in this domain? The one without a name always is there."""
        if not domain:
            return True
        if any(route.domain == domain for route in self.routes):
            return True
        by_header = any(isinstance(route.domain, FromHeader) for route in self.routes)
        return by_header and isinstance(domain_of_text(domain), str)

    def find(self, method: str, target: bytes) -> Finding:
        """What applies to a request, given its method and its target in origin form."""
        for mount, rest in self._holding(target):
            return _find_under(mount, method, rest, self.gateway.unmatched)
        return NoRoute(write=False)

    def _holding(self, target: bytes) -> Iterator[tuple[_Mount, bytes]]:
        """The mount that is the target's first segments, and the rest. A target that is no path
        (`*`, a whole URL) is under none."""
        if not target.startswith(b"/"):
            return
        segments = target.partition(b"?")[0].partition(b"#")[0].split(b"/")
        for depth in self._depths:
            prefix = b"/".join(segments[: depth + 1])
            if prefix.count(b"/") == depth and (mount := self._mounts.get(prefix)):
                yield mount, target[len(prefix) :]


def _find_under(mount: _Mount, method: str, rest: bytes, unmatched: Unmatched) -> Finding:
    upstream = mount.upstream
    passed = Passed(upstream, upstream.target(rest))
    path = _read_target(rest)
    if isinstance(path, Malformed):
        if guarded := mount.may_be_guarded(method):
            return _ambiguous(path, guarded, passed)
        path = guess_path(_path_of(rest))
    number = mount.matching.find(method, path)
    route = None if number is None else mount.routes[number]
    if path.encoded_slash and (guarded := mount.may_be_guarded(method)):
        if route is None or route.guard is Guard.NONE:
            return _ambiguous(path.encoded_slash, guarded, passed)
        if route.encoded_slash is EncodedSlash.REFUSE:
            return _ambiguous(path.encoded_slash, [route], passed)
    if route is not None:
        return Found(route, route.pattern.match(path) or {}, passed.upstream_target)
    if method in READS or unmatched is Unmatched.PASS:
        return passed
    return NoRoute(write=True, observed=passed if upstream.mode is Mode.OBSERVE else None)


def _ambiguous(path: Malformed, guarded: list[Route], passed: Passed) -> PathAmbiguous:
    observed = all(route.mode is Mode.OBSERVE for route in guarded)
    return PathAmbiguous(path.expected, passed if observed else None)


def _read_target(rest: bytes) -> Path | Malformed:
    if b"#" in rest:
        return Malformed("a fragment; send it without `#`")
    return read_path(_path_of(rest))


def _path_of(rest: bytes) -> bytes:
    """The path of a target without its mount; the mount alone is its root."""
    return rest.partition(b"?")[0] or b"/"
