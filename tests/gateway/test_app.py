"""The application around the guarded calls: what is passed, announcements, and our own paths."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from fencegate.core.events import CallUnread
from fencegate.core.model import DAY, EntityId
from fencegate.core.reasons import Reason
from fencegate.gateway.problems import KINDS
from fencegate.ledger.clock import wall_clock
from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Act, Ledger, LedgerUnavailable
from tests.double import Double, do_drop, do_err, ok
from tests.gateway.peers import nobody_listens
from tests.gateway.rig import (
    Around,
    Clock,
    Gateway,
    Got,
    Start,
    ask,
    connected,
    read_response,
    request_bytes,
    through_asgi,
    until,
)
from tests.gateway.scripts import held, nothing, say


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return MemoryLedger(clock)


# --- passed --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "/items/8812",
        "/items//8812",
        "//items",
        "/a%2Fb",
        "/a%252Fb",
        "/a%3Fb",
        "/%41",
        "/%e2%82%ac",
        "/a/./b/../c",
        "/a;v=1",
        "/x?a=1&a=2&b=%20+&c",
        "",
        "/",
        "?a=1",
    ],
)
async def test_a_read_goes_through_byte_for_byte(double: Double, start: Start, target: str) -> None:
    double.script = [ok(200, b"read", [("ETag", '"1"'), ("Set-Cookie", "a"), ("Set-Cookie", "b")])]
    gateway = await start()
    got = await ask(gateway.port, "GET", f"/api{target}", [("X-A", "1"), ("X-A", "2")])
    assert (got.status, got.body) == (200, b"read")
    assert got.header("fencegate-decision") == "passed"
    assert got.header("fencegate-high-water") is None
    assert got.all("set-cookie") == ["a", "b"]
    sent = target if target.startswith("/") else f"/{target}"
    assert double.hits[0].raw_head.startswith(f"GET {sent} HTTP/1.1\r\n".encode())
    assert [v for n, v in double.hits[0].headers if n == "x-a"] == ["1", "2"]


async def test_what_no_guard_is_asked_of_goes_through_and_leaves_no_row(
    double: Double, start: Start
) -> None:
    gateway = await start()
    rows = await gateway.all_rows("8812")
    written = await gateway.call(path="/api/plain", fence=7)
    read = await gateway.call(method="GET", fence=7)
    odd = await gateway.call(path="/api/plain", fence="x", headers=[("X_Execution_Fence", "1")])
    for got in (written, read, odd):
        assert (got.status, got.header("fencegate-decision")) == (201, "passed")
    assert double.hits[0].header("x-execution-fence") == "7"
    assert double.hits[0].header("idempotency-key") == "k1"
    assert double.hits[0].body == b'{"amount":200}'
    assert await gateway.all_rows("8812") == rows
    assert gateway.events == []


async def test_an_answer_without_a_body_leaves_the_connection_usable(
    double: Double, start: Start
) -> None:
    double.script = [
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
        say(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: a\r\n\r\n"),
        say(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
        ok(200, b"whole", []),
    ]
    gateway = await start()
    async with connected(gateway.port) as (reader, writer):
        for method, status, length, body in (
            ("HEAD", 200, "99", b""),
            ("GET", 304, None, b""),
            ("GET", 204, None, b""),
            ("GET", 200, "5", b"whole"),
        ):
            writer.write(request_bytes(method, "/api/items/1", [], None))
            got = await read_response(reader, method)
            assert (got.status, got.header("content-length"), got.body) == (status, length, body)


async def test_a_guarded_answer_without_a_body_is_replayed_without_one(
    double: Double, start: Start
) -> None:
    double.script = [say(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: a\r\n\r\n")]
    gateway = await start()
    first, again = await gateway.call(), await gateway.call()
    assert (first.status, again.status) == (304, 304)
    assert first.header("etag") == again.header("etag") == "a"
    assert again.header("idempotency-replayed") == "true"


async def test_a_failed_pass_says_that_nothing_was_sent_or_that_nobody_knows(
    double: Double, start: Start
) -> None:
    double.script = [do_drop(), nothing()]
    gateway = await start(timeout="100ms")
    lost = await ask(gateway.port, "GET", "/api/x")
    late = await ask(gateway.port, "GET", "/api/x")
    away = await start(url=f"http://127.0.0.1:{nobody_listens()}")
    unsent = await ask(away.port, "GET", "/api/x")
    expected = [
        (lost, 502, "outcome_unknown", "connection_terminated"),
        (late, 504, "outcome_unknown", "http_response_timeout"),
        (unsent, 502, "not_sent", "destination_unavailable"),
    ]
    for got, status, code, error in expected:
        assert (got.status, got.code) == (status, code)
        assert got.header("fencegate-decision") == "passed"
        assert got.header("proxy-status") == f"fencegate; error={error}"
        assert "sent" not in got.problem
    assert len(double.hits) == 2


async def test_a_passed_error_is_passed(double: Double, start: Start) -> None:
    double.script = [do_err(503)]
    gateway = await start()
    got = await ask(gateway.port, "GET", "/api/x")
    assert (got.status, got.header("fencegate-outcome")) == (503, None)


async def test_a_passed_body_over_the_limit_is_refused(double: Double, start: Start) -> None:
    gateway = await start(body_limit="10B")
    got = await gateway.call(path="/api/plain")
    assert (got.status, got.code) == (413, "body_too_large")
    assert double.hits == []
    assert gateway.said(CallUnread)


async def test_pipelined_requests_are_answered_in_their_order(double: Double, start: Start) -> None:
    double.script = [ok(200, b"one", []), ok(200, b"two", [])]
    gateway = await start()
    async with connected(gateway.port) as (reader, writer):
        writer.write(request_bytes("GET", "/api/1", [], None) * 2)
        assert (await read_response(reader)).body == b"one"
        assert (await read_response(reader)).body == b"two"


# --- announcements -------------------------------------------------------------------------


async def announce(gateway: Gateway, entity: str, *fences: str) -> Got:
    target = f"/_fencegate/v1/entities/{entity}/fence"
    return await ask(gateway.port, "PUT", target, [("X-Execution-Fence", f) for f in fences])


async def test_an_announced_fence_shuts_out_the_predecessor_before_the_first_call(
    double: Double, start: Start
) -> None:
    gateway = await start()
    got = await announce(gateway, "item:8812", "42")
    assert got.status == 200
    assert got.header("content-type") == "application/json"
    assert got.header("fencegate-high-water") == "42"
    assert json.loads(got.body) == {
        "entity": "item:8812",
        "high_water": 42,
        "raised": True,
        "open_below": 0,
    }
    assert (await gateway.call(fence=41)).code == "stale_fence"
    assert (await gateway.call(fence=42)).status == 201
    assert len(double.hits) == 1


async def test_announcing_a_fence_again_raises_nothing_and_a_lower_one_is_refused(
    start: Start,
) -> None:
    gateway = await start()
    await announce(gateway, "item:8812", "42")
    again, lower = (
        await announce(gateway, "item:8812", "42"),
        await announce(gateway, "item:8812", "41"),
    )
    assert (again.status, json.loads(again.body)["raised"]) == (200, False)
    assert (lower.status, lower.code) == (412, "stale_fence")
    problem = lower.problem
    assert (problem["entity"], problem["fence"], problem["high_water"]) == ("item:8812", 41, 42)
    assert "sent" not in problem
    assert lower.header("x-should-retry") == "false"
    assert problem["ref"] == lower.header("fencegate-ref")
    assert await gateway.high_water() == 42


async def test_an_announcement_counts_what_is_still_open_below(
    double: Double, start: Start
) -> None:
    released = threading.Event()
    double.default = held(released, ok())
    gateway = await start()
    calls = [asyncio.create_task(gateway.call(key, 41)) for key in ("a", "b")]
    await until(lambda: len(double.hits) == 2)
    assert json.loads((await announce(gateway, "item:8812", "42")).body)["open_below"] == 2
    released.set()
    assert [(await call).status for call in calls] == [201, 201]


async def test_an_announcement_works_on_a_frozen_entity(start: Start, ledger: Ledger) -> None:
    gateway = await start()
    await ledger.freeze(EntityId("", "item:8812"), True, Act("operator", "test"))
    assert (await announce(gateway, "item:8812", "42")).status == 200


async def test_an_announcement_may_not_run_too_far_ahead(start: Start) -> None:
    gateway = await start()
    far = wall_clock() + 2 * DAY
    got = await announce(gateway, "item:8812", str(far))
    assert (got.status, got.code) == (400, "fence_too_far")
    assert await gateway.high_water() == 0
    off = await start(more={"defaults": {"max_fence_lead": "off"}})
    assert (await announce(off, "item:8812", str(far))).status == 200


@pytest.mark.parametrize(
    ("entity", "fences", "status", "code"),
    [
        ("item:8812", [], 428, "fence_required"),
        ("item:8812", ["x"], 400, "fence_invalid"),
        ("item:8812", ["042"], 400, "fence_invalid"),
        ("item:8812", ["0"], 400, "fence_invalid"),
        ("item:8812", ["42", "42"], 400, "fence_invalid"),
        ("", ["42"], 422, "entity_unresolved"),
        ("%20item", ["42"], 422, "entity_unresolved"),
        ("item%00", ["42"], 422, "entity_unresolved"),
        ("item%", ["42"], 422, "entity_unresolved"),
        ("item%FF", ["42"], 422, "entity_unresolved"),
        ("x" * 257, ["42"], 422, "entity_unresolved"),
    ],
)
async def test_an_announcement_that_cannot_be_read_raises_nothing(
    start: Start, entity: str, fences: list[str], status: int, code: str
) -> None:
    gateway = await start()
    got = await announce(gateway, entity, *fences)
    assert (got.status, got.code) == (status, code)
    assert await gateway.high_water() == 0


async def test_an_announced_entity_is_percent_decoded_once_and_in_one_spelling(
    start: Start,
) -> None:
    gateway = await start()
    got = await announce(gateway, "note:cafe%CC%81%2F%2541", "42")
    assert json.loads(got.body)["entity"] == "note:caf\u00e9/%41"
    late = await gateway.call(fence=41, path="/api/notes", body='{"id":"caf\u00e9/%41"}'.encode())
    assert late.code == "stale_fence"


async def test_an_announcement_in_a_domain_that_no_policy_names_is_refused(start: Start) -> None:
    """It must not raise high water in another domain than the one it names."""
    gateway = await start()
    got = await announce(gateway, "item:8812", "42")
    target = "/_fencegate/v1/entities/item:8812/fence?domain=other"
    got = await ask(gateway.port, "PUT", target, [("X-Execution-Fence", "43")])
    assert (got.status, got.code) == (422, "entity_unresolved")
    assert await gateway.high_water() == 42


async def test_an_announcement_without_a_ledger_is_refused(start: Start, ledger: Ledger) -> None:
    class Away(Around):
        async def announce(self, *_: object) -> None:
            raise LedgerUnavailable("away")

    gateway = await start(on=Away(ledger).ledger)
    got = await announce(gateway, "item:8812", "42")
    assert (got.status, got.code) == (503, "ledger_unavailable")
    assert got.header("retry-after") == "1"
    assert "sent" not in got.problem


# --- our own paths -------------------------------------------------------------------------


async def test_liveness_and_readiness_are_told(start: Start, ledger: Ledger) -> None:
    gateway = await start()
    live = await ask(gateway.port, "GET", "/_fencegate/livez")
    ready = await ask(gateway.port, "GET", "/_fencegate/readyz")
    assert (live.status, json.loads(live.body)) == (200, {"live": True})
    assert (ready.status, json.loads(ready.body)) == (200, {"ready": True, "ledger": ledger.id})
    for got in (live, ready):
        assert got.header("fencegate-ledger") == ledger.id
        assert got.header("fencegate-decision") is None
        assert got.header("cache-control") == "no-store"


@pytest.mark.parametrize("reason", Reason)
async def test_the_type_of_every_problem_leads_to_its_page(start: Start, reason: Reason) -> None:
    gateway = await start()
    got = await ask(gateway.port, "GET", f"/_fencegate/problems/{reason.value}")
    assert (got.status, got.header("content-type")) == (200, "application/json")
    said = json.loads(got.body)
    kind = KINDS[reason]
    assert said == {
        "code": reason.value,
        "status": kind.status,
        "title": kind.title,
        "meaning": kind.meaning,
    }


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/_fencegate/problems/no_such_code"),
        ("GET", "/_fencegate/problems/"),
        ("GET", "/_fencegate/"),
        ("GET", "/_fencegate/v1/entities/item:1/fence"),
        ("POST", "/_fencegate/v1/entities/item:1/fence"),
        ("PUT", "/_fencegate/v1/entities/item:1"),
        ("POST", "/_fencegate/livez"),
        ("GET", "/_fencegate/livez/x"),
    ],
)
async def test_another_path_of_ours_is_not_there_and_goes_to_no_upstream(
    double: Double, start: Start, method: str, target: str
) -> None:
    gateway = await start(mount="/")
    got = await ask(gateway.port, method, target, [("X-Execution-Fence", "42")])
    assert (got.status, got.code) == (404, "no_route")
    assert double.hits == []


async def test_the_application_speaks_nothing_but_http(start: Start) -> None:
    gateway = await start()

    async def never() -> dict[str, object]:
        raise AssertionError

    with pytest.raises(RuntimeError, match="websocket"):
        await gateway.app({"type": "websocket"}, never, never)  # type: ignore[arg-type]


async def test_a_head_request_past_the_server_has_no_body(double: Double, start: Start) -> None:
    double.script = [say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")]
    gateway = await start()
    got = await through_asgi(gateway.app, "HEAD", "/api/items/1")
    assert (got.status, got.body, got.all("Content-Length")) == (200, b"", ["99"])
