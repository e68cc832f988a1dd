"""The whole way of a guarded call, over HTTP, on every ledger: decision, outcome, settlement."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import threading
from typing import Any

import pytest

from fencegate.core.events import CallEnded, CallerLeft, NoteTaken
from fencegate.core.model import (
    SECOND,
    Call,
    Decision,
    EntityId,
    NoteKind,
    RecordId,
    Terms,
)
from fencegate.core.outcomes import Answer
from fencegate.core.resolution import Abandoned, Applied, Resolved
from fencegate.ledger.protocol import Act, Ledger, Told
from tests.double import Double, Hit, Script, deny, do_cut, do_drop, do_err, ok, raw, read_drop
from tests.gateway.peers import nobody_listens, upstream_up
from tests.gateway.rig import (
    Around,
    Clock,
    Gateway,
    Got,
    Start,
    connected,
    lines_of,
    request_bytes,
    through_asgi,
    until,
)
from tests.gateway.scripts import held, nothing, reset, say

NO_RETRY = {"x-should-retry": "false", "stripe-should-retry": "false"}
ACT = Act("operator", "test")


def no_retry(got: Got) -> bool:
    return all(got.header(name) == value for name, value in NO_RETRY.items())


async def asked(gateway: Gateway, *arguments: Any, **settings: Any) -> asyncio.Task[Got]:
    """A call on its way."""
    return asyncio.create_task(gateway.call(*arguments, **settings))


# --- forwarded and replayed ----------------------------------------------------------------


async def test_a_call_is_forwarded_once_and_marked(double: Double, start: Start) -> None:
    gateway = await start()
    got = await gateway.call()
    assert (got.status, got.body) == (201, b'{"ok":true}')
    assert got.header("fencegate-decision") == "forwarded"
    assert got.header("fencegate-high-water") == "41"
    assert got.header("fencegate-ledger") == gateway.gate.ledger.id
    assert got.header("fencegate-ref")
    assert got.header("fencegate-outcome") is None
    assert got.header("idempotency-replayed") is None
    assert got.header("idempotent-replayed") is None
    (hit,) = double.hits
    assert (hit.method, hit.target, hit.body) == ("POST", "/items/8812", b'{"amount":200}')
    assert hit.header("x-execution-fence") == "41"
    assert hit.header("idempotency-key") == "k1"
    assert await gateway.state_of() == "done"


async def test_a_retry_is_answered_with_the_first_answer_byte_for_byte(
    double: Double, start: Start
) -> None:
    said = [
        ("Location", "/x/1"),
        ("ETag", '"1"'),
        ("Link", "</x/1>; rel=self"),
        ("Set-Cookie", "s=1"),
        ("X-Request-Id", "r1"),
        ("Link", "</x>; rel=up"),
        ("Content-Type", "application/json; charset=utf-8"),
        ("Connection", "X-Of-This-Hop"),
        ("X-Of-This-Hop", "1"),
    ]
    double.script = [ok(201, b'{"id": 1}', said)]
    gateway = await start()
    first, again = await gateway.call(), await gateway.call()

    assert first.header("set-cookie") == "s=1"
    assert first.header("idempotency-replayed") is None
    assert (again.status, again.body) == (first.status, first.body) == (201, b'{"id": 1}')
    assert again.header("fencegate-decision") == "replayed"
    assert again.header("idempotency-replayed") == "true"
    assert again.header("idempotent-replayed") == "true"
    assert again.header("set-cookie") is None
    assert not first.all("x-of-this-hop")
    kept = [(n.lower(), v) for n, v in said if n not in ("Set-Cookie", "Connection")][:-1]
    assert again.headers[: len(kept)] == kept
    assert double.effects == 1


BINARY = os.urandom(1000)
BODIES: dict[str, tuple[Script, bytes]] = {
    "chunks": (
        say(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
            b'\r\n5\r\n{"id"\r\n',
            b"3\r\n: 1\r\n",
            b"1\r\n}\r\n0\r\n\r\n",
            every=0.005,
        ),
        b'{"id": 1}',
    ),
    "plain text": (ok(200, b"ok", [("Content-Type", "text/plain")]), b"ok"),
    "no content": (ok(204, b"", []), b""),
    "an empty body": (ok(200, b"", []), b""),
    "binary": (ok(200, BINARY, [("Content-Type", "application/octet-stream")]), BINARY),
    "broken JSON": (ok(200, b'{"id": ', [("Content-Type", "application/json")]), b'{"id": '),
    "until the close": (raw(b"HTTP/1.1 200 OK\r\n\r\nhello"), b"hello"),
    "gzip": (
        ok(200, gzip.compress(b"{}", mtime=0), [("Content-Encoding", "gzip")]),
        gzip.compress(b"{}", mtime=0),
    ),
}


@pytest.mark.parametrize("name", BODIES)
async def test_every_kind_of_body_is_replayed_as_it_came(
    double: Double, start: Start, name: str
) -> None:
    script, body = BODIES[name]
    double.script = [script]
    gateway = await start()
    first = await gateway.call(headers=[("Accept-Encoding", "gzip")])
    again = await gateway.call(headers=[("Accept-Encoding", "identity")])
    assert first.body == again.body == body
    assert again.status == first.status
    for header in ("content-type", "content-encoding", "content-length"):
        assert again.header(header) == first.header(header)
    assert again.header("idempotency-replayed") == "true"
    assert double.effects == 1


async def test_bytes_beyond_ascii_in_a_field_are_passed_on_and_replayed(
    double: Double, start: Start
) -> None:
    value = bytes(range(0xA1, 0x100))
    double.script = [say(b"HTTP/1.1 200 O\r\nContent-Length: 0\r\nX-Name: " + value + b"\r\n\r\n")]
    gateway = await start()
    for _ in range(2):
        got = await gateway.call(headers=[("X-Name", value.decode("latin-1"))])
        assert (got.status, got.header("x-name")) == (200, value.decode("latin-1"))
    (hit,) = double.hits
    assert hit.header("x-name") == value.decode("latin-1")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 302, 307, 400, 404, 409, 410, 422, 451])
async def test_every_other_status_is_final_and_replayed(
    double: Double, start: Start, status: int
) -> None:
    double.script = [ok(status, b"" if status == 204 else b"said", [("Location", "/elsewhere")])]
    gateway = await start()
    first, again = await gateway.call(), await gateway.call()
    assert first.status == again.status == status
    assert first.header("fencegate-outcome") is None
    assert again.body == first.body
    assert again.header("location") == "/elsewhere"
    assert again.header("idempotency-replayed") == "true"
    assert len(double.hits) == 1


async def test_an_answer_over_the_limit_is_passed_on_whole_and_not_kept(
    double: Double, start: Start
) -> None:
    double.script = [ok(201, b"x" * 5000, [("Location", "/x/1")])]
    gateway = await start(answer_limit="4999B")
    first, again = await gateway.call(), await gateway.call()
    assert (first.status, first.body) == (201, b"x" * 5000)
    assert (again.status, again.code) == (409, "answer_not_kept")
    assert again.problem["original_status"] == 201
    assert again.problem["sent"] is True
    assert no_retry(again)
    assert len(double.hits) == 1


async def test_an_answer_at_the_limit_is_kept(double: Double, start: Start) -> None:
    double.script = [ok(201, b"x" * 5000, [])]
    gateway = await start(answer_limit="5000B")
    await gateway.call()
    assert (await gateway.call()).body == b"x" * 5000


async def test_an_answer_is_replayed_until_its_retention_ends_and_then_refused_for_ever(
    double: Double, start: Start, clock: Clock
) -> None:
    gateway = await start(retention="1h", max_fence_lead="off")
    await gateway.call()
    clock.ahead = 3599 * SECOND
    assert (await gateway.call()).status == 201
    clock.ahead = 3601 * SECOND
    expired = await gateway.call(fence=43)
    assert (expired.status, expired.code) == (410, "key_expired")
    assert expired.problem["sent"] is True
    assert no_retry(expired)
    assert await gateway.high_water() == 43
    assert len(double.hits) == 1


# --- fences --------------------------------------------------------------------------------


async def test_a_late_worker_is_refused_after_its_successor_has_written(
    double: Double, start: Start
) -> None:
    gateway = await start()
    assert (await gateway.call("w2-a", 42, "c-1048", method="PUT")).status == 201
    late = await gateway.call("w1-a", 41, "c-1048", method="PUT")
    other = await gateway.call("w1-b", 41, "c-2000", method="PUT")
    equal = await gateway.call("w2-b", 42, "c-1048", method="PUT")
    without = await gateway.call("w1-c", None, "c-1048", method="PUT")

    assert (late.status, late.code) == (412, "stale_fence")
    problem = late.problem
    assert problem["type"] == "/_fencegate/problems/stale_fence"
    assert (problem["entity"], problem["fence"], problem["high_water"]) == ("item:c-1048", 41, 42)
    assert problem["sent"] is False
    assert problem["safe_new_key"] is False
    assert "41" in problem["detail"]
    assert "42" in problem["detail"]
    assert problem["ref"] == late.header("fencegate-ref")
    assert late.header("fencegate-decision") == "refused"
    assert late.header("fencegate-high-water") == "42"
    assert no_retry(late)
    assert other.status == equal.status == 201
    assert (without.status, without.code) == (428, "fence_required")
    assert double.effects == 3
    assert double.effects_of("w1-a") == 0


async def test_a_refusal_names_who_has_taken_over_and_when(double: Double, start: Start) -> None:
    gateway = await start()
    await gateway.call("w2", 42, headers=[("X-Execution-Holder", "worker-13@pod-a")])
    problem = (await gateway.call("w1", 41)).problem
    assert problem["holder"] == "worker-13@pod-a"
    assert "worker-13@pod-a" in problem["detail"]
    assert problem["accepted_at"].endswith("+00:00")


async def test_a_retry_under_a_newer_fence_is_replayed_and_raises_high_water(
    double: Double, start: Start
) -> None:
    gateway = await start()
    await gateway.call(fence=41)
    newer, older = await gateway.call(fence=42), await gateway.call(fence=41)
    assert newer.header("fencegate-decision") == "replayed"
    assert newer.header("fencegate-fence") is None
    assert older.header("fencegate-decision") == "replayed"
    assert older.header("fencegate-fence") == "stale"
    assert older.header("fencegate-high-water") == "42"
    assert len(double.hits) == 1


async def test_a_stale_replay_is_refused_where_the_route_says_so(
    double: Double, start: Start
) -> None:
    gateway = await start(stale_replay="refuse")
    await gateway.call(fence=41)
    await gateway.call(fence=42)
    late = await gateway.call(fence=41)
    assert (late.status, late.code) == (412, "stale_fence")
    assert late.problem["state"] == "done"
    assert late.problem["sent"] is True


async def test_an_absurd_fence_fences_nobody_out(double: Double, start: Start) -> None:
    gateway = await start()
    got = await gateway.call("k1", 2**63 - 1)
    assert (got.status, got.code) == (400, "fence_too_far")
    assert got.problem["sent"] is False
    assert await gateway.high_water() == 0
    assert (await gateway.call("k2", 41)).status == 201
    assert len(double.hits) == 1


@pytest.mark.parametrize("low", [2**53, 2**63 - 2], ids=["2^53", "2^63"])
async def test_large_fences_are_compared_exactly(double: Double, start: Start, low: int) -> None:
    gateway = await start(max_fence_lead="off")
    assert (await gateway.call("k2", low + 1)).status == 201
    late = await gateway.call("k1", low)
    assert (late.status, late.problem["high_water"]) == (412, low + 1)
    assert late.header("fencegate-high-water") == str(low + 1)


async def test_a_frozen_entity_takes_no_call(double: Double, start: Start, ledger: Ledger) -> None:
    gateway = await start()
    await ledger.freeze(EntityId("", "item:8812"), True, ACT)
    got = await gateway.call()
    assert (got.status, got.code) == (423, "frozen")
    assert got.problem["sent"] is False
    assert no_retry(got)
    assert double.hits == []
    assert (await gateway.call(item="8813")).status == 201


# --- keys ----------------------------------------------------------------------------------


async def test_a_key_under_another_query_is_refused_and_the_part_named_without_its_value(
    double: Double, start: Start
) -> None:
    gateway = await start()
    path = "/api/items/1/transfer"
    first = await gateway.call(path=f"{path}?to=alice&cur=eur")
    reordered = await gateway.call(path=f"{path}?cur=eur&to=alice")
    other = await gateway.call(path=f"{path}?to=mallory&cur=eur")
    more = await gateway.call(path=f"{path}?to=alice&cur=eur&dry=1")
    assert first.header("fencegate-decision") == "forwarded"
    assert reordered.header("fencegate-decision") == "replayed"
    for got in (other, more):
        assert (got.status, got.code) == (422, "key_reused")
        assert got.problem["differs"] == ["query"]
        assert got.problem["sent"] is True
        assert b"mallory" not in got.body
        assert no_retry(got)
    assert [hit.target for hit in double.hits] == ["/items/1/transfer?to=alice&cur=eur"]


async def test_a_body_is_compared_as_json_and_not_as_bytes(double: Double, start: Start) -> None:
    gateway = await start()
    bodies = [
        b'{"a":1,"b":{"x":[1,2],"y":null}}',
        b' { "b": {"y": null, "x": [1, 2]},\n "a": 1 } ',
        b'{"a":1,"b":{"x":[2,1],"y":null}}',
        b'{"a":"1","b":{"x":[1,2],"y":null}}',
        b'{"a":1,"b":{"x":[1,2]}}',
        b'{"a":1.0,"b":{"x":[1,2],"y":null}}',
    ]
    first, reordered, *others = [await gateway.call(body=body) for body in bodies]
    assert first.status == reordered.status == 201
    assert reordered.header("fencegate-decision") == "replayed"
    for got in others:
        assert (got.status, got.problem["differs"]) == (422, ["body"])
    assert [hit.body for hit in double.hits] == bodies[:1]


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"method": "PUT"}, ["method"]),
        ({"path": "/api/items/8812/refund"}, ["path"]),
        ({"item": "8813"}, ["path", "entity"]),
        ({"headers": [("Content-Type", "text/plain")]}, ["media_type", "body"]),
    ],
)
async def test_a_key_belongs_to_one_request(
    double: Double, start: Start, change: dict[str, Any], differs: list[str]
) -> None:
    gateway = await start()
    await gateway.call()
    got = await gateway.call(**change)
    assert (got.status, got.problem["differs"]) == (422, differs)
    assert len(double.hits) == 1


async def test_a_raw_and_a_quoted_key_are_one(double: Double, start: Start) -> None:
    gateway = await start()
    first, again = await gateway.call("k-1"), await gateway.call('"k-1"')
    assert first.header("fencegate-decision") == "forwarded"
    assert again.header("fencegate-decision") == "replayed"
    assert double.hits[0].header("idempotency-key") == "k-1"


async def test_a_long_key_of_odd_characters_is_a_key(double: Double, start: Start) -> None:
    key = ("a:/{}%?#[]" * 26)[:255]
    gateway = await start()
    assert (await gateway.call(key)).status == 201
    assert double.hits[0].header("idempotency-key") == key
    assert await gateway.state_of(key) == "done"


async def test_another_caller_learns_nothing_of_a_key(double: Double, start: Start) -> None:
    gateway = await start()
    await gateway.call(headers=[("Authorization", "Bearer a")])
    for headers in ([("Authorization", "Bearer b")], []):
        got = await gateway.call(body=b'{"amount":1}', headers=headers)
        assert (got.status, got.code) == (409, "key_of_other_caller")
        assert "sent" not in got.problem
        assert "state" not in got.problem
        assert "differs" not in got.problem
        assert no_retry(got)
    again = await gateway.call(headers=[("Authorization", "Bearer a")])
    assert again.header("fencegate-decision") == "replayed"
    assert len(double.hits) == 1


async def test_a_key_that_a_route_makes_needs_no_header(double: Double, start: Start) -> None:
    route = {"match": "POST /items/{item}", "entity": "item:{path.item}", "key": "pay:{path.item}"}
    gateway = await start(more={"routes": [route]})
    first, again = await gateway.call(key=None), await gateway.call(key=None)
    assert (first.status, again.header("fencegate-decision")) == (201, "replayed")
    assert await gateway.state_of("pay:8812") == "done"
    assert double.hits[0].header("idempotency-key") is None


@pytest.mark.parametrize(
    ("op", "key", "sent"),
    [("pay:1", "pay:1", "pay:1"), ('"pay: \\"1\\""', 'pay: "1"', '"pay: \\"1\\""')],
    ids=["raw", "quoted"],
)
async def test_an_upstream_that_knows_keys_is_sent_the_one_that_a_route_made(
    double: Double, start: Start, op: str, key: str, sent: str
) -> None:
    """In place of the caller's own, and as a quoted string where it cannot be sent raw."""
    route = {"match": "POST /items/{item}", "entity": "item:{path.item}", "key": "{json./op}"}
    gateway = await start(key_window="1h", more={"routes": [route]})
    got = await gateway.call("the-callers-own", body=json.dumps({"op": op}).encode())
    assert got.status == 201
    keys = [v for n, v in double.hits[0].headers if n.lower() == "idempotency-key"]
    assert keys == [sent]
    assert await gateway.state_of(key) == "done"


# --- duplicates ----------------------------------------------------------------------------


async def test_a_duplicate_waits_for_the_first_call_and_is_replayed(
    double: Double, start: Start
) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start()
    first = await asked(gateway)
    await until(lambda: double.hits)
    duplicate = await asked(gateway, fence=42)
    await high_water_is(gateway, 42)
    assert not duplicate.done()
    released.set()
    assert (await first).header("fencegate-decision") == "forwarded"
    assert (await duplicate).header("fencegate-decision") == "replayed"
    assert (await duplicate).body == (await first).body
    assert len(double.hits) == 1


async def high_water_is(gateway: Gateway, fence: int, item: str = "8812") -> None:
    while await gateway.high_water(item) != fence:
        await asyncio.sleep(0.002)


async def test_a_duplicate_is_refused_when_its_wait_is_over(double: Double, start: Start) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start(duplicate_wait="50ms")
    first = await asked(gateway)
    await until(lambda: double.hits)
    got = await gateway.call()
    assert (got.status, got.code) == (409, "in_flight")
    assert got.problem["state"] == "sending"
    assert got.problem["sent"] is True
    assert 1 <= int(got.header("retry-after") or "") <= 15
    assert got.header("x-should-retry") is None
    released.set()
    assert (await first).status == 201
    assert (await gateway.call()).header("fencegate-decision") == "replayed"
    assert len(double.hits) == 1


async def test_a_hundred_duplicates_at_once_are_one_effect(double: Double, start: Start) -> None:
    gateway = await start(duplicate_wait="20s")
    got = await asyncio.gather(*[gateway.call() for _ in range(100)])
    assert {(one.status, one.body) for one in got} == {(201, b'{"ok":true}')}
    decisions = [one.header("fencegate-decision") for one in got]
    assert (decisions.count("forwarded"), decisions.count("replayed")) == (1, 99)
    assert len(double.hits) == 1


async def test_a_call_that_is_slower_than_its_hold_is_held_by_the_living_gateway(
    double: Double, start: Start
) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start(duplicate_wait="0ms", more={"gateway": {"hold": "300ms"}})
    first = await asked(gateway)
    await until(lambda: double.hits)
    holds: set[Any] = set()
    while len(holds) < 5:  # four renewals: more than one whole hold
        record = await gateway.record_of()
        holds.add(getattr(record and record.state, "hold_until", None))
        await asyncio.sleep(0.01)
    assert (await gateway.call()).code == "in_flight"
    released.set()
    assert (await first).status == 201
    assert (await gateway.call()).header("fencegate-decision") == "replayed"
    assert len(double.hits) == 1


# --- order on the wire ---------------------------------------------------------------------


async def test_a_successor_goes_when_its_predecessor_has_ended(
    double: Double, start: Start
) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start()
    before = await asked(gateway, "k41", 41)
    await until(lambda: double.hits)
    after = await asked(gateway, "k42", 42)
    await high_water_is(gateway, 42)
    late = await gateway.call("k41-b", 41)
    assert (late.status, late.code) == (412, "stale_fence")
    assert len(double.hits) == 1
    released.set()
    assert (await before).status == (await after).status == 201
    assert [hit.header("x-execution-fence") for hit in double.hits] == ["41", "42"]


async def test_a_successor_is_refused_when_its_wait_is_over(double: Double, start: Start) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start(predecessor_wait="50ms")
    before = await asked(gateway, "k41", 41)
    await until(lambda: double.hits)
    got = await gateway.call("k42", 42)
    assert (got.status, got.code) == (409, "predecessor_open")
    assert got.problem["sent"] is False
    assert got.problem["high_water"] == 42
    assert 1 <= int(got.header("retry-after") or "") <= 15
    assert await gateway.state_of("k42") is None
    released.set()
    await before
    assert (await gateway.call("k42", 42)).status == 201
    assert len(double.hits) == 2


async def test_of_all_that_wait_only_the_newest_goes(double: Double, start: Start) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start()
    first = await asked(gateway, "k41", 41)
    await until(lambda: double.hits)
    second = await asked(gateway, "k42", 42)
    await high_water_is(gateway, 42)
    third = await asked(gateway, "k43", 43)
    await high_water_is(gateway, 43)
    released.set()
    assert (await first).status == 201
    refused = await second
    assert (refused.status, refused.code) == (412, "stale_fence")
    assert refused.problem["high_water"] == 43
    assert refused.problem["sent"] is False
    assert (await third).status == 201
    assert [hit.header("x-execution-fence") for hit in double.hits] == ["41", "43"]


@pytest.mark.parametrize("how", ["proceed", "ignore"])
async def test_a_successor_overtakes_where_the_route_says_so_and_it_is_noted(
    double: Double, start: Start, how: str
) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    wait = "30ms" if how == "proceed" else "1h"
    gateway = await start(predecessor=how, predecessor_wait=wait)
    before = await asked(gateway, "k41", 41)
    await until(lambda: double.hits)
    assert (await gateway.call("k42", 42)).status == 201
    assert not before.done()
    assert [note.kind for note in gateway.said(NoteTaken)] == [NoteKind.OVERTOOK_UNKNOWN]
    released.set()
    assert (await before).status == 201


async def test_equal_fences_run_side_by_side(double: Double, start: Start) -> None:
    released = threading.Event()
    double.default = held(released, ok())
    gateway = await start()
    both = [await asked(gateway, "a", 41), await asked(gateway, "b", 41)]
    await until(lambda: len(double.hits) == 2)
    released.set()
    assert [(await one).status for one in both] == [201, 201]


async def test_calls_on_other_entities_do_not_wait(double: Double, start: Start) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start()
    before = await asked(gateway, "a", 41, "1")
    await until(lambda: double.hits)
    assert (await gateway.call("b", 42, "2")).status == 201
    assert not before.done()
    released.set()
    await before


# --- not sent ------------------------------------------------------------------------------


async def test_a_call_that_was_not_sent_frees_its_key(start: Start) -> None:
    port = nobody_listens()
    gateway = await start(url=f"http://127.0.0.1:{port}")
    got = await gateway.call(fence=3)
    assert (got.status, got.code) == (502, "not_sent")
    assert got.problem["sent"] is False
    assert got.problem["safe_new_key"] is False
    assert got.problem["ref"] == got.header("fencegate-ref")
    assert got.header("fencegate-decision") == "refused"
    assert got.header("proxy-status") == "fencegate; error=destination_unavailable"
    assert got.header("x-should-retry") is None
    assert got.header("fencegate-outcome") is None
    assert await gateway.state_of() is None
    assert await gateway.high_water() == 3
    with upstream_up(port) as double:
        assert (await gateway.call(fence=3)).header("fencegate-decision") == "forwarded"
        assert (await gateway.call(fence=3)).header("fencegate-decision") == "replayed"
        assert len(double.hits) == 1


@pytest.mark.parametrize("status", [401, 403, 407, 425, 429])
async def test_an_answer_that_refuses_before_work_is_passed_on_and_frees_the_key(
    double: Double, start: Start, status: int
) -> None:
    double.script = [deny(status, b"slow down", [("Retry-After", "1")])]
    gateway = await start()
    first = await gateway.call()
    assert (first.status, first.body) == (status, b"slow down")
    assert first.header("retry-after") == "1"
    assert first.header("fencegate-decision") == "forwarded"
    assert first.header("fencegate-outcome") is None
    assert await gateway.state_of() is None
    assert (await gateway.call()).status == 201
    assert (await gateway.call()).header("fencegate-decision") == "replayed"
    assert (len(double.hits), double.effects) == (2, 1)
    ended = gateway.said(CallEnded)
    assert [(e.outcome, e.settlement) for e in ended] == [
        ("refused_before_work", "released"),
        ("responded", "settled"),
        (None, None),
    ]


async def test_a_route_may_list_more_statuses_that_refuse_before_work(
    double: Double, start: Start
) -> None:
    double.script = [deny(503)]
    gateway = await start(refused_statuses=[429, 503])
    assert (await gateway.call()).header("fencegate-outcome") is None
    assert (await gateway.call()).status == 201


# --- outcome unknown -----------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 599])
async def test_an_answer_that_says_nothing_of_the_effect_leaves_it_unknown(
    double: Double, start: Start, status: int
) -> None:
    double.script = [do_err(status)]
    gateway = await start()
    first = await gateway.call()
    assert (first.status, first.body) == (status, b'{"error":"after the effect"}')
    assert first.header("fencegate-decision") == "forwarded"
    assert first.header("fencegate-outcome") == "unknown"
    again = await gateway.call()
    assert (again.status, again.code) == (409, "outcome_unknown")
    assert again.problem["sent"] is True
    assert again.problem["state"] == "unknown"
    assert no_retry(again)
    assert await gateway.state_of() == "unknown"
    assert (len(double.hits), double.effects) == (1, 1)


LOST: dict[str, tuple[Script, str]] = {
    "dropped after the effect": (do_drop(), "connection_terminated"),
    "dropped before the effect": (read_drop(), "connection_terminated"),
    "a cut body": (do_cut(9), "connection_terminated"),
    "no HTTP": (raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "http_protocol_error"),
    "two lengths": (
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        "http_protocol_error",
    ),
    "a status that is none": (
        raw(b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n"),
        "http_protocol_error",
    ),
}


@pytest.mark.parametrize("name", LOST)
async def test_a_lost_answer_is_never_resent_and_the_key_stays_unknown(
    double: Double, start: Start, name: str
) -> None:
    script, error = LOST[name]
    double.script = [script]
    gateway = await start()
    first = await gateway.call()
    second = await gateway.call()
    third = await gateway.call(fence=42)
    assert (first.status, first.code) == (502, "outcome_unknown")
    assert first.header("proxy-status") == f"fencegate; error={error}"
    assert first.header("fencegate-decision") == "forwarded"
    assert first.header("fencegate-outcome") == "unknown"
    assert first.problem["ref"] == first.header("fencegate-ref")
    for got in (second, third):
        assert (got.status, got.code) == (409, "outcome_unknown")
    for got in (first, second, third):
        assert got.problem["sent"] is True
        assert got.problem["safe_new_key"] is False
        assert no_retry(got)
    assert len(double.hits) == 1
    assert await gateway.high_water() == 42
    record = await gateway.record_of()
    assert record is not None
    assert (record.tries, record.current.ended_at is not None) == (1, True)


async def test_a_timeout_is_a_504_and_leaves_the_outcome_unknown(
    double: Double, start: Start
) -> None:
    double.script = [nothing()]
    gateway = await start(timeout="100ms")
    first, again = await gateway.call(), await gateway.call()
    assert (first.status, first.code) == (504, "outcome_unknown")
    assert first.problem["sent"] is True
    assert first.header("proxy-status") == "fencegate; error=http_response_timeout"
    assert no_retry(first)
    assert (again.status, again.code) == (409, "outcome_unknown")
    assert len(double.hits) == 1


async def test_a_successor_overtakes_what_is_unknown_and_it_is_noted(
    double: Double, start: Start
) -> None:
    double.script = [do_drop()]
    gateway = await start()
    await gateway.call("k41", 41)
    assert (await gateway.call("k42", 42)).status == 201
    assert [note.kind for note in gateway.said(NoteTaken)] == [NoteKind.OVERTOOK_UNKNOWN]


# --- resends -------------------------------------------------------------------------------

RESEND: dict[str, Any] = {"on_unknown": "resend", "key_window": "1h"}


async def test_an_unknown_outcome_is_resent_where_the_upstream_knows_our_key(
    double: Double, start: Start
) -> None:
    double.script = [do_drop()]
    gateway = await start(**RESEND)
    first, second, third = [await gateway.call() for _ in range(3)]
    assert (first.status, first.code) == (502, "outcome_unknown")
    assert (second.status, second.header("fencegate-decision")) == (201, "forwarded")
    assert third.header("fencegate-decision") == "replayed"
    assert [hit.header("idempotency-key") for hit in double.hits] == ["k1", "k1"]
    assert double.hits[0].body == double.hits[1].body


async def test_an_unknown_outcome_is_resent_only_so_often(double: Double, start: Start) -> None:
    double.default = do_drop()
    gateway = await start(**RESEND, resend_limit=2)
    codes = [(got.status, got.code) for got in [await gateway.call() for _ in range(4)]]
    assert codes == [(502, "outcome_unknown")] * 3 + [(409, "outcome_unknown")]
    assert len(double.hits) == 3


async def test_an_unknown_outcome_is_resent_only_while_the_upstream_knows_the_key(
    double: Double, start: Start, clock: Clock
) -> None:
    double.script = [do_drop()]
    gateway = await start(**RESEND)
    await gateway.call()
    clock.ahead = 3600 * SECOND
    assert (await gateway.call()).code == "outcome_unknown"
    assert len(double.hits) == 1


async def test_a_conflict_on_a_second_attempt_says_nothing_of_the_first(
    double: Double, start: Start
) -> None:
    """Stripe and others answer 409 while the first one is still running."""
    double.script = [do_drop(), deny(409, b"in progress")]
    gateway = await start(**RESEND)
    await gateway.call()
    second = await gateway.call()
    assert (second.status, second.code) == (409, "outcome_unknown")
    assert second.problem["sent"] is True
    assert second.header("fencegate-outcome") == "unknown"
    assert await gateway.state_of() == "unknown"
    assert (await gateway.call()).status == 201
    assert len(double.hits) == 3


async def test_a_refusal_before_work_of_a_second_attempt_leaves_the_first_unknown(
    double: Double, start: Start
) -> None:
    double.script = [do_drop(), deny(429, b"slow down")]
    gateway = await start(**RESEND)
    await gateway.call()
    second = await gateway.call()
    assert (second.status, second.body) == (429, b"slow down")
    assert second.header("fencegate-outcome") == "unknown"
    assert await gateway.state_of() == "unknown"


async def test_a_second_attempt_that_was_not_sent_leaves_the_first_unknown(start: Start) -> None:
    with upstream_up() as double:
        double.script = [do_drop()]
        gateway = await start(url=double.url, **RESEND)
        await gateway.call()
    second = await gateway.call()
    assert (second.status, second.code) == (502, "outcome_unknown")
    assert second.problem["sent"] is True
    assert second.header("fencegate-outcome") == "unknown"
    assert no_retry(second)
    assert await gateway.state_of() == "unknown"


async def test_a_call_that_waited_resends_nothing_that_became_unknown_meanwhile(
    double: Double, start: Start
) -> None:
    """The duplicate's caller may have given up; it must not cause a second attempt by waiting."""
    released = threading.Event()
    double.script = [held(released, do_drop())]
    gateway = await start(**RESEND)
    first = await asked(gateway)
    await until(lambda: double.hits)
    duplicate = await asked(gateway, fence=42)
    await high_water_is(gateway, 42)
    released.set()
    assert (await first).status == 502
    got = await duplicate
    assert (got.status, got.code) == (409, "outcome_unknown")
    assert len(double.hits) == 1


# --- one effect per intent -----------------------------------------------------------------


async def test_a_second_key_for_one_intent_is_treated_as_the_first(
    double: Double, start: Start
) -> None:
    gateway = await start(one_effect_per="intent")
    first, again = await gateway.call("k1"), await gateway.call("k2")
    other = await gateway.call("k3", body=b'{"amount":201}')
    newer = await gateway.call("k4", fence=42)
    assert first.header("fencegate-decision") == "forwarded"
    assert again.header("fencegate-decision") == "replayed"
    assert again.header("fencegate-matched-by") == "intent"
    assert other.status == newer.status == 201
    assert double.effects == 3


async def test_a_possible_duplicate_is_noted_with_the_other_key(
    double: Double, start: Start
) -> None:
    gateway = await start(one_effect_per="warn")
    await gateway.call("k1")
    await gateway.call("k2")
    (note,) = gateway.said(NoteTaken)
    assert (note.kind, note.key, note.other_key) == (NoteKind.POSSIBLE_DUPLICATE, "k2", "k1")
    assert 0 <= note.apart < 60
    assert double.effects == 2


# --- clients that hang up ------------------------------------------------------------------


@pytest.mark.parametrize("by_reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("streaming", [False, True], ids=["before the answer", "in the answer"])
async def test_a_call_is_recorded_whole_although_its_client_has_hung_up(
    double: Double, start: Start, by_reset: bool, streaming: bool
) -> None:
    released = threading.Event()
    whole = b"HTTP/1.1 201 C\r\nContent-Length: 10\r\n\r\nhello"
    pieces = (say(whole), held(released, say(b"world")))

    async def in_pieces(hit: Hit, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            await piece(hit, writer)

    double.script = [in_pieces if streaming else held(released, say(whole + b"world"))]
    gateway = await start(duplicate_wait="0ms")
    async with connected(gateway.port) as (_, writer):
        writer.write(request_bytes("POST", "/api/items/8812", lines_of("k1", 41), b"{}"))
        await until(lambda: double.hits)
        if by_reset:
            reset(writer)

    assert (await gateway.call(body=b"{}")).code == "in_flight"
    released.set()
    while await gateway.state_of() == "sending":
        await asyncio.sleep(0.002)
    again = await gateway.call(body=b"{}")
    assert again.header("fencegate-decision") == "replayed"
    assert (again.status, again.body) == (201, b"helloworld")
    assert len(double.hits) == 1


async def test_a_call_is_recorded_whole_although_its_server_has_cancelled_it(
    double: Double, start: Start
) -> None:
    """As servers do that end a request with its connection."""
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start()
    lines = [(name.encode(), value.encode()) for name, value in lines_of("k1", 41)]
    request = through_asgi(gateway.app, "POST", "/api/items/8812", lines, b'{"amount":200}')
    cancelled = asyncio.create_task(request)
    await until(lambda: double.hits)
    cancelled.cancel()
    await asyncio.wait({cancelled})
    assert cancelled.cancelled()
    released.set()
    assert await gateway.gate.drained(10) == 0
    again = await gateway.call()
    assert again.header("fencegate-decision") == "replayed"
    assert len(double.hits) == 1


@pytest.mark.parametrize("key", ["k1", "k2"], ids=["a duplicate", "a successor"])
async def test_a_client_that_hangs_up_while_its_call_waits_ends_the_call(
    double: Double, start: Start, key: str
) -> None:
    released = threading.Event()
    double.script = [held(released, ok())]
    gateway = await start(duplicate_wait="1h", predecessor_wait="1h")
    first = await asked(gateway, "k1", 41)
    await until(lambda: double.hits)
    async with connected(gateway.port) as (_, writer):
        body = b'{"amount":200}'
        writer.write(request_bytes("POST", "/api/items/8812", lines_of(key, 42), body))
        await high_water_is(gateway, 42)
    await until(lambda: gateway.said(CallerLeft))
    (left,) = gateway.said(CallerLeft)
    assert (left.entity, left.key) == ("item:8812", key)
    released.set()
    assert (await first).status == 201
    assert await gateway.gate.drained(5) == 0
    assert len(double.hits) == 1
    assert await gateway.state_of("k2") is None


# --- a call that turns out not sent --------------------------------------------------------


class SlowToAnswer(Around):
    """Admits at once, and says so when the test lets it."""

    def __init__(self, within: Ledger) -> None:
        super().__init__(within)
        self.admitted = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def admit(self, call: Call, terms: Terms) -> Told[Decision]:
        told = await self.within.admit(call, terms)
        if not self.admitted.is_set():
            self.admitted.set()
            await self.may_answer.wait()
        return told


async def a_call_whose_hold_ran_out(
    gateway: Gateway, slow: SlowToAnswer, clock: Clock
) -> asyncio.Task[Got]:
    """The admission was answered after its hold: nothing may be sent, and it is unknown."""
    call = await asked(gateway)
    await slow.admitted.wait()
    clock.ahead += SECOND
    await asyncio.sleep(0.06)  # the local hold of 50 ms runs out by the machine's clock
    assert await gateway.state_of() == "unknown"
    return call


HOLD: dict[str, Any] = {"gateway": {"hold": "50ms"}}


async def test_a_call_whose_hold_ran_out_is_not_sent_and_its_key_is_free(
    double: Double, start: Start, ledger: Ledger, clock: Clock
) -> None:
    slow = SlowToAnswer(ledger)
    gateway = await start(on=slow.ledger, more=HOLD)
    call = await a_call_whose_hold_ran_out(gateway, slow, clock)
    slow.may_answer.set()
    got = await call
    assert (got.status, got.code, got.problem["sent"]) == (502, "not_sent", False)
    assert double.hits == []
    assert await gateway.state_of() is None
    assert (await gateway.call()).status == 201


async def test_a_call_that_was_not_sent_and_superseded_is_answered_with_the_records_truth(
    double: Double, start: Start, ledger: Ledger, clock: Clock
) -> None:
    slow = SlowToAnswer(ledger)
    gateway = await start(on=slow.ledger, more=HOLD)
    call = await a_call_whose_hold_ran_out(gateway, slow, clock)
    answer = Answer(200, ((b"x-from", b"operator"),), b"applied")
    verdict = await ledger.resolve(RecordId("api", None, "k1"), Applied(answer), ACT)
    assert verdict == Resolved("done")
    slow.may_answer.set()
    got = await call
    assert (got.status, got.body) == (200, b"applied")
    assert got.header("fencegate-decision") == "replayed"
    assert double.hits == []


async def test_the_answer_to_a_superseded_call_bears_one_ref(
    double: Double, start: Start, ledger: Ledger, clock: Clock
) -> None:
    slow = SlowToAnswer(ledger)
    gateway = await start(on=slow.ledger, more=HOLD)
    call = await a_call_whose_hold_ran_out(gateway, slow, clock)
    await ledger.resolve(RecordId("api", None, "k1"), Abandoned(), ACT)
    slow.may_answer.set()
    got = await call
    assert (got.status, got.code) == (410, "key_expired")
    (ended,) = gateway.said(CallEnded)
    assert got.problem["ref"] == got.header("fencegate-ref") == ended.ref
    assert double.hits == []


# --- events --------------------------------------------------------------------------------


async def test_every_call_is_told_of_once_with_its_decision_and_outcome(
    double: Double, start: Start
) -> None:
    gateway = await start()
    await gateway.call("k1", 41, headers=[("X-Execution-Holder", "w1")])
    await gateway.call("k1", 42)
    await gateway.call("k2", 41)
    ended = gateway.said(CallEnded)
    assert [(e.decision, e.status, e.code) for e in ended] == [
        ("forwarded", 201, None),
        ("replayed", 201, None),
        ("refused", 412, "stale_fence"),
    ]
    first = ended[0]
    assert (first.upstream, first.method, first.entity) == ("api", "POST", "item:8812")
    assert (first.fence, first.key, first.holder, first.high_water) == (41, "k1", "w1", 41)
    assert (first.attempt, first.outcome, first.settlement) == (1, "responded", "settled")
    assert first.seconds > 0


async def test_every_refusal_of_the_law_is_in_the_journal(
    double: Double, start: Start, ledger: Ledger
) -> None:
    gateway = await start()
    await gateway.call("k2", 42)
    await gateway.call("k1", 41)
    (row,) = await ledger.journal()
    assert (row.kind, row.code, row.fence, row.high_water) == ("refused", "stale_fence", 41, 42)
