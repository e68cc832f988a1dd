"""Who makes a call, and that nobody is shown, or done, what is another's (K4, B10)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from fencegate.core.model import RecordId, word_of
from fencegate.policy.callers import Caller, Callers
from tests.double import Double, deny
from tests.gateway.rig import Gateway, Got, Start, ask, lines_of


def digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


A, B = ("Authorization", "Bearer token-a"), ("Fencegate-Token", "token-b")
CALLERS = [
    {"name": "a", "token_sha256": [digest("token-a"), digest("token-a-next")]},
    {"name": "b", "token_sha256": [digest("token-b")]},
]


async def started(start: Start, **upstream: Any) -> Gateway:
    return await start(more={"callers": CALLERS}, **upstream)


def test_every_token_of_a_caller_shows_it_and_no_other_does() -> None:
    callers = Callers((Caller("a", (sha256(b"1").digest(), sha256(b"2").digest())),))
    assert [callers.who(token) for token in (b"1", b"2", b"3", b"")] == ["a", "a", None, None]


async def test_two_callers_with_one_key_do_not_meet(double: Double, start: Start) -> None:
    """B10: each has its own record, and the upstream is sent two keys."""
    gateway = await started(start)
    assert (await gateway.call("1", headers=[A])).status == 201
    assert (await gateway.call("1", headers=[B])).status == 201
    assert len(double.hits) == 2
    sent = [hit.header("idempotency-key") for hit in double.hits]
    assert len({*sent}) == 2
    assert "1" not in sent
    other = await gateway.call("1", headers=[B], body=b'{"amount":9}')
    assert (other.status, other.code) == (422, "key_reused")
    again = await gateway.call("1", headers=[A])
    assert again.header("fencegate-decision") == "replayed"
    assert len(double.hits) == 2
    record = await gateway.gate.ledger.inspect_key(RecordId("api", "a", "1"))
    assert record is not None
    assert (word_of(record.state), record.credential) == ("done", "")


async def test_the_same_key_goes_upstream_with_every_attempt(double: Double, start: Start) -> None:
    gateway = await started(start)
    double.script = [deny(429)]
    await gateway.call("1", headers=[A])
    await gateway.call("1", headers=[("Authorization", "bearer token-a-next")])
    first, second = [hit.header("idempotency-key") for hit in double.hits]
    assert first == second
    assert first is not None
    assert len(first) == 64


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [("Authorization", "Bearer wrong")],
        [("Authorization", "Basic token-a")],
        [("Authorization", "Bearer token-a"), ("Authorization", "Bearer token-a")],
        [("Fencegate-Token", "")],
        [("Fencegate-Token", "wrong"), A],
    ],
)
@pytest.mark.parametrize("path", ["/api/items/8812", "/api/plain", "/api/read"])
async def test_who_is_not_known_gets_nothing_through(
    double: Double, start: Start, lines: list[tuple[str, str]], path: str
) -> None:
    gateway = await started(start)
    method = "GET" if path.endswith("read") else "POST"
    got = await ask(gateway.port, method, path, lines_of("1", 41, lines), b"{}")
    assert (got.status, got.code) == (401, "caller_unknown")
    assert got.header("www-authenticate") == "Bearer"
    assert b"token-a" not in got.body
    assert double.hits == []


@pytest.mark.parametrize("path", ["/api/items/8812", "/api/plain"])
async def test_the_token_stays_here_and_what_belongs_to_the_upstream_goes_on(
    double: Double, start: Start, path: str
) -> None:
    gateway = await started(start)
    own = ("Authorization", "Basic for-the-upstream")
    await ask(gateway.port, "POST", path, lines_of("1", 41, [B, own]), b"{}")
    await ask(gateway.port, "POST", path, lines_of("2", 41, [A]), b"{}")
    first, second = double.hits
    assert first.header("authorization") == "Basic for-the-upstream"
    assert second.header("authorization") is None
    assert b"token-" not in first.raw_head + second.raw_head


async def test_no_raw_key_leaves_by_a_route_without_a_guard(double: Double, start: Start) -> None:
    """Or a caller could ask the upstream's memory for another's answer."""
    gateway = await started(start)
    await gateway.call("1", headers=[A])
    (guarded,) = double.hits
    forged = guarded.header("idempotency-key")
    assert forged is not None
    await ask(gateway.port, "POST", "/api/plain", lines_of(forged, 41, [B]), b"{}")
    assert double.hits[1].header("idempotency-key") not in (forged, "1")


async def announce(gateway: Gateway, *lines: tuple[str, str]) -> Got:
    path = "/_fencegate/v1/entities/item:8812/fence"
    return await ask(gateway.port, "PUT", path, [("X-Execution-Fence", "42"), *lines])


async def test_an_announcement_needs_a_caller_too(start: Start) -> None:
    gateway = await started(start)
    assert (await announce(gateway)).code == "caller_unknown"
    assert await gateway.high_water() == 0
    assert (await announce(gateway, B)).status == 200
    assert await gateway.high_water() == 42


async def test_a_caller_is_a_value_in_a_template(start: Start) -> None:
    routes = [{"match": "POST /notes", "entity": "notes:{caller}"}]
    gateway = await start(more={"callers": CALLERS, "routes": routes})
    lines = lines_of("1", 41, [B])
    assert (await ask(gateway.port, "POST", "/api/notes", lines, b"{}")).status == 201
    record = await gateway.gate.ledger.inspect_key(RecordId("api", "b", "1"))
    assert record is not None
    assert record.entity.name == "notes:b"


async def test_an_upstream_with_a_header_of_its_own_gets_the_key_there(
    double: Double, start: Start
) -> None:
    gateway = await start(key_header="X-Request-Id")
    await gateway.call("k 1".replace(" ", "-"), headers=[("X-Request-Id", "the caller's own")])
    (hit,) = double.hits
    assert [v for n, v in hit.headers if n.lower() == "x-request-id"] == ["k-1"]
    assert hit.header("idempotency-key") == "k-1"
