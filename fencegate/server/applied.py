"""The policies that new calls are read by, and how others take their place.

A call keeps the policies that it began with. A reload is all or nothing: files that are wrong, or
that would identify calls in another way while records are open, leave everything as it was.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fencegate.core.events import Event, PoliciesReloaded, PolicyWarned, ReloadRefused
from fencegate.core.identity import NotAdopted
from fencegate.gateway.app import App
from fencegate.gateway.gate import Gate
from fencegate.gateway.intake import Intake
from fencegate.gateway.upstream import Leg, LegSettings
from fencegate.ledger.protocol import Act, LedgerUnavailable
from fencegate.policy import Checked, Outside, Policies, Severity, Upstream, check, identities

RESTORE_AGAIN = 0.5  # seconds between two tries while the ledger is away
DRAIN_SPARE = 5.0  # seconds beyond the longest timeout that calls under way are waited for


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Other policies hold now; `changed` is False where they are the same as before."""

    changed: bool
    upstreams: int
    routes: int
    warnings: int


@dataclass(frozen=True, slots=True)
class NotReloaded:
    """The policies of before hold on, and why."""

    why: str
    problems: int


class Applied:
    """What is applied now, and the legs that belong to it."""

    def __init__(self, policies: Policies, gate: Gate, via: bytes) -> None:
        self.policies = policies
        self._gate = gate
        self._via = via
        self._legs = {upstream.name: Leg(_leg(upstream, via)) for upstream in policies.upstreams}
        self._leaving: list[Leg] = []

    def intake(self) -> Intake:
        return Intake(self.policies, self._legs, self._gate.ids, self._via)

    def prepared(self, policies: Policies) -> dict[str, Leg]:
        """The legs for other policies: those of upstreams that are the same are kept. Changes
        nothing yet; OSError for files that cannot be used any more."""
        before = {upstream.name: upstream for upstream in self.policies.upstreams}
        return {
            upstream.name: self._legs[upstream.name]
            if upstream == before.get(upstream.name)
            else Leg(_leg(upstream, self._via))
            for upstream in policies.upstreams
        }

    def exchange(self, policies: Policies, legs: dict[str, Leg]) -> None:
        """Other policies from now on; a leg that is not theirs ends with its last call."""
        old = [leg for leg in self._legs.values() if leg not in legs.values()]
        for leg in old:
            leg.close()
        self._leaving = [leg for leg in (*self._leaving, *old) if leg.busy]
        self._legs, self.policies = legs, policies
        self._gate.holds.every(policies.gateway.hold)

    def interrupt(self) -> None:
        """Give up what is under way; its outcomes are recorded as unknown."""
        for leg in (*self._legs.values(), *self._leaving):
            leg.interrupt()

    def close(self) -> None:
        for leg in self._legs.values():
            leg.close()

    @property
    def drain(self) -> float:
        """Seconds that calls under way are waited for."""
        stated = self.policies.gateway.drain_timeout
        return _longest_timeout(self.policies) + DRAIN_SPARE if stated is None else stated


class Reloading:
    """Reads the folder again, on demand."""

    def __init__(
        self,
        folder: Path,
        outside: Outside,
        gate: Gate,
        applied: Applied,
        app: App,
        emit: Callable[[Event], None],
    ) -> None:
        self._folder = folder
        self._outside = outside
        self._gate = gate
        self._ledger = gate.ledger
        self._applied = applied
        self._app = app
        self._emit = emit
        self._one = asyncio.Lock()
        self._restoring: asyncio.Task[None] | None = None

    async def reload(self, act: Act) -> Reloaded | NotReloaded:
        """Check, then swap. The same policies again are no event."""
        async with self._one:
            if self._restoring is not None and not self._restoring.done():
                return self._refused("the ledger has not answered since the reload before", 0)
            checked = await asyncio.to_thread(check, self._folder, self._outside)
            policies = checked.policies
            if policies is None:
                return self._refused(broken(checked), len(checked.problems), briefly(checked))
            if policies == self._applied.policies:
                return self._told(policies, checked, changed=False)
            try:
                legs = self._applied.prepared(policies)
                async with self._app.paused():  # no call may be recorded by an older reading
                    adopted = await self._ledger.adopt(identities(policies), accept=False, act=act)
                    if isinstance(adopted, NotAdopted):
                        return self._refused(changed_identity(adopted), len(adopted.changes))
                    self._applied.exchange(policies, legs)
                    self._app.intake = self._applied.intake()
            except LedgerUnavailable as error:
                if error.unclear:
                    self._restoring = self._gate.start(self._restore())
                return self._refused(f"the ledger cannot be asked: {error}", 0)
            except OSError as error:
                return self._refused(f"a file cannot be used: {error.strerror or error}", 0)
            warn(checked, self._emit)
            told = self._told(policies, checked, changed=True)
            self._emit(PoliciesReloaded(told.upstreams, told.routes, told.warnings))
            return told

    async def _restore(self) -> None:
        """The ledger may have taken on a reading by which no call is read here: what is recorded
        from now on must not count as made under it."""
        act = Act("reload", "its end was not known; the policies of before hold on")
        while True:
            try:
                await self._ledger.adopt(identities(self._applied.policies), accept=True, act=act)
                return
            except LedgerUnavailable:
                await asyncio.sleep(RESTORE_AGAIN)

    def _refused(self, why: str, problems: int, brief: str | None = None) -> NotReloaded:
        self._emit(ReloadRefused(problems, brief or why))
        return NotReloaded(why, problems)

    def _told(self, policies: Policies, checked: Checked, *, changed: bool) -> Reloaded:
        upstreams, routes = len(policies.upstreams), len(policies.routes)
        return Reloaded(changed, upstreams, routes, len(checked.problems))


# --- in words ------------------------------------------------------------------------------


def broken(checked: Checked) -> str:
    """The errors of files, one a paragraph."""
    errors = [p for p in checked.problems if p.severity is Severity.ERROR]
    return "\n\n".join(map(str, errors))


def briefly(checked: Checked) -> str:
    """The same for the log: places and codes, and no line of a file."""
    errors = [p for p in checked.problems if p.severity is Severity.ERROR]
    return "; ".join(f"{p.place}: {p.wrong} [{p.code}]" for p in errors)


def warn(checked: Checked, emit: Callable[[Event], None]) -> None:
    for problem in checked.problems:
        emit(PolicyWarned(str(problem.place), problem.code, problem.wrong))


def changed_identity(adopted: NotAdopted) -> str:
    """What was read in another way before, and what there is to do."""
    said = [
        f"{change.upstream}: {change.live} open or unknown records, and another reading of "
        + ", ".join(f"`{item}`" for item in change.items)
        for change in adopted.changes
    ]
    return (
        "calls would be identified in another way while records are open or unknown, so that a"
        " retry might not find its record.\n  "
        + "\n  ".join(said)
        + "\nSettle the unknown outcomes first, or start with --accept-identity-change."
    )


# --- wiring --------------------------------------------------------------------------------


def _leg(upstream: Upstream, via: bytes) -> LegSettings:
    return LegSettings(
        host=upstream.host,
        port=upstream.port,
        tls=_tls(upstream),
        inject=upstream.headers,
        via=via,
        reuse_within=upstream.reuse_within,
        pool=upstream.pool,
    )


def _tls(upstream: Upstream) -> ssl.SSLContext | None:
    return upstream.tls.context() if upstream.scheme == "https" else None


def _longest_timeout(policies: Policies) -> float:
    timeouts = [route.timeout for route in policies.routes]
    return max([*timeouts, *(upstream.timeout for upstream in policies.upstreams)], default=0.0)
