"""What would become of a request, by the way that a real one goes: read, then asked of the law.

Nothing is sent and nothing is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from fencegate.core.attempts import AttemptIds
from fencegate.core.identity import OBSERVED
from fencegate.core.model import (
    Asked,
    Compare,
    Go,
    Probe,
    Refuse,
    Replay,
    Wait,
    WaitFor,
)
from fencegate.core.outcomes import Headers
from fencegate.gateway import problems
from fencegate.gateway.intake import Incoming, Intake, Unguarded
from fencegate.gateway.observing import WOULD_REFUSE, WOULD_REPLAY
from fencegate.gateway.order import Order
from fencegate.gateway.problems import Problem
from fencegate.gateway.upstream import Leg, LegSettings
from fencegate.ledger.protocol import Ledger, LedgerUnavailable
from fencegate.policy import Finding, Found, Policies, Upstream


@dataclass(frozen=True, slots=True)
class Explained:
    """`decision` is what `Fencegate-Decision` would say. `status` is that of a refusal or a replay;
    what the upstream would answer nobody knows. `waits`: what is waited for first, and how many
    seconds at most; the decision is what follows if nothing changes."""

    decision: str
    upstream: str | None = None
    upstream_target: str | None = None
    route: str | None = None
    guard: str | None = None
    mode: str | None = None
    caller: str | None = None
    entity: str | None = None
    domain: str | None = None
    fence: int | None = None
    key: str | None = None
    status: int | None = None
    code: str | None = None
    detail: str | None = None
    high_water: int | None = None
    waits: tuple[tuple[str, float], ...] = ()
    resends: bool = False


async def explain(
    policies: Policies, ledger: Ledger, method: str, target: bytes, headers: Headers, body: bytes
) -> Explained:
    """Raises `LedgerUnavailable`."""

    async def read_body(limit: int) -> bytes | None:
        return body if len(body) <= limit else None

    async def left() -> None:
        """Nobody hangs up."""

    legs = {upstream.name: _leg(upstream) for upstream in policies.upstreams}
    if target.startswith(b"/_fencegate/"):
        return Explained("passed", detail="This path is the gateway's own; no upstream is asked.")
    via = f"fencegate-{ledger.id[:12]}".encode()
    intake = Intake(policies, legs, AttemptIds("explain"), via)
    match await intake.read(Incoming(method, target, headers, read_body, left)):
        case Problem() as problem:
            return _refused(_placed(policies.find(method, target)), problem)
        case Unguarded() as unguarded:
            return _of_unguarded(unguarded)
        case Order() as order:
            return await _of_order(ledger, order)


def _placed(finding: Finding) -> Explained:
    """As far as the route, for what goes no further."""
    if not isinstance(finding, Found):
        return Explained("refused")
    route = finding.route
    return Explained(
        "refused",
        upstream=route.upstream.name,
        route=route.pattern.text,
        guard=route.guard.value,
        mode=route.mode.value,
    )


def _of_unguarded(unguarded: Unguarded) -> Explained:
    path = unguarded.outgoing.target.partition(b"?")[0].decode("latin-1")
    explained = Explained(
        "passed", upstream=unguarded.upstream, upstream_target=path, route=unguarded.route
    )
    if unguarded.would is None:
        return explained
    would = unguarded.would
    return replace(explained, decision=WOULD_REFUSE, code=would.reason.value, detail=would.detail)


async def _of_order(ledger: Ledger, order: Order) -> Explained:
    call, route = order.call, order.route
    explained = Explained(
        "forwarded",
        upstream=route.upstream.name,
        upstream_target=order.outgoing.target.partition(b"?")[0].decode("latin-1"),
        route=route.pattern.text,
        guard=route.guard.value,
        mode=route.mode.value,
        caller=call.caller,
        entity=call.entity.shown,
        domain=call.entity.domain.removeprefix(OBSERVED) or None if call.entity.shown else None,
        fence=order.fence,
        key=order.key,
    )
    waits: list[tuple[str, float]] = []
    while True:
        decision = await ledger.preview(order.call, order.terms)
        match decision:
            case Wait(on=on) as wait:
                waits.append((on.value, _allowed(order, on)))
                order = order.asked_anew(_over(order.call.asked, wait))
            case Compare(scheme=scheme):
                try:
                    order = order.with_print(order.print_under(scheme))
                except ValueError as error:  # a newer program's record: nothing can be decided
                    raise LedgerUnavailable(str(error)) from error
            case Probe():
                order = order.asked_anew(replace(order.call.asked, probed=True))
            case Go() | Replay() | Refuse():
                explained = replace(explained, waits=tuple(waits))
                return _decided(explained, order, decision)
            case _:
                assert_never(decision)


def _decided(explained: Explained, order: Order, decision: Go | Replay | Refuse) -> Explained:
    fenced = order.fence is not None
    explained = replace(explained, high_water=decision.high_water if fenced else None)
    match decision:
        case Go(earlier=earlier):
            return replace(explained, resends=earlier)
        case Replay(answer=answer):
            word = WOULD_REPLAY if order.observed else "replayed"
            return replace(explained, decision=word, status=answer.status)
        case Refuse():
            word = WOULD_REFUSE if order.observed else "refused"
            problem = problems.from_refusal(decision, order)
            return _refused(replace(explained, decision=word), problem)


def _refused(explained: Explained, problem: Problem) -> Explained:
    return replace(
        explained, status=problem.status, code=problem.reason.value, detail=problem.detail
    )


def _over(asked: Asked, wait: Wait) -> Asked:
    """What was asked, once this wait is over and nothing has changed."""
    asked = replace(asked, waited=True, found=wait.found)
    if wait.on is WaitFor.KEY:
        return replace(asked, duplicate_wait_over=True)
    return replace(asked, predecessor_wait_over=True)


def _allowed(order: Order, on: WaitFor) -> float:
    route = order.route
    return route.duplicate_wait if on is WaitFor.KEY else route.predecessor_wait


def _leg(upstream: Upstream) -> Leg:
    """Nothing is ever sent on it."""
    return Leg(LegSettings(upstream.host, upstream.port, None, (), b"", 0.0))
