"""Ways around a guard, a fence or a key, each tried once and closed since."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fencegate.core.identity import OBSERVED, Adopted, NotAdopted
from fencegate.core.model import EntityId
from fencegate.gateway.outgoing import key_of_caller
from fencegate.ledger.protocol import Act, Ledger, LedgerUnavailable
from fencegate.policy import Outside, PolicyError, identities, load
from fencegate.server.applied import NotReloaded, Reloading
from tests.double import Double, do_drop, ok
from tests.gateway.rig import (
    Around,
    Start,
    ask,
    connected,
    lines_of,
    read_response,
    until,
    write_policies,
)
from tests.gateway.scripts import nothing
from tests.gateway.test_callers import CALLERS, A, B

RESENDS: dict[str, Any] = {"on_unknown": "resend", "key_window": "1h"}


async def test_a_resend_carries_the_key_in_one_spelling(double: Double, start: Start) -> None:
    gateway = await start(**RESENDS)
    double.script = [do_drop()]
    assert (await gateway.call("k1")).status == 502
    assert (await gateway.call('"k1"')).status == 201
    assert [hit.header("idempotency-key") for hit in double.hits] == ["k1", "k1"]


@pytest.mark.parametrize("nominated", ["X-Req", "Idempotency-Key"])
async def test_connection_cannot_take_the_key_away(
    double: Double, start: Start, nominated: str
) -> None:
    gateway = await start(key_header="X-Req", more={"callers": CALLERS}, **RESENDS)
    got = await gateway.call("k1", headers=[A, ("Connection", nominated)])
    assert (got.status, got.code) == (400, "framing")
    assert double.hits == []


FORGED = key_of_caller("a", b"k1").decode()


@pytest.mark.parametrize(
    "name", ["X-Request-Key", "Idempotency-Key", "Idempotency_Key", "x_request_key"]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/plain"),
        ("GET", "/api/read"),
        ("POST", "/api/count/1"),
        ("POST", "/api/seen/1"),
    ],
)
async def test_nobody_sends_what_another_callers_key_has_become(
    double: Double, start: Start, name: str, method: str, path: str
) -> None:
    routes = [
        {"match": "POST /count/{x}", "guard": "fence-only", "entity": "x:{path.x}"},
        {"match": "POST /seen/{x}", "entity": "x:{path.x}", "mode": "observe"},
        {"match": "POST /plain", "guard": "none"},
    ]
    gateway = await start(key_header="X-Request-Key", more={"callers": CALLERS, "routes": routes})
    lines = [(name, FORGED), ("X-Execution-Fence", "41"), B]
    await ask(gateway.port, method, path, lines, None if method == "GET" else b"{}")
    for hit in double.hits:
        assert FORGED.encode() not in hit.raw_head


READS_HEADERS = [
    {
        "match": "POST /pay",
        "entity": "acct:{header.x-account}",
        "key": "{header.x-op}",
        "fence": "{header.x-lease}",
        "fingerprint": {"headers": ["X-Tenant"]},
    }
]
CALL = [("X-Account", "1"), ("X-Op", "k1"), ("X-Lease", "41"), ("X-Tenant", "t")]


@pytest.mark.parametrize(
    "line",
    [
        *[("Connection", name) for name in ("X-Account", "x-op", "X-LEASE", "X-Tenant")],
        ("X_Account", "victim"),
        ("x.op", "k2"),
        ("X_Tenant", "other"),
    ],
)
async def test_what_a_route_reads_from_a_header_reaches_the_upstream_as_read(
    double: Double, start: Start, line: tuple[str, str]
) -> None:
    gateway = await start(more={"routes": READS_HEADERS})
    got = await ask(gateway.port, "POST", "/api/pay", [*CALL, line], b"{}")
    assert (got.status, got.code) == (400, "framing")
    assert double.hits == []
    assert (await ask(gateway.port, "POST", "/api/pay", CALL, b"{}")).status == 201


@pytest.mark.parametrize(
    ("method", "path", "line"),
    [
        ("GET", "/api/items/8812", ("X-HTTP-Method-Override", "DELETE")),
        ("POST", "/api/plain", ("X-Original-URL", "/items/8812")),
        ("POST", "/api/plain", ("X_Rewrite_URL", "/items/8812")),
    ],
)
async def test_a_read_cannot_be_made_a_write_on_its_way(
    double: Double, start: Start, method: str, path: str, line: tuple[str, str]
) -> None:
    gateway = await start()
    got = await ask(gateway.port, method, path, [line], None if method == "GET" else b"{}")
    assert (got.status, got.code) == (400, "framing")
    assert double.hits == []


async def test_nobody_sends_it_either(double: Double, start: Start) -> None:
    """Where calls are only observed somebody unknown is forwarded too."""
    gateway = await start(mode="observe", more={"callers": CALLERS})
    got = await gateway.call(FORGED)
    assert got.header("fencegate-decision") == "would-refuse"
    assert FORGED.encode() not in double.hits[0].raw_head


async def test_a_token_of_ours_stays_here_though_its_bearer_is_not_known(
    double: Double, start: Start
) -> None:
    gateway = await start(mode="observe", more={"callers": CALLERS})
    await gateway.call(headers=[("Fencegate-Token", "stale"), A])
    assert double.hits[0].header("authorization") is None


# --- policies that change ------------------------------------------------------------------


async def test_an_upload_that_outlives_a_policy_is_read_by_the_next(
    double: Double, start: Start, tmp_path: Path
) -> None:
    gateway = await start()
    routes = [{"match": "POST /items/{item}", "entity": "other:{path.item}"}]
    other = write_policies(tmp_path, double.url, {}, routes=routes)
    async with connected(gateway.port) as (reader, writer):
        head = "POST /api/items/8812 HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n"
        head += "X-Execution-Fence: 41\r\nIdempotency-Key: k1\r\n\r\n{"
        writer.write(head.encode())
        await writer.drain()
        assert (await gateway.call("before")).status == 201  # the head has been read by now
        gateway.applied.exchange(other, gateway.applied.prepared(other))
        gateway.app.intake = gateway.applied.intake()
        writer.write(b"} \n")
        assert (await read_response(reader)).status == 201
    record = await gateway.record_of("k1")
    assert record is not None
    assert record.entity.name == "other:8812"


async def test_no_call_is_recorded_while_policies_change(double: Double, start: Start) -> None:
    gateway = await start()
    async with gateway.app.paused():
        waiting = asyncio.create_task(gateway.call("k1"))
        got = await ask(gateway.port, "GET", "/_fencegate/readyz")
        assert got.status == 200
        assert await gateway.state_of("k1") is None
    assert (await waiting).status == 201


async def test_legs_of_the_same_upstreams_are_kept_and_what_fails_changes_nothing(
    double: Double, start: Start, tmp_path: Path
) -> None:
    gateway = await start()
    before = gateway.applied.intake().legs
    same = write_policies(tmp_path, double.url, {})
    assert gateway.applied.prepared(same) == before
    other = write_policies(tmp_path, double.url, {"timeout": "6s"})
    assert gateway.applied.prepared(other)["api"] is not before["api"]
    assert gateway.applied.intake().legs == before
    assert (await gateway.call("k1")).status == 201


async def test_a_shorter_hold_is_renewed_in_time(
    double: Double, start: Start, tmp_path: Path
) -> None:
    gateway = await start(more={"gateway": {"hold": "60s"}})
    shorter = write_policies(tmp_path, double.url, {}, gateway={"hold": "900ms"})
    await gateway.call("before")
    gateway.applied.exchange(shorter, gateway.applied.prepared(shorter))
    gateway.app.intake = gateway.applied.intake()
    double.script = [nothing()]
    first = asyncio.create_task(gateway.call("k1", 42))
    await until(lambda: len(double.hits) == 2)
    renewals = 0
    inner = gateway.gate.holds.renew

    async def counted() -> None:
        nonlocal renewals
        await inner()
        renewals += 1

    gateway.gate.holds.renew = counted  # type: ignore[method-assign]
    await until(lambda: renewals >= 4)  # longer than its hold
    assert await gateway.state_of("k1") == "sending"
    assert (await first).status == 504


# --- announcements -------------------------------------------------------------------------


async def announce(port: int, entity: str, query: str = "", fence: int = 42) -> Any:
    path = f"/_fencegate/v1/entities/{entity}/fence{query}"
    return await ask(port, "PUT", path, [("X-Execution-Fence", str(fence))])


async def test_what_only_watches_hears_of_announcements_too(start: Start) -> None:
    gateway = await start(mode="observe")
    assert (await announce(gateway.port, "item:8812")).status == 200
    late = await gateway.call("k1", 41)
    assert late.header("fencegate-decision") == "would-refuse"
    shadow = await gateway.gate.ledger.inspect(EntityId(OBSERVED, "item:8812"))
    assert shadow.entity.high_water == 42


async def test_an_announced_entity_is_one_segment(start: Start) -> None:
    gateway = await start()
    assert (await announce(gateway.port, "a/b")).code == "entity_unresolved"
    assert (await announce(gateway.port, "a%2Fb")).status == 200


async def test_an_announcement_waits_for_lower_calls_to_end(double: Double, start: Start) -> None:
    gateway = await start(timeout="400ms")
    double.script = [nothing(), ok(201)]
    first = asyncio.create_task(gateway.call("k1", 41))
    await until(lambda: double.hits)
    at_once = await announce(gateway.port, "item:8812")
    waited = await announce(gateway.port, "item:8812", "?wait=30s")
    assert b'"open_below":1' in at_once.body
    assert b'"open_below":0' in waited.body
    assert (await first).status == 504
    assert (await announce(gateway.port, "item:8812", "?wait=soon")).code == "framing"


# --- one spelling --------------------------------------------------------------------------


async def test_without_case_two_pairs_of_values_are_still_two_entities(
    double: Double, start: Start
) -> None:
    routes = [{"match": "POST /lines", "entity": "order-{json./a}-line-{json./b}"}]
    gateway = await start(more={"routes": routes, "gateway": {"fold": "case"}})
    said = [b'{"a":"1-LINE-2","b":"3"}', b'{"a":"1","b":"2-LINE-3"}']
    lines = lines_of("k1", 42)
    first = await ask(gateway.port, "POST", "/api/lines", lines, said[0])
    assert (first.status, first.code) == (422, "entity_unresolved")
    second = await ask(gateway.port, "POST", "/api/lines", lines, said[1])
    assert second.status == 201


def test_half_a_character_in_a_policy_is_an_error_at_its_place(tmp_path: Path) -> None:
    text = 'upstream: {name: "\\ud800x", mount: /a, url: "http://a"}\n'
    (tmp_path / "api.yaml").write_text(text)
    with pytest.raises(PolicyError, match=r"api\.yaml:1:18: .*half of a character"):
        load(tmp_path, {})


async def test_a_reading_that_an_unknown_record_was_made_under_cannot_change(
    double: Double, start: Start, tmp_path: Path
) -> None:
    gateway = await start(key_header="X-Req", more={"callers": CALLERS}, **RESENDS)
    ledger, act = gateway.gate.ledger, Act("test", "start")
    await ledger.adopt(identities(gateway.applied.policies), accept=False, act=act)
    double.script = [do_drop()]
    await gateway.call("k1", headers=[A])
    moved = [{**CALLERS[0], "token_sha256": CALLERS[0]["token_sha256"][:1]}]
    moved += [
        {**CALLERS[1], "token_sha256": [*CALLERS[1]["token_sha256"], CALLERS[0]["token_sha256"][1]]}
    ]
    gone = [{**CALLERS[0], "token_sha256": CALLERS[0]["token_sha256"][:1]}, CALLERS[1]]
    of = {"key_header": "X-Req", **RESENDS}
    for upstream, callers, refused in (
        ({**of, "key_header": "X-Request-Id"}, CALLERS, True),
        ({**of, "mount": "/other"}, CALLERS, True),
        (of, moved, True),
        (of, gone, False),
    ):
        other = write_policies(tmp_path, double.url, upstream, callers=callers)
        told = await ledger.adopt(identities(other), accept=False, act=act, preview=True)
        assert isinstance(told, NotAdopted) is refused, (upstream, callers)


async def test_a_reload_whose_end_nobody_knows_leaves_the_ledger_as_calls_are_read(
    double: Double, start: Start, ledger: Ledger, tmp_path: Path
) -> None:
    """Or a call that is read by the old policies would count as made under the new ones."""

    class Unclear(Around):
        times = 0

        async def adopt(self, *args: Any, **named: Any) -> Any:
            told = await self.within.adopt(*args, **named)
            self.times += 1
            if self.times == 1:
                raise LedgerUnavailable("no answer", unclear=True)
            return told

    gateway = await start(on=Unclear(ledger).ledger)
    old = identities(gateway.applied.policies)
    act = Act("test", "start")
    await ledger.adopt(old, accept=False, act=act)
    routes = [{"match": "POST /items/{item}", "entity": "other:{path.item}"}]
    write_policies(tmp_path, double.url, {}, routes=routes)
    (folder,) = [f for f in tmp_path.glob("policies-*") if "other:" in (f / "api.yaml").read_text()]
    reloading = Reloading(
        folder, Outside({}), gateway.gate, gateway.applied, gateway.app, gateway.events.append
    )
    told = await reloading.reload(act)
    assert isinstance(told, NotReloaded)
    await gateway.gate.drained(5)
    assert await ledger.adopt(old, accept=False, act=act, preview=True) == Adopted((), False)
    double.script = [do_drop()]
    assert (await gateway.call("k1")).code == "outcome_unknown"
    refused = await reloading.reload(act)
    assert isinstance(refused, NotReloaded)
    assert "1 open or unknown records" in refused.why
