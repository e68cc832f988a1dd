"""Calls that are only watched: all are forwarded, and what the law would have said is told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from fencegate.core.events import CallObserved
from fencegate.core.identity import OBSERVED
from fencegate.core.model import EntityId
from fencegate.ledger.protocol import Act, Filter, Ledger, LedgerUnavailable
from fencegate.policy import identities
from tests.double import Double, do_drop
from tests.double import ok as answers
from tests.gateway.rig import Around, Gateway, Start, ask, lines_of, until
from tests.gateway.scripts import held
from tests.gateway.test_callers import CALLERS, A

SHADOW = EntityId(f"{OBSERVED}", "item:8812")


async def started(start: Start, **upstream: Any) -> Gateway:
    return await start(mode="observe", **upstream)


def met(gateway: Gateway) -> list[tuple[str, str | None]]:
    return [(event.decision, event.code) for event in gateway.said(CallObserved)]


async def test_everything_is_forwarded_and_told(double: Double, start: Start) -> None:
    gateway = await started(start)
    assert (await gateway.call("k1", 42)).header("fencegate-decision") == "forwarded"
    again = await gateway.call("k1", 42)
    assert again.header("fencegate-decision") == "would-replay"
    assert again.header("idempotency-replayed") is None
    late = await gateway.call("k2", 41)
    assert (late.status, late.header("fencegate-decision")) == (201, "would-refuse")
    reused = await gateway.call("k1", 42, body=b'{"amount":9}')
    assert reused.header("fencegate-decision") == "would-refuse"
    assert len(double.hits) == 4
    assert met(gateway) == [
        ("forwarded", None),
        ("would-replay", None),
        ("would-refuse", "stale_fence"),
        ("would-refuse", "key_reused"),
    ]


async def test_what_is_observed_leaves_enforced_rows_alone(start: Start) -> None:
    gateway = await started(start)
    await gateway.call("k1", 42)
    assert await gateway.high_water() == 0
    assert await gateway.state_of("k1") is None
    shadow = await gateway.gate.ledger.inspect(SHADOW)
    assert shadow.entity.high_water == 42


@pytest.mark.parametrize(
    ("key", "fence", "path", "code"),
    [
        ("k1", None, None, "fence_required"),
        ("k1", "042", None, "fence_invalid"),
        (None, 41, None, "key_required"),
        ("k1", 41, "/api/notes", "entity_unresolved"),
        ("k1", 41, "/api/items/a//b", "path_ambiguous"),
        ("k1", 41, "/api/nothing", "no_route"),
    ],
)
async def test_what_cannot_be_read_is_forwarded_too(
    double: Double, start: Start, key: str | None, fence: int | str | None, path: str, code: str
) -> None:
    gateway = await started(start)
    got = await gateway.call(key, fence, path=path)
    assert (got.status, got.header("fencegate-decision")) == (201, "would-refuse")
    assert met(gateway) == [("would-refuse", code)]
    assert len(double.hits) == 1


async def test_framing_and_size_are_refused_all_the_same(double: Double, start: Start) -> None:
    gateway = await started(start, body_limit="4B")
    got = await gateway.call("k1", 41, headers=[("X_Execution_Fence", "42")])
    assert (got.status, got.code) == (400, "framing")
    assert (await gateway.call("k1", 41, body=b"12345")).code == "body_too_large"
    assert double.hits == []


async def test_it_never_waits(double: Double, start: Start) -> None:
    gateway = await started(start, duplicate_wait="30s", predecessor_wait="30s")
    release = threading.Event()
    double.script = [held(release, answers(201))]
    first = asyncio.create_task(gateway.call("k1", 41))
    await until(lambda: double.hits)
    assert (await gateway.call("k1", 41)).status == 201
    assert (await gateway.call("k2", 42)).status == 201
    release.set()
    await first
    assert met(gateway)[:2] == [
        ("would-refuse", "in_flight"),
        ("would-refuse", "predecessor_open"),
    ]


async def test_it_goes_without_a_ledger(double: Double, start: Start, ledger: Ledger) -> None:
    class Away(Around):
        async def admit(self, *_: Any) -> Any:
            raise LedgerUnavailable("away")

    gateway = await start(on=Away(ledger).ledger, mode="observe")
    got = await gateway.call("k1", 41)
    assert (got.status, got.header("fencegate-decision")) == (201, "forwarded")


async def test_an_unknown_outcome_would_be_refused_next_time(double: Double, start: Start) -> None:
    gateway = await started(start)
    double.script = [do_drop()]
    assert (await gateway.call("k1", 41)).status == 502
    assert (await gateway.call("k1", 41)).status == 201
    assert met(gateway)[1] == ("would-refuse", "outcome_unknown")


async def test_no_answer_is_kept(start: Start) -> None:
    gateway = await started(start)
    await gateway.call("k1", 41)
    records = (await gateway.gate.ledger.list(Filter())).records
    assert [record.id.upstream for record in records] == [f"{OBSERVED}api"]
    kept = await gateway.gate.ledger.inspect_key(records[0].id)
    assert kept is not None
    assert b"ok" not in repr(kept).encode()
    assert kept.state.answer.headers == ()  # type: ignore[union-attr]


async def test_who_is_not_known_goes_without_our_credentials(double: Double, start: Start) -> None:
    """What the gateway lends to its callers it does not lend to everybody."""
    headers = {"Authorization": "Bearer the-gateways-own"}
    gateway = await start(mode="observe", headers=headers, more={"callers": CALLERS})
    got = await gateway.call("k1", 41, headers=[("Authorization", "Bearer own")])
    assert got.header("fencegate-decision") == "would-refuse"
    assert met(gateway) == [("would-refuse", "caller_unknown")]
    await gateway.call("k1", 41, headers=[A])
    assert [hit.header("authorization") for hit in double.hits] == [
        "Bearer own",
        "Bearer the-gateways-own",
    ]
    assert double.hits[1].header("idempotency-key") != "k1"  # or it could be another's digest


async def test_enforcing_begins_with_the_high_water_that_was_observed(
    start: Start, ledger: Ledger
) -> None:
    watching = await started(start)
    act = Act("test", "start")
    await ledger.adopt(identities(watching.applied.policies), accept=False, act=act)
    await watching.call("k1", 42)
    enforcing = await start()
    await ledger.adopt(identities(enforcing.applied.policies), accept=False, act=act)
    late = await enforcing.call("k2", 41)
    assert (late.status, late.code, late.problem["high_water"]) == (412, "stale_fence", 42)
    assert (await enforcing.call("k1", 42)).header("fencegate-decision") == "forwarded"


async def test_one_route_may_observe_while_another_enforces(double: Double, start: Start) -> None:
    routes = [
        {"match": "POST /watched/{item}", "entity": "item:{path.item}", "mode": "observe"},
        {"match": "POST /items/{item}", "entity": "item:{path.item}"},
    ]
    gateway = await start(more={"routes": routes})
    watched = "/api/watched/8812"
    assert (await gateway.call("k1", 43, path=watched)).status == 201
    assert (await gateway.call("k1", 42)).status == 201
    assert (await gateway.call("k2", 41)).status == 412
    got = await ask(gateway.port, "POST", watched, lines_of("k3", 41), b"{}")
    assert got.header("fencegate-decision") == "would-refuse"
