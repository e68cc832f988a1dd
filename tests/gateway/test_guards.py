"""What a route asks of its calls: fence and key, one of them, or nothing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from fencegate.core.events import CallEnded
from fencegate.core.model import EntityId
from fencegate.gateway.proofs import proof_of
from fencegate.ledger.protocol import Filter
from tests.double import Double, do_drop, ok
from tests.gateway.rig import (
    Gateway,
    Got,
    Start,
    ask,
    connected,
    lines_of,
    request_bytes,
    until,
)
from tests.gateway.scripts import held

ROUTES = [
    {"match": "POST /mails", "guard": "key-only"},
    {"match": "POST /items/{item}/count", "guard": "fence-only", "entity": "item:{path.item}"},
    {"match": "POST /items/{item}", "entity": "item:{path.item}"},
    {
        "match": "POST /body",
        "entity": "item:{json./item}",
        "fence": ["{header.x-execution-fence}", "{json./execution_fence}"],
        "key": "{json./idempotency_key}",
    },
]


async def started(start: Start, **upstream: Any) -> Gateway:
    return await start(more={"routes": ROUTES}, **upstream)


async def mail(gateway: Gateway, key: str | None, fence: int | None = None) -> Got:
    return await ask(gateway.port, "POST", "/api/mails", lines_of(key, fence), b'{"to":"x"}')


async def count(gateway: Gateway, fence: int | None, key: str | None = None) -> Got:
    path = "/api/items/8812/count"
    return await ask(gateway.port, "POST", path, lines_of(key, fence), b'{"n":1}')


# --- key-only ------------------------------------------------------------------------------


async def test_a_key_alone_makes_a_call_happen_once(double: Double, start: Start) -> None:
    gateway = await started(start)
    assert (await mail(gateway, "m1")).header("fencegate-decision") == "forwarded"
    again = await mail(gateway, "m1")
    assert again.header("fencegate-decision") == "replayed"
    assert again.header("fencegate-high-water") is None
    assert len(double.hits) == 1


async def test_a_fence_on_a_route_that_asks_for_none_is_ignored(start: Start) -> None:
    gateway = await started(start)
    assert (await mail(gateway, "m1", 42)).status == 201
    assert (await mail(gateway, "m2", 41)).status == 201
    (first, _) = gateway.said(CallEnded)
    assert (first.entity, first.fence, first.key) == (None, None, "m1")


async def test_without_its_key_the_call_is_refused(double: Double, start: Start) -> None:
    gateway = await started(start)
    assert (await mail(gateway, None)).code == "key_required"
    assert double.hits == []


async def test_a_refusal_says_nothing_of_an_entity_that_the_call_does_not_have(
    start: Start,
) -> None:
    gateway = await started(start)
    await mail(gateway, "m1")
    reused = await ask(gateway.port, "POST", "/api/mails", lines_of("m1", None), b'{"to":"y"}')
    said = reused.problem
    assert (reused.status, said["code"], said["differs"]) == (422, "key_reused", ["body"])
    assert not {"entity", "fence", "high_water", "holder"} & said.keys()


# --- fence-only ----------------------------------------------------------------------------


async def test_a_fence_alone_keeps_late_workers_out(double: Double, start: Start) -> None:
    gateway = await started(start)
    assert (await count(gateway, 42)).status == 201
    assert (await count(gateway, 42)).status == 201
    late = await count(gateway, 41)
    assert (late.status, late.code, late.problem["sent"]) == (412, "stale_fence", False)
    assert len(double.hits) == 2


async def test_nothing_is_kept_of_a_call_without_a_key(start: Start) -> None:
    gateway = await started(start)
    assert (await count(gateway, 42, key="k1")).status == 201
    assert (await gateway.gate.ledger.list(Filter())).records == ()


async def test_a_call_without_a_key_holds_up_its_successors(double: Double, start: Start) -> None:
    gateway = await started(start, predecessor_wait="0s")
    release = threading.Event()
    double.script = [held(release, ok(201))]
    first = asyncio.create_task(count(gateway, 41))
    await until(lambda: double.hits)
    second = await gateway.call("k1", 42)
    assert (second.status, second.code) == (409, "predecessor_open")
    release.set()
    assert (await first).status == 201
    assert (await gateway.call("k1", 42)).status == 201


async def test_a_doubt_without_a_key_is_overtaken_and_goes_by_itself(
    double: Double, start: Start, clock: Any
) -> None:
    gateway = await started(start)
    double.script = [do_drop()]
    lost = await count(gateway, 41)
    assert (lost.status, lost.code) == (502, "outcome_unknown")
    assert (await gateway.call("k1", 42)).status == 201
    kinds = [row.kind for row in await gateway.gate.ledger.journal()]
    assert kinds == ["overtook_unknown"]
    clock.ahead += 5 * 60 * 1_000_000
    assert [r.id.key for r in (await gateway.gate.ledger.list(Filter())).records] == ["k1"]


# --- fence and key in the body -------------------------------------------------------------


async def in_body(gateway: Gateway, said: bytes, fence: int | None = None) -> Got:
    return await ask(gateway.port, "POST", "/api/body", lines_of(None, fence), said)


async def test_a_retry_under_a_new_fence_in_the_body_is_a_replay(
    double: Double, start: Start
) -> None:
    gateway = await started(start)
    first = await in_body(gateway, b'{"item":1,"execution_fence":41,"idempotency_key":"k1"}')
    again = await in_body(gateway, b'{"item":1,"execution_fence":42,"idempotency_key":"k1"}')
    assert first.header("fencegate-decision") == "forwarded"
    assert again.header("fencegate-decision") == "replayed"
    assert len(double.hits) == 1
    assert await gateway.high_water("1") == 42


async def test_a_header_and_a_body_that_disagree_are_refused(double: Double, start: Start) -> None:
    gateway = await started(start)
    said = b'{"item":1,"execution_fence":41,"idempotency_key":"k1"}'
    got = await in_body(gateway, said, fence=42)
    assert (got.status, got.code) == (400, "fence_invalid")
    assert (await in_body(gateway, b'{"item":1,"idempotency_key":"k1"}')).code == "fence_required"
    assert (await in_body(gateway, b'{"item":1,"execution_fence":41}')).code == "key_required"
    assert double.hits == []


# --- domains -------------------------------------------------------------------------------

DOMAINS = [
    {"match": "POST /a/{x}", "entity": "x:{path.x}", "fence_domain": "billing"},
    {"match": "POST /b/{x}", "entity": "x:{path.x}", "fence_domain": "{header.X-Fence-Domain}"},
    {"match": "POST /c/{x}", "entity": "x:{path.x}"},
]


async def test_fences_of_two_domains_are_not_compared(start: Start) -> None:
    gateway = await start(more={"routes": DOMAINS})

    async def call(path: str, fence: int, key: str, *lines: tuple[str, str]) -> int:
        got = await ask(gateway.port, "POST", path, lines_of(key, fence, lines), b"{}")
        return got.status

    crm = ("X-Fence-Domain", "crm")
    assert await call("/api/a/1", 42, "k1") == 201
    assert await call("/api/b/1", 7, "k2", crm) == 201
    assert await call("/api/c/1", 5, "k3", crm) == 201  # honoured only where the route says so
    assert await call("/api/b/1", 41, "k4", ("X-Fence-Domain", "billing")) == 412
    assert await call("/api/b/1", 42, "k5", ("X-Fence-Domain", "observe:x")) == 422
    assert await call("/api/b/1", 6, "k6") == 201
    view = await gateway.gate.ledger.inspect(EntityId("crm", "x:1"))
    assert view.entity.high_water == 7


@pytest.mark.parametrize(
    ("domain", "status"), [("billing", 200), ("crm", 200), ("a:b", 422), ("", 200)]
)
async def test_an_announcement_names_a_domain_of_a_policy(
    start: Start, domain: str, status: int
) -> None:
    gateway = await start(more={"routes": DOMAINS})
    path = f"/_fencegate/v1/entities/x:1/fence?domain={domain}"
    got = await ask(gateway.port, "PUT", path, [("X-Execution-Fence", "42")])
    assert got.status == status
    view = await gateway.gate.ledger.inspect(EntityId(domain, "x:1"))
    assert view.entity.high_water == (42 if status == 200 else 0)


async def test_a_domain_that_no_policy_names_is_refused(start: Start) -> None:
    gateway = await start(more={"routes": DOMAINS[:1]})
    path = "/_fencegate/v1/entities/x:1/fence?domain=crm"
    got = await ask(gateway.port, "PUT", path, [("X-Execution-Fence", "42")])
    assert (got.status, got.code) == (422, "entity_unresolved")


# --- proofs --------------------------------------------------------------------------------

SECRET = "0123456789abcdef"


async def test_a_fence_must_be_signed_where_the_policy_says_so(
    double: Double, start: Start
) -> None:
    gateway = await start(more={"environ": {"S": SECRET}, "defaults": {"fence_secret": "${S}"}})
    signed = proof_of(SECRET.encode(), EntityId("", "item:8812"), 42)
    proof = ("X-Execution-Fence-Proof", signed)
    for lines in ([], [("X-Execution-Fence-Proof", "00")]):
        got = await gateway.call("k1", 42, headers=lines)
        assert (got.status, got.code) == (403, "fence_unproven")
    assert (await gateway.call("k1", 43, headers=[proof])).code == "fence_unproven"
    assert (await gateway.call("k1", 42, "1", headers=[proof])).code == "fence_unproven"
    assert double.hits == []
    assert (await gateway.call("k1", 42, headers=[proof])).status == 201
    assert double.hits[0].header("x-execution-fence-proof") is None

    path = "/_fencegate/v1/entities/item:8812/fence"
    got = await ask(gateway.port, "PUT", path, [("X-Execution-Fence", "43")])
    assert (got.status, got.code) == (403, "fence_unproven")
    assert await gateway.high_water() == 42


# --- one spelling --------------------------------------------------------------------------


async def test_entities_that_differ_in_case_are_one_where_they_fold(start: Start) -> None:
    gateway = await start(more={"gateway": {"fold": "case"}})
    assert (await gateway.call("k1", 42, "ABC")).status == 201
    assert (await gateway.call("k2", 41, "abc")).code == "stale_fence"
    path = "/_fencegate/v1/entities/Item:aBc/fence"
    assert (await ask(gateway.port, "PUT", path, [("X-Execution-Fence", "43")])).status == 200
    assert (await gateway.call("k3", 42, "ABC")).code == "stale_fence"


async def test_an_encoded_slash_goes_only_where_the_route_allows_it(
    double: Double, start: Start
) -> None:
    routes = [
        {"match": "POST /files/{f}", "entity": "file:{path.f}", "encoded_slash": "allow"},
        {"match": "POST /items/{item}", "entity": "item:{path.item}"},
    ]
    gateway = await start(more={"routes": routes})
    assert (await gateway.call("k1", 42, path="/api/files/a%2Fb")).status == 201
    assert double.hits[0].target == "/files/a%2Fb"
    refused = ["items/a%2Fb", *(f"files/{f}" for f in ("a%2F..%2Fb", "..%2fb", "%2Fa%2Fb"))]
    refused += ["files/a%2Fb%2F", "files/a%2F%2Fb", "files/%2F", "files/a%2F%2e%2Fb"]
    for path in (f"/api/{rest}" for rest in refused):
        assert (await gateway.call("k2", 42, path=path)).code == "path_ambiguous"
    assert (await gateway.call("k3", 41, path="/api/files/a%2fb")).code == "stale_fence"
    assert len(double.hits) == 1


async def test_the_rest_of_a_path_is_a_value_under_a_name(double: Double, start: Start) -> None:
    routes = [{"match": "PUT /files/{file...}", "entity": "file:{path.file}"}]
    gateway = await start(more={"routes": routes})

    async def put(key: str, fence: int, rest: str) -> Got:
        return await gateway.call(key, fence, method="PUT", path=f"/api/files/{rest}")

    assert (await put("k1", 42, "a/b/c.ipynb")).status == 201
    assert (await put("k2", 41, "a/%62/c.ipynb")).code == "stale_fence"
    assert (await put("k3", 41, "a/b")).status == 201
    for rest in ("a//b", "a/../b", "a%2Fb/c.ipynb"):
        assert (await put("k4", 41, rest)).code == "path_ambiguous"
    record = await gateway.record_of("k1")
    assert record is not None
    assert record.entity.name == "file:a/b/c.ipynb"


# --- limits and what is kept ---------------------------------------------------------------


async def test_one_call_too_many_is_refused_before_the_ledger(double: Double, start: Start) -> None:
    gateway = await start(max_concurrent=1)
    release = threading.Event()
    double.script = [held(release, ok(201))]
    first = asyncio.create_task(gateway.call("k1", 41, "1"))
    await until(lambda: double.hits)
    busy = await gateway.call("k2", 42, "2")
    assert (busy.status, busy.code) == (503, "upstream_busy")
    assert busy.header("retry-after") == "1"
    assert "sent" not in busy.problem
    assert await gateway.high_water("2") == 0
    release.set()
    assert (await first).status == 201
    assert (await gateway.call("k2", 42, "2")).status == 201


async def test_every_call_makes_room_when_it_has_ended(double: Double, start: Start) -> None:
    """However it ended: refused, replayed, and though its client has gone."""
    gateway = await start(max_concurrent=1)
    assert (await gateway.call("k1", 42)).status == 201
    assert (await gateway.call("k2", 41)).code == "stale_fence"
    assert (await gateway.call("k1", 42)).header("fencegate-decision") == "replayed"
    release = threading.Event()
    double.script = [held(release, ok(201))]
    async with connected(gateway.port) as (_, writer):
        writer.write(request_bytes("POST", "/api/items/8812", lines_of("k3", 42), b"{}"))
        await until(lambda: len(double.hits) == 2)
    assert (await gateway.call("k4", 42)).code == "upstream_busy"
    release.set()
    await gateway.gate.drained(5)
    assert (await gateway.call("k4", 42)).status == 201


async def test_what_is_redacted_is_not_kept_and_the_replay_says_so(
    double: Double, start: Start
) -> None:
    gateway = await start(redact=["/card/number", "/mails/0"])
    body = b'{"id": 1.50, "card": {"number": "4242", "last": "42"}, "mails": ["a", "b"]}'
    etag = [("ETag", '"x"'), ("Content-Type", "application/json")]
    double.script = [ok(201, body, etag)]
    assert (await gateway.call("k1")).body == body
    again = await gateway.call("k1")
    assert again.body == b'{"id":1.50,"card":{"last":"42"},"mails":["b"]}'
    assert again.header("fencegate-redacted") == "true"
    assert again.header("etag") is None
    assert b"4242" not in repr(await gateway.all_rows("8812")).encode()


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b"4242", [("Content-Type", "text/plain")]),
        (b'{"card": {"number": "4242"', [("Content-Type", "application/json")]),
        (b'{"card": 1, "card": {"number": "4242"}}', [("Content-Type", "application/json")]),
        (b"\x1f\x8b", [("Content-Type", "application/json"), ("Content-Encoding", "gzip")]),
    ],
)
async def test_what_cannot_be_redacted_is_not_kept_at_all(
    double: Double, start: Start, body: bytes, lines: list[tuple[str, str]]
) -> None:
    gateway = await start(redact=["/card/number"])
    double.script = [ok(201, body, lines)]
    assert (await gateway.call("k1")).body == body
    again = await gateway.call("k1")
    assert (again.status, again.code) == (409, "answer_not_kept")


async def test_an_answer_without_what_is_redacted_is_kept_as_it_came(
    double: Double, start: Start
) -> None:
    gateway = await start(redact=["/card/number"])
    body = b'{ "id": 1 }'
    double.script = [ok(201, body, [("Content-Type", "application/json")])]
    await gateway.call("k1")
    again = await gateway.call("k1")
    assert (again.body, again.header("fencegate-redacted")) == (body, None)
