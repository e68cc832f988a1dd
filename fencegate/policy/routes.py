"""What applies to a request: compiled policies, and the way from a target to its route.

A target is looked up by mount, then by method and path. What is sent on is the target as it
came, byte for byte, with the mount exchanged for the base path of the upstream's URL. A path
that has no one reading is refused wherever a guarded route takes its method, before any route
is tried: another spelling must not lead a write around its guard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from fencegate.core.fingerprint import Scheme
from fencegate.core.model import FenceLead, Micros, Terms
from fencegate.core.outcomes import Statuses
from fencegate.core.reading import Malformed
from fencegate.policy.paths import READS, Path, Pattern, guess_path, read_path
from fencegate.policy.templates import Template
from fencegate.policy.values import PORTS

Seconds = float


class Guard(StrEnum):
    """What a route asks of its calls: fence, key and entity; or nothing."""

    FULL = "full"
    NONE = "none"


class Unmatched(StrEnum):
    """What becomes of a write that no route covers."""

    REFUSE = "refuse"
    PASS = "pass"


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """What holds for all upstreams. `max_fence_lead` is that of announcements; None is `off`."""

    hold: Micros
    tombstone: Micros
    unmatched: Unmatched
    max_fence_lead: FenceLead | None


@dataclass(frozen=True, slots=True)
class Upstream:
    """An API behind the gateway. `headers` are set on every request; they may be secret.

    `base_path` ends without a slash. Times and limit are for what is passed.
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
class Route:
    """One pattern and its settings, the nearest of each.

    A guarded route has an entity; without a key template the key is read from its header. A
    route that guards nothing has neither.
    """

    upstream: Upstream
    pattern: Pattern
    guard: Guard
    entity: Template | None
    key: Template | None
    terms: Terms
    statuses: Statuses
    scheme: Scheme
    duplicate_wait: Seconds
    predecessor_wait: Seconds
    timeout: Seconds
    connect_timeout: Seconds
    body_limit: int
    answer_limit: int

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
    """A guarded route might be meant. `expected`: what the path has, and what to send instead."""

    expected: str


@dataclass(frozen=True, slots=True)
class NoRoute:
    """A write that no route covers, or (`write` False) a path that no mount covers."""

    write: bool


Finding = Found | Passed | PathAmbiguous | NoRoute


@dataclass(frozen=True, slots=True)
class _Mount:
    prefix: bytes
    upstream: Upstream
    routes: tuple[Route, ...]

    def holds(self, target: bytes) -> bool:
        """The target is a path (not `*`, not a whole URL), and the mount its first segments."""
        if not target.startswith(b"/") or not target.startswith(self.prefix):
            return False
        return target[len(self.prefix) : len(self.prefix) + 1] in (b"/", b"?", b"#", b"")


@dataclass(frozen=True, slots=True)
class Policies:
    """All that the policy files say. Routes stand in their files' order."""

    gateway: GatewaySettings
    upstreams: tuple[Upstream, ...]
    routes: tuple[Route, ...]
    _mounts: tuple[_Mount, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        mounts = [
            _Mount(
                prefix=upstream.mount.rstrip("/").encode(),
                upstream=upstream,
                routes=tuple(route for route in self.routes if route.upstream is upstream),
            )
            for upstream in self.upstreams
        ]
        # A mount within another's comes first.
        mounts.sort(key=lambda mount: len(mount.prefix), reverse=True)
        object.__setattr__(self, "_mounts", tuple(mounts))

    def find(self, method: str, target: bytes) -> Finding:
        """What applies to a request, given its method and its target in origin form."""
        for mount in self._mounts:
            if mount.holds(target):
                return self._find_under(mount, method, target[len(mount.prefix) :])
        return NoRoute(write=False)

    def _find_under(self, mount: _Mount, method: str, rest: bytes) -> Finding:
        routes = [route for route in mount.routes if route.pattern.takes(method)]
        path = _read_target(rest)
        if isinstance(path, Malformed):
            if any(route.guard is not Guard.NONE for route in routes):
                return PathAmbiguous(path.expected)
            path = guess_path(_path_of(rest))
        upstream_target = mount.upstream.target(rest)
        for route in routes:
            captures = route.pattern.match(path)
            if captures is not None:
                return Found(route, captures, upstream_target)
        if method in READS or self.gateway.unmatched is Unmatched.PASS:
            return Passed(mount.upstream, upstream_target)
        return NoRoute(write=True)


def _read_target(rest: bytes) -> Path | Malformed:
    if b"#" in rest:
        return Malformed("a fragment; send it without `#`")
    return read_path(_path_of(rest))


def _path_of(rest: bytes) -> bytes:
    """The path of a target without its mount; the mount alone is its root."""
    return rest.partition(b"?")[0] or b"/"
