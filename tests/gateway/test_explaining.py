"""Explained and live are one: 1,000 requests, each explained and then made."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from fencegate.gateway.explaining import Explained, explain
from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Ledger
from tests.double import Double, deny, do_drop, ok
from tests.gateway.rig import Gateway, Got, Start, ask
from tests.gateway.test_callers import CALLERS

REQUESTS = 1000
ROUTES: list[dict[str, Any]] = [
    {"match": "POST|PUT /items/{item}", "entity": "item:{path.item}"},
    {
        "match": "POST /body",
        "entity": "item:{json./item}",
        "fence": ["{header.x-execution-fence}", "{json./fence}"],
        "key": ["{header.idempotency-key}", "{json./key}"],
    },
    {"match": "POST /mails", "guard": "key-only"},
    {"match": "POST /count/{item}", "entity": "item:{path.item}", "guard": "fence-only"},
    {"match": "POST /watched/{item}", "entity": "item:{path.item}", "mode": "observe"},
    {"match": "POST /resent/{item}", "entity": "item:{path.item}", "on_unknown": "resend"},
    {"match": "POST /strict/{item}", "entity": "item:{path.item}", "stale_replay": "refuse"},
    {"match": "* /free/**", "guard": "none"},
]
PATHS = [
    "/api/items/1", "/api/items/2", "/api/items/%31", "/api/items/1/", "/api/items/a%2Fb",
    "/api/body", "/api/mails", "/api/count/1", "/api/watched/1", "/api/resent/1", "/api/strict/1",
    "/api/free/x", "/api/nothing", "/elsewhere", "/api/items/..%2f1", "/api/items/1?q=1",
]  # fmt: skip
ODD_FENCES: list[str | None] = ["041", "x", None]
KEYS: list[str | None] = ["k1", "k2", "k3", '"k1"', "k 4", None]
BODIES = [b'{"item":1}', b"{}", b'{"a":1,"a":2}', b"", b"x" * 99]
TOKENS = ["token-a", "token-b", "wrong", None]


@pytest.fixture
def ledger() -> Ledger:
    return MemoryLedger()


def fence_at(chance: random.Random, number: int) -> str:
    """Fences rise as time goes by; now and then one comes late."""
    return str(10 + number // 8 - chance.choice([0, 0, 0, 0, 0, 1, 5]))


Asked = tuple[str, str, list[tuple[str, str]], bytes]


def generated(chance: random.Random, number: int, before: list[Asked]) -> Asked:
    """A new request, or an earlier one again, maybe under another fence."""
    if before and chance.randrange(5) < 2:
        method, path, lines, body = chance.choice(before[-12:])
        others = [line for line in lines if line[0] != "X-Execution-Fence"]
        return method, path, [*others, ("X-Execution-Fence", fence_at(chance, number))], body
    lines = [("Content-Type", chance.choice(["application/json"] * 5 + ["text/plain"]))]
    if (fence := chance.choice([*[fence_at(chance, number)] * 20, *ODD_FENCES])) is not None:
        lines.append(("X-Execution-Fence", fence))
    if (key := chance.choice([*[f"k{number}"] * 12, *KEYS])) is not None:
        lines.append(("Idempotency-Key", key))
    if (token := chance.choice([*TOKENS[:2] * 5, *TOKENS])) is not None:
        lines.append(("Fencegate-Token", token))
    if not chance.randrange(40):
        lines.append(("Connection", "X-Execution-Fence"))
    method = chance.choice(["POST"] * 8 + ["PUT", "GET"])
    path = chance.choice([*PATHS[:11] * 3, *PATHS])
    within = b'{"item":1,"fence":%s,"key":"k%d"}' % (fence_at(chance, number).encode(), number)
    return method, path, lines, chance.choice([*[within, BODIES[0]] * 4, *BODIES])


def said_live(got: Got) -> tuple[str | None, int | None, str | None]:
    decision = got.header("fencegate-decision")
    if decision == "refused":
        return decision, got.status, got.code
    return decision, got.status if decision == "replayed" else None, None


def said_before(explained: Explained) -> tuple[str | None, int | None, str | None]:
    of = explained
    if of.decision == "refused":
        return of.decision, of.status, of.code
    return of.decision, of.status if of.decision == "replayed" else None, None


async def explained_by(
    gateway: Gateway, method: str, path: str, lines: list[tuple[str, str]], body: bytes
) -> Explained:
    fields = tuple((name.lower().encode(), value.encode()) for name, value in lines)
    policies, ledger = gateway.applied.policies, gateway.gate.ledger
    return await explain(policies, ledger, method, path.encode(), fields, body)


async def test_a_thousand_requests_are_explained_as_they_then_go(
    double: Double, start: Start
) -> None:
    chance = random.Random(41)
    gateway = await start(
        key_window="1h", body_limit="64B", more={"routes": ROUTES, "callers": CALLERS}
    )
    double.default = ok(201)
    met: Counter[str] = Counter()
    asked: list[Asked] = []
    for number in range(REQUESTS):
        if not number % 9:
            double.script = [chance.choice([do_drop(), deny(429), ok(503), ok(404)])]
        asked.append(generated(chance, number, asked))
        method, path, lines, body = asked[-1]
        before = await explained_by(gateway, method, path, lines, body)
        live = await ask(gateway.port, method, path, lines, body)
        assert said_before(before) == said_live(live), (number, method, path, lines, body, before)
        met[before.code or before.decision] += 1
    assert met["forwarded"] > 100
    few = {"forwarded", "replayed", "passed", "would-replay", "stale_fence", "key_reused"}
    few |= {"outcome_unknown", "caller_unknown", "fence_invalid", "key_required", "no_route"}
    few |= {"path_ambiguous", "entity_unresolved", "framing", "body_ambiguous", "body_too_large"}
    assert few <= met.keys(), met


async def test_what_would_be_waited_for_is_said(double: Double, start: Start) -> None:
    gateway = await start(key_window="1h", more={"routes": ROUTES})
    lines = [("X-Execution-Fence", "41"), ("Idempotency-Key", "k1")]
    order = await gateway.app.intake.read(_incoming(lines))
    await gateway.gate.ledger.admit(order.call, order.terms)  # type: ignore[union-attr]
    same = await explained_by(gateway, "POST", "/api/items/1", lines, b"")
    assert (same.waits, same.code) == ((("key", 5.0),), "in_flight")
    later = [("X-Execution-Fence", "42"), ("Idempotency-Key", "k2")]
    next_one = await explained_by(gateway, "POST", "/api/items/1", later, b"")
    assert (next_one.waits, next_one.code) == ((("predecessor", 5.0),), "predecessor_open")
    assert double.hits == []


async def test_explaining_changes_nothing(double: Double, start: Start) -> None:
    gateway = await start(key_window="1h", more={"routes": ROUTES})
    await gateway.call("k1", 41, "1")
    rows = await gateway.all_rows("1")
    for fence in ("40", "41", "99"):
        lines = [("X-Execution-Fence", fence), ("Idempotency-Key", "k1")]
        await explained_by(gateway, "POST", "/api/items/1", lines, b"")
    assert await gateway.all_rows("1") == rows
    assert len(double.hits) == 1


def _incoming(lines: list[tuple[str, str]]) -> Any:
    from fencegate.gateway.intake import Incoming

    async def read_body(limit: int) -> bytes:
        return b""

    async def left() -> None:
        """Stays."""

    fields = tuple((name.lower().encode(), value.encode()) for name, value in lines)
    return Incoming("POST", b"/api/items/1", fields, read_body, left)
