"""What is refused while a request is read: nothing is forwarded, and the ledger is not touched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fencegate.core.events import CallEnded, CallUnread
from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Ledger
from tests.double import Double
from tests.gateway.rig import (
    VIA,
    Gateway,
    Got,
    Lines,
    Start,
    ask,
    connected,
    lines_of,
    read_response,
    request_bytes,
    through_asgi,
)
from tests.gateway.scripts import reset

HIGH = 42


@pytest.fixture
def ledger() -> Ledger:
    """One is enough: it is not asked."""
    return MemoryLedger()


@asynccontextmanager
async def untouched(gateway: Gateway, double: Double) -> AsyncIterator[None]:
    """A call was accepted before; what happens within reaches neither upstream nor ledger."""
    assert (await gateway.call("before", HIGH)).status == 201
    rows = await gateway.all_rows("8812")
    hits = len(double.hits)
    yield
    assert await gateway.gate.drained(5) == 0
    assert len(double.hits) == hits
    assert await gateway.all_rows("8812") == rows


def refused(got: Got, status: int, code: str) -> None:
    """A refusal that was decided without the ledger, whole and in form."""
    problem = got.problem
    assert (got.status, problem["code"]) == (status, code)
    assert problem["type"] == f"/_fencegate/problems/{code}"
    assert problem["title"]
    assert problem["detail"].endswith(".")
    assert "sent" not in problem
    assert problem["safe_new_key"] is (code in ("key_required", "key_invalid"))
    assert problem["ref"] == got.header("fencegate-ref")
    assert got.header("fencegate-decision") == "refused"
    assert got.header("x-should-retry") == got.header("stripe-should-retry") == "false"
    assert got.header("retry-after") is None


# --- fences --------------------------------------------------------------------------------

NO_FENCES = [
    "+42", "-1", "042", "4_2", "42.0", "4e1", "0x2a", "", '"42"', "42;x", "42, 43", "42,42", "0",
    "00", "four", "4 2", "\xa042", "\u00b2", "9223372036854775808", "18446744073709551616",
    "1" + "0" * 399, "9" * 5000,
]  # fmt: skip


async def test_a_call_without_a_fence_is_refused(double: Double, start: Start) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(fence=None), 428, "fence_required")


@pytest.mark.parametrize("fence", NO_FENCES, ids=lambda fence: repr(fence[:12]))
async def test_a_fence_that_is_not_one_plain_number_is_refused(
    double: Double, start: Start, fence: str
) -> None:
    gateway = await start(max_fence_lead="off")
    async with untouched(gateway, double):
        refused(await gateway.call(fence=fence), 400, "fence_invalid")


@pytest.mark.parametrize("second", ["43", "44"], ids=["equal", "other"])
async def test_two_fences_are_refused_also_where_they_agree(
    double: Double, start: Start, second: str
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        got = await gateway.call(fence=43, headers=[("X-Execution-Fence", second)])
        refused(got, 400, "fence_invalid")


async def test_the_largest_fence_is_a_fence(double: Double, start: Start) -> None:
    gateway = await start(max_fence_lead="off")
    assert (await gateway.call(fence=2**63 - 1)).status == 201
    assert await gateway.high_water() == 2**63 - 1


async def test_white_space_around_a_fence_does_not_count(double: Double, start: Start) -> None:
    gateway = await start()
    assert (await gateway.call(fence=" \t42 \t")).status == 201
    assert await gateway.high_water() == 42


# --- keys ----------------------------------------------------------------------------------

NO_KEYS = [
    "", "   ", '""', '"   "', "k" * 256, "k" * 30_000, f'"{"k" * 256}"', "k1, k2", "k1,k2", "k 1",
    "k\t1", 'k"1', '"k1', 'k1"', '"k1";v=1', "k\\1", "k\xe9", "\xff", "k1\x80",
]  # fmt: skip


async def test_a_call_without_a_key_is_refused(double: Double, start: Start) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(key=None), 400, "key_required")


@pytest.mark.parametrize("key", NO_KEYS, ids=lambda key: repr(key[:12]))
async def test_a_key_that_is_not_one_plain_text_is_refused(
    double: Double, start: Start, key: str
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(key=key), 400, "key_invalid")


@pytest.mark.parametrize("second", ["k1", "k2"], ids=["equal", "other"])
async def test_two_keys_are_refused_also_where_they_agree(
    double: Double, start: Start, second: str
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(headers=[("Idempotency-Key", second)]), 400, "key_invalid")


@pytest.mark.parametrize("byte", ["\x00", "\x01", "\x1f", "\x7f", "\r"], ids=repr)
async def test_a_control_byte_in_a_key_or_a_fence_is_never_forwarded(
    double: Double, start: Start, byte: str
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        assert (await gateway.call(key=f"k{byte}1")).status == 400
        assert (await gateway.call(fence=f"4{byte}3")).status == 400


# --- entities ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"id":null}',
        b'{"id":true}',
        b'{"id":["8812"]}',
        b'{"id":8812.0}',
        b'{"id":8.812e3}',
        b'{"id":""}',
        b'{"id":" 8812"}',
        b'{"id":"88\\u000012"}',
        b'{"id":"' + b"8" * 300 + b'"}',
        b"id=8812",
        b"[]",
        b'{"id":"8812"} {}',
    ],
    ids=lambda body: body[:24].decode(),
)
async def test_a_call_that_does_not_name_one_entity_is_refused(
    double: Double, start: Start, body: bytes
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        got = await gateway.call(path="/api/notes", body=body)
        refused(got, 422, "entity_unresolved")


async def test_one_entity_is_one_row_however_its_name_is_spelt(
    double: Double, start: Start
) -> None:
    """A JSON text and a whole number, escapes of a path and of a JSON text, both Unicode forms."""
    gateway = await start()
    for number, body in enumerate((b'{"id":"8812"}', b'{"id":8812}', b'{"id":"\\u0038812"}')):
        got = await gateway.call(f"n{number}", 42 - number, path="/api/notes", body=body)
        assert got.status == (201 if number == 0 else 412)
    for number, path in enumerate(("caf%C3%A9", "cafe%CC%81", "%63af%c3%a9")):
        got = await gateway.call(f"p{number}", 42 - number, item=path)
        assert got.status == (201 if number == 0 else 412)
    assert len(double.hits) == 2


@pytest.mark.parametrize(
    "path",
    [
        "/api/items/%38%38%31%32",
        "/api/items/8812/",
        "/api/items//8812",
        "/api//items/8812",
        "/api/./items/8812",
        "/api/items/./8812",
        "/api/items/x/../8812",
        "/api/items/x/%2e%2e/8812",
        "/api/items/x/%2E./8812",
        "/api/items/%2e/8812",
        "/api/items/8812%2F",
        "/api/items/8812%2Fx",
        "/api/items%2F8812",
        "/api/items/8812;v=1",
        "/api/items/8812%3Bv=1",
        "/api/items/8812%3Fa",
        "/api/items/8812%23a",
        "/api/items/8812%00",
        "/api/items/8812%5C",
        "/api/items/8812\\",
        "/api/items/8812%20",
        "/api/items/8812%0A",
        "/api/items/8812%",
        "/api/items/8812%zz",
        "/api/items/8812%FF",
        "/api/items/8812//",
        "/api/%69tems/8812",
    ],
)
async def test_another_spelling_of_a_path_leads_no_lower_fence_around(
    double: Double, start: Start, path: str
) -> None:
    gateway = await start()
    async with untouched_but_refused(gateway, double):
        assert (await gateway.call(fence=HIGH - 1, path=path)).status in (400, 412, 422)


@asynccontextmanager
async def untouched_but_refused(gateway: Gateway, double: Double) -> AsyncIterator[None]:
    """No hit, no new record, no other high water; the journal may hold the refusal."""
    assert (await gateway.call("before", HIGH)).status == 201
    *rows, _ = await gateway.all_rows("8812")
    yield
    assert len(double.hits) == 1
    assert (await gateway.all_rows("8812"))[:-1] == rows


@pytest.mark.parametrize(
    "path",
    ["/api/items//8812", "/api/items/x/../8812", "/api/items/x/%2e%2e/8812", "/api/items/a%2Fb",
     "/api/items/8812;v=1", "/api/items/8812%00", "/api/items/8812%5Cx"],
)  # fmt: skip
async def test_a_path_that_can_be_read_in_two_ways_is_refused(
    double: Double, start: Start, path: str
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(path=path), 400, "path_ambiguous")


# --- bodies --------------------------------------------------------------------------------


async def test_a_body_over_the_limit_is_refused_before_it_is_read(
    double: Double, start: Start
) -> None:
    gateway = await start(body_limit="20B")
    async with untouched(gateway, double), connected(gateway.port) as (reader, writer):
        head = request_bytes("POST", "/api/items/8812", lines_of("k1", 43), None)
        writer.write(head.replace(b"\r\n\r\n", b"\r\nContent-Length: 21\r\n\r\n"))
        refused(await read_response(reader), 413, "body_too_large")


async def test_a_chunked_body_over_the_limit_is_refused_when_it_is_over(
    double: Double, start: Start
) -> None:
    gateway = await start(body_limit="20B")
    async with untouched(gateway, double), connected(gateway.port) as (reader, writer):
        lines = [*lines_of("k1", 43), ("Transfer-Encoding", "chunked")]
        writer.write(request_bytes("POST", "/api/items/8812", lines, None))
        writer.write(b"14\r\n" + b" " * 20 + b"\r\n")
        writer.write(b"1\r\n \r\n")
        refused(await read_response(reader), 413, "body_too_large")


async def test_a_body_at_the_limit_is_forwarded_however_it_is_sent(
    double: Double, start: Start
) -> None:
    gateway = await start(body_limit="20B")
    body = b'{"a":"0123456789  "}'
    assert (await gateway.call(body=body)).status == 201
    async with connected(gateway.port) as (reader, writer):
        lines = [*lines_of("k2", 43), ("Transfer-Encoding", "chunked")]
        writer.write(request_bytes("POST", "/api/items/8812", lines, None))
        for byte in body:
            writer.write(b"1\r\n" + bytes([byte]) + b"\r\n")
        writer.write(b"0\r\n\r\n")
        assert (await read_response(reader)).status == 201
    assert [hit.body for hit in double.hits] == [body, body]
    assert double.hits[1].header("content-length") == "20"
    assert double.hits[1].header("transfer-encoding") is None


@pytest.mark.parametrize("by_reset", [False, True], ids=["FIN", "RST"])
async def test_a_body_that_is_cut_off_is_no_call(
    double: Double, start: Start, by_reset: bool
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        async with connected(gateway.port) as (_, writer):
            head = request_bytes("POST", "/api/items/8812", lines_of("k1", 43), None)
            writer.write(head.replace(b"\r\n\r\n", b"\r\nContent-Length: 10\r\n\r\n") + b"{}")
            await writer.drain()
            if by_reset:
                reset(writer)
        # A later request on another connection is through: the cut one would be too.
        refused(await gateway.call(fence=None), 428, "fence_required")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/items/8812", b'{"amount":1,"amount":2}'),
        ("/api/items/8812", b'{"a":{"b":1,"\\u0062":1}}'),
        ("/api/notes", b'{"id":"8812","id":"8813"}'),
        ("/api/notes", b'{"id":"8812","amount":1,"amount":2}'),
    ],
)
async def test_a_body_in_which_a_member_stands_twice_is_refused(
    double: Double, start: Start, path: str, body: bytes
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(path=path, body=body), 400, "body_ambiguous")


async def test_a_key_that_cannot_be_read_from_the_body_is_refused(
    double: Double, start: Start
) -> None:
    route = {"match": "POST /items/{item}", "entity": "item:{path.item}", "key": "op:{json./op}"}
    gateway = await start(more={"routes": [route]})
    accepted = await gateway.call("before", HIGH, body=b'{"op":"first"}')
    assert accepted.status == 201
    rows = await gateway.all_rows("8812")
    missing = await gateway.call(body=b"{}")
    refused(missing, 400, "key_required")
    assert missing.problem["detail"].startswith("op:{json./op} is missing; send it.")
    refused(await gateway.call(body=b'{"op":1.5}'), 400, "key_invalid")
    refused(await gateway.call(body=b'{"op":1,"op":2}'), 400, "body_ambiguous")
    assert await gateway.all_rows("8812") == rows
    assert len(double.hits) == 1


# --- names that decide ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        [("Connection", "close, X-Execution-Fence")],
        [("Connection", "idempotency-key")],
        [("Connection", "keep-alive"), ("Connection", " X-EXECUTION-HOLDER ,x")],
        [("Connection", "Fencegate-Token")],
        [("X_Execution_Fence", "43")],
        [("X.Execution.Fence", "43")],
        [("X-Execution_Fence", "43")],
        [("Idempotency_Key", "k1")],
        [("IDEMPOTENCY.KEY", "k1")],
        [("Fencegate_Token", "t")],
        [("X_Fence_Domain", "d")],
        [("X-Execution-Holder", "w1"), ("X-Execution-Holder", "w1")],
        [("X-HTTP-Method-Override", "GET")],
        [("X_HTTP_Method_Override", "GET")],
        [("X-Method-Override", "GET")],
        [("X-HTTP-Method", "GET")],
        [("X-Original-URL", "/items/1")],
        [("X-Rewrite-URL", "/items/1")],
    ],
    ids=lambda headers: " + ".join(f"{name}: {value}" for name, value in headers),
)
async def test_fields_that_make_a_call_mean_two_things_are_refused(
    double: Double, start: Start, headers: Lines
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(headers=headers), 400, "framing")


async def test_another_spelling_instead_of_the_fence_is_refused_as_well(
    double: Double, start: Start
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        got = await gateway.call(fence=None, headers=[("X_Execution_Fence", "43")])
        refused(got, 400, "framing")


# --- routes --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"])
async def test_a_write_that_no_route_covers_is_refused(
    double: Double, start: Start, method: str
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(path="/api/other", method=method), 403, "no_route")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/", "/other", "/apiary/items/1", "/API/items/1", "/%61pi/x"])
async def test_a_path_that_no_mount_covers_is_refused(
    double: Double, start: Start, method: str, path: str
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        refused(await gateway.call(path=path, method=method), 404, "no_route")


async def test_a_write_that_no_route_covers_is_passed_where_the_policy_says_so(
    double: Double, start: Start
) -> None:
    gateway = await start(more={"gateway": {"unmatched": "pass"}})
    got = await gateway.call(path="/api/other")
    assert (got.status, got.header("fencegate-decision")) == (201, "passed")
    assert await gateway.state_of() is None


async def test_trace_is_not_forwarded(double: Double, start: Start) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        got = await ask(gateway.port, "TRACE", "/api/items/8812", lines_of("k1", 43))
        refused(got, 501, "method_refused")


async def test_connect_is_not_forwarded(double: Double, start: Start) -> None:
    """The server's parser answers it by itself; the application would too."""
    gateway = await start()
    async with untouched(gateway, double):
        async with connected(gateway.port) as (reader, writer):
            writer.write(b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n")
            assert (await reader.readline()).split()[1] in (b"400", b"501")
        refused(await through_asgi(gateway.app, "CONNECT", "/api/x"), 501, "method_refused")


@pytest.mark.parametrize(
    "via",
    [f"1.1 {VIA.decode()}", f"1.0 other, 1.1 {VIA.decode()} (comment)"],
    ids=["alone", "in a list"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_that_has_passed_this_gateway_before_is_refused(
    double: Double, start: Start, via: str, method: str
) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        got = await gateway.call(method=method, headers=[("Via", via)])
        refused(got, 508, "loop")


async def test_a_request_that_has_passed_another_gateway_is_forwarded(
    double: Double, start: Start
) -> None:
    gateway = await start()
    got = await gateway.call(headers=[("Via", "1.1 another")])
    assert got.status == 201
    vias = [value for name, value in double.hits[0].headers if name.lower() == "via"]
    assert vias == ["1.1 another", f"1.1 {VIA.decode()}"]


# --- the order of faults -------------------------------------------------------------------


async def test_faults_are_reported_in_their_order(double: Double, start: Start) -> None:
    """Framing, route, body size, entity, fence, key: one repaired after the other."""
    gateway = await start(body_limit="20B")
    framing: Lines = [("X_Execution_Fence", "43")]
    bad: dict[str, Any] = {
        "key": None,
        "fence": None,
        "body": b'{"other": 1}         ',
        "path": "/api//notes",
        "headers": framing,
    }
    repairs: list[tuple[str, dict[str, Any]]] = [
        ("framing", {}),
        ("path_ambiguous", {"headers": []}),
        ("no_route", {"path": "/api/other"}),
        ("body_too_large", {"path": "/api/notes"}),
        ("entity_unresolved", {"body": b'{"other": 1}'}),
        ("fence_required", {"body": b'{"id": 1}'}),
        ("fence_invalid", {"fence": "x"}),
        ("key_required", {"fence": 43}),
        ("key_invalid", {"key": ""}),
    ]
    async with untouched(gateway, double):
        for code, repair in repairs:
            bad |= repair
            assert (await gateway.call(**bad)).code == code
    bad |= {"key": "k1"}
    assert (await gateway.call(**bad)).status == 201


@pytest.mark.parametrize("path", ["/api/other", "/other"])
async def test_framing_comes_before_the_route(double: Double, start: Start, path: str) -> None:
    gateway = await start()
    async with untouched(gateway, double):
        got = await gateway.call(path=path, headers=[("Connection", "X-Execution-Fence")])
        refused(got, 400, "framing")


async def test_a_refusal_while_reading_is_told_of_and_is_no_call(
    double: Double, start: Start
) -> None:
    gateway = await start()
    got = await gateway.call(fence=None)
    assert gateway.said(CallUnread) == [
        CallUnread(got.header("fencegate-ref") or "", 428, "fence_required")
    ]
    assert gateway.said(CallEnded) == []
