"""How the policies identify calls, in texts that a ledger can keep and compare.

A changed text means that a retry may no longer find its record: `adopt` refuses it while records
are open or unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencegate.core.identity import OBSERVE, TOKEN, Identities
from fencegate.policy.domains import FromHeader
from fencegate.policy.routes import Guard, Mode, Policies, Route, Upstream

SPELLING = 1  # of entities and keys; another number says that they are spelt in another way


def identities(policies: Policies) -> Identities:
    """Of each upstream: its guarded routes, and the names of callers."""
    callers = dict(_callers(policies))
    found = {up.name: {**callers, **_of_upstream(up, policies)} for up in policies.upstreams}
    for upstream in policies.upstreams:
        guarded = [route for route in policies.routes if route.upstream is upstream]
        for number, route in enumerate(guarded):
            if route.guard is Guard.NONE:
                continue
            name = f"{_methods(route)} {route.pattern.text.partition(' ')[2]}"
            reading = _reading(route, policies)
            before = [_met(other) for other in guarded[:number] if _takes_from(other, route)]
            found[upstream.name][f"route {name}"] = " | ".join([reading, *before])
            if route.mode is Mode.OBSERVE:
                found[upstream.name][f"{OBSERVE}{name}"] = "observe"
    return found


def _callers(policies: Policies) -> Iterator[tuple[str, str]]:
    if policies.callers is None:
        yield "callers", "none"
        return
    for caller in policies.callers.all:
        yield f"caller {caller.name}", "known"
        for digest in caller.digests:
            yield f"{TOKEN}{digest.hex()[:16]}", caller.name


def _of_upstream(upstream: Upstream, policies: Policies) -> dict[str, str]:
    """Which targets are its own, and by what it knows a key that is sent again."""
    prefix = upstream.mount.rstrip("/") + "/"
    within = sorted(
        other.mount
        for other in policies.upstreams
        if other is not upstream and other.mount.startswith(prefix)
    )
    key_header = (upstream.key_header or b"none").decode().lower()
    return {
        "mount": " but ".join([upstream.mount, *within]),
        "upstream's key": f"{key_header}, {upstream.kind}",
    }


def _reading(route: Route, policies: Policies) -> str:
    domain = "{header}" if isinstance(route.domain, FromHeader) else route.domain
    fold = " fold=case" if policies.gateway.fold_case else ""
    return (
        f"spelling={SPELLING} guard={route.guard} domain={domain} entity={route.entity}"
        f" key={route.key}{fold}"
    )


def _takes_from(other: Route, route: Route) -> bool:
    """Does an earlier route take calls that this one would identify in another way?"""
    return other.pattern.meets(route.pattern) and (
        (other.guard, str(other.entity), str(other.key), other.domain)
        != (route.guard, str(route.entity), str(route.key), route.domain)
    )


def _met(other: Route) -> str:
    return f"but {_methods(other)} {other.pattern.text.partition(' ')[2]}"


def _methods(route: Route) -> str:
    if route.pattern.methods is not None:
        return "|".join(sorted(route.pattern.methods))
    return "*" + "".join(f"-{name}" for name in sorted(route.pattern.but))
