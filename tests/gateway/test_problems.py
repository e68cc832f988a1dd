"""Refusals as documents: the table of codes, and that no value of a request gets into one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from fencegate.core.model import Call, Decision, EntityId, Terms
from fencegate.core.reasons import Reason
from fencegate.gateway.problems import KINDS, unread
from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Act, LedgerUnavailable, Told
from fencegate.ops.log import line_of
from fencegate.policy import Policies
from tests.double import do_drop, do_err, ok
from tests.gateway.peers import nobody_listens, upstream_up
from tests.gateway.rig import (
    VIA,
    Around,
    Gateway,
    Got,
    serving,
    through_asgi,
    write_policies,
)

# --- the table -----------------------------------------------------------------------------

STATUS = {
    "stale_fence": 412,
    "frozen": 423,
    "key_reused": 422,
    "key_expired": 410,
    "outcome_unknown": 409,
    "answer_not_kept": 409,
    "key_of_other_caller": 409,
    "fence_required": 428,
    "fence_invalid": 400,
    "fence_too_far": 400,
    "key_required": 400,
    "key_invalid": 400,
    "body_ambiguous": 400,
    "framing": 400,
    "path_ambiguous": 400,
    "entity_unresolved": 422,
    "in_flight": 409,
    "predecessor_open": 409,
    "ledger_unavailable": 503,
    "draining": 503,
    "upstream_busy": 503,
    "not_sent": 502,
    "no_route": 403,
    "caller_unknown": 401,
    "fence_unproven": 403,
    "body_too_large": 413,
    "head_too_large": 431,
    "request_timeout": 408,
    "method_refused": 501,
    "upgrade_refused": 426,
    "loop": 508,
    "still_listening": 409,
    "still_open": 409,
    "not_frozen": 409,
    "not_unknown": 409,
}
RETRY = {
    "in_flight",
    "predecessor_open",
    "ledger_unavailable",
    "draining",
    "upstream_busy",
    "not_sent",
}


def test_every_code_has_its_status() -> None:
    assert {reason.value: KINDS[reason].status for reason in Reason} == STATUS


def test_only_what_may_pass_by_itself_may_be_tried_again() -> None:
    assert {reason.value for reason in Reason if KINDS[reason].retry} == RETRY


@pytest.mark.parametrize("reason", Reason)
def test_a_problem_is_whole_and_in_form(reason: Reason) -> None:
    problem = unread(reason, "Something was seen.", "ref-1")
    said = json.loads(problem.body)
    assert said["type"] == f"/_fencegate/problems/{reason.value}"
    assert (said["code"], said["status"], said["ref"]) == (reason.value, STATUS[reason], "ref-1")
    assert said["title"] == KINDS[reason].title
    assert said["detail"] == f"Something was seen. {KINDS[reason].meaning}"
    assert said["safe_new_key"] is (reason in (Reason.KEY_REQUIRED, Reason.KEY_INVALID))
    assert set(said) == {"type", "title", "status", "code", "detail", "ref", "safe_new_key"}
    headers = dict(problem.headers)
    assert headers.pop(b"content-type") == b"application/problem+json"
    shown = headers.pop(b"www-authenticate", None)
    assert shown == (b"Bearer" if reason is Reason.CALLER_UNKNOWN else None)  # RFC 9110 15.5.2
    if reason in RETRY:
        assert headers == {b"retry-after": b"1"}
    else:
        assert headers == {b"x-should-retry": b"false", b"stripe-should-retry": b"false"}


@pytest.mark.parametrize("reason", Reason)
def test_what_a_problem_means_is_said_in_whole_sentences(reason: Reason) -> None:
    kind = KINDS[reason]
    assert kind.title[0].isupper()
    assert kind.meaning[0].isupper()
    assert kind.meaning.endswith(".")
    assert "  " not in kind.meaning


# --- no value of a request gets out --------------------------------------------------------

MARK = "s3cr3t"


@dataclass
class Sent:
    """A request with a secret in every place that has one."""

    method: str = "POST"
    path: str = ""
    query: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def target(self) -> str:
        return f"{self.path}?{'&'.join(self.query)}"


class Broken(Around):
    """Away when the test says so."""

    away = False

    async def admit(self, call: Call, terms: Terms) -> Told[Decision]:
        if self.away:
            raise LedgerUnavailable("away")
        return await self.within.admit(call, terms)


@dataclass
class World:
    gateway: Gateway
    ledger: Broken
    double: Any
    count: int = 0

    async def send(self, sent: Sent) -> Got:
        lines = [(n.lower().encode(), v.encode("latin-1")) for n, v in sent.headers.items()]
        return await through_asgi(self.gateway.app, sent.method, sent.target, lines, sent.body)


async def without_a_fence(world: World, sent: Sent) -> Got:
    del sent.headers["X-Execution-Fence"]
    return await world.send(sent)


async def with_a_bad_fence(world: World, sent: Sent) -> Got:
    sent.headers["X-Execution-Fence"] = MARK
    return await world.send(sent)


async def without_a_key(world: World, sent: Sent) -> Got:
    del sent.headers["Idempotency-Key"]
    return await world.send(sent)


async def with_a_bad_key(world: World, sent: Sent) -> Got:
    sent.headers["Idempotency-Key"] = f"{MARK}, {MARK}"
    return await world.send(sent)


async def with_another_spelling(world: World, sent: Sent) -> Got:
    sent.headers["X_Execution_Fence"] = MARK
    return await world.send(sent)


async def with_an_override(world: World, sent: Sent) -> Got:
    sent.headers["X-Original-URL"] = f"/{MARK}"
    return await world.send(sent)


async def on_no_route(world: World, sent: Sent) -> Got:
    sent.path = "/api/other"
    return await world.send(sent)


async def on_no_mount(world: World, sent: Sent) -> Got:
    sent.path = "/other"
    return await world.send(sent)


async def on_an_ambiguous_path(world: World, sent: Sent) -> Got:
    sent.path = f"/api/items//{MARK}"
    return await world.send(sent)


async def in_a_loop(world: World, sent: Sent) -> Got:
    sent.headers["Via"] = f"1.1 {VIA.decode()} ({MARK})"
    return await world.send(sent)


async def by_trace(world: World, sent: Sent) -> Got:
    sent.method = "TRACE"
    return await world.send(sent)


async def with_a_large_body(world: World, sent: Sent) -> Got:
    sent.body = sent.body + b" " * 5000 + MARK.encode()
    return await world.send(sent)


async def with_an_ambiguous_body(world: World, sent: Sent) -> Got:
    sent.body = b'{"%s":1,"%s":2}' % (MARK.encode(), MARK.encode())
    return await world.send(sent)


async def with_an_entity_that_is_none(world: World, sent: Sent) -> Got:
    sent.path = "/api/notes"
    sent.body = b'{"id":["%s"]}' % MARK.encode()
    return await world.send(sent)


async def with_an_entity_in_no_json(world: World, sent: Sent) -> Got:
    sent.path = "/api/notes"
    sent.body = MARK.encode()
    return await world.send(sent)


async def under_a_stale_fence(world: World, sent: Sent) -> Got:
    await world.send(sent)
    sent.headers["Idempotency-Key"] += "-2"
    sent.headers["X-Execution-Fence"] = "1"
    return await world.send(sent)


async def under_a_fence_too_far(world: World, sent: Sent) -> Got:
    sent.headers["X-Execution-Fence"] = str(2**63 - 1)
    return await world.send(sent)


async def under_a_key_that_was_used(world: World, sent: Sent) -> Got:
    await world.send(sent)
    sent.body += b" "
    sent.query.append(f"more={MARK}")
    return await world.send(sent)


async def under_a_key_of_another(world: World, sent: Sent) -> Got:
    await world.send(sent)
    sent.headers["Authorization"] = f"Bearer {MARK} 2"
    return await world.send(sent)


async def with_a_lost_answer(world: World, sent: Sent) -> Got:
    world.double.script = [do_drop()]
    return await world.send(sent)


async def after_a_lost_answer(world: World, sent: Sent) -> Got:
    world.double.script = [do_err(500)]
    await world.send(sent)
    return await world.send(sent)


async def after_a_large_answer(world: World, sent: Sent) -> Got:
    world.double.script = [ok(200, MARK.encode() * 1000, [("X-Secret", MARK)])]
    await world.send(sent)
    return await world.send(sent)


async def on_a_frozen_entity(world: World, sent: Sent) -> Got:
    await world.ledger.freeze(EntityId("", f"item:{world.count}"), True, Act("a", "b"))
    return await world.send(sent)


async def without_an_upstream(world: World, sent: Sent) -> Got:
    sent.path = sent.path.replace("/api", "/away")
    return await world.send(sent)


async def without_a_ledger(world: World, sent: Sent) -> Got:
    world.ledger.away = True
    try:
        return await world.send(sent)
    finally:
        world.ledger.away = False


async def passed_without_an_upstream(world: World, sent: Sent) -> Got:
    sent.method, sent.path = "GET", sent.path.replace("/api", "/away")
    return await world.send(sent)


async def on_a_path_of_ours(world: World, sent: Sent) -> Got:
    sent.path = "/_fencegate/no/such/path"
    return await world.send(sent)


REFUSALS: dict[Callable[[World, Sent], Any], str] = {
    without_a_fence: "fence_required",
    with_a_bad_fence: "fence_invalid",
    without_a_key: "key_required",
    with_a_bad_key: "key_invalid",
    with_another_spelling: "framing",
    with_an_override: "framing",
    on_no_route: "no_route",
    on_no_mount: "no_route",
    on_an_ambiguous_path: "path_ambiguous",
    in_a_loop: "loop",
    by_trace: "method_refused",
    with_a_large_body: "body_too_large",
    with_an_ambiguous_body: "body_ambiguous",
    with_an_entity_that_is_none: "entity_unresolved",
    with_an_entity_in_no_json: "entity_unresolved",
    under_a_stale_fence: "stale_fence",
    under_a_fence_too_far: "fence_too_far",
    under_a_key_that_was_used: "key_reused",
    under_a_key_of_another: "key_of_other_caller",
    with_a_lost_answer: "outcome_unknown",
    after_a_lost_answer: "outcome_unknown",
    after_a_large_answer: "answer_not_kept",
    on_a_frozen_entity: "frozen",
    without_an_upstream: "not_sent",
    without_a_ledger: "ledger_unavailable",
    passed_without_an_upstream: "not_sent",
    on_a_path_of_ours: "no_route",
}

secrets = st.text("abcXYZ019-_.~", max_size=12).map(lambda text: f"{MARK}{text}")
field_names = st.from_regex(r"X-[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True).filter(
    lambda name: name.lower() not in ("x-execution-fence", "x-execution-holder", "x-original-url")
)


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, World]]:
    """One gateway for all examples, on a loop of its own; each example has its own entity."""
    folder = tmp_path_factory.mktemp("policies")
    ledger = Broken(MemoryLedger())
    with upstream_up() as double, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        api = write_policies(folder, double.url, {"answer_limit": "2KiB", "body_limit": "4KiB"})
        nowhere = f"http://127.0.0.1:{nobody_listens()}"
        away = write_policies(folder, nowhere, {"name": "away", "mount": "/away"})
        both = Policies(api.gateway, api.upstreams + away.upstreams, api.routes + away.routes)
        gateways = serving(both, ledger.ledger)
        gateway = runner.run(gateways.__aenter__())
        yield runner, World(gateway, ledger, double)
        runner.run(gateways.__aexit__(None, None, None))


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
@given(in_body=secrets, in_query=secrets, in_token=secrets, name=field_names, in_field=secrets)
@settings(max_examples=10, deadline=None)
def test_no_value_of_a_request_gets_into_a_problem_or_the_log(
    living: tuple[asyncio.Runner, World],
    refusal: Callable[[World, Sent], Any],
    in_body: str,
    in_query: str,
    in_token: str,
    name: str,
    in_field: str,
) -> None:
    """Entity, fence, key and holder are the contract's own words; all else is the caller's."""
    runner, world = living
    world.count += 1
    world.gateway.events.clear()
    sent = Sent(
        path=f"/api/items/{world.count}",
        query=[f"q={in_query}"],
        headers={
            "Content-Type": "application/json",
            "X-Execution-Fence": "7",
            "Idempotency-Key": f"k{world.count}",
            "Authorization": f"Bearer {in_token}",
            "Cookie": f"session={in_token}",
            name: in_field,
        },
        body=json.dumps({"id": world.count, "secret": in_body}).encode(),
    )

    got = runner.run(refusal(world, sent))

    assert got.code == REFUSALS[refusal]
    assert MARK.encode() not in got.body
    assert not any(MARK in value for _, value in got.headers)
    log = b"".join(line_of(event, datetime.now(UTC)) for event in world.gateway.events)
    assert MARK.encode() not in log
    assert log or refusal in (passed_without_an_upstream, on_a_path_of_ours)
