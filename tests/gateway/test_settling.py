"""The ledger goes away at every step: nothing is forwarded on a guess, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fencegate.core.events import LedgerFailed
from fencegate.core.model import (
    AttemptId,
    Call,
    Decision,
    RecordId,
    Settlement,
    Superseded,
    Terms,
)
from fencegate.core.outcomes import Outcome
from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Ledger, LedgerUnavailable, Told
from tests.double import Double, do_drop, ok
from tests.gateway.peers import nobody_listens, upstream_up
from tests.gateway.rig import Around, Clock, Start, until


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return MemoryLedger(clock)


class Failing(Around):
    """A ledger that is away for some steps: it raises before the step, or after it was done."""

    def __init__(self, within: Ledger) -> None:
        super().__init__(within)
        self.before_admit = 0
        self.after_admit = 0
        self.before_settle = 0
        self.after_settle = 0
        self.settled: list[tuple[AttemptId, Settlement]] = []

    async def admit(self, call: Call, terms: Terms) -> Told[Decision]:
        if self.before_admit:
            self.before_admit -= 1
            raise LedgerUnavailable("away", unclear=False)
        told = await self.within.admit(call, terms)
        if self.after_admit:
            self.after_admit -= 1
            raise LedgerUnavailable("no acknowledgement", unclear=True)
        return told

    async def settle(
        self, record: RecordId, attempt: AttemptId, outcome: Outcome
    ) -> Told[Settlement]:
        if self.before_settle:
            self.before_settle -= 1
            raise LedgerUnavailable("away", unclear=False)
        told = await self.within.settle(record, attempt, outcome)
        self.settled.append((attempt, told.verdict))
        if self.after_settle:
            self.after_settle -= 1
            raise LedgerUnavailable("no acknowledgement", unclear=True)
        return told


async def becomes(state: str | None, state_of: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while await state_of() != state:
            await asyncio.sleep(0.005)


# --- at admission --------------------------------------------------------------------------


async def test_nothing_is_forwarded_while_the_ledger_is_away(
    double: Double, start: Start, ledger: Ledger
) -> None:
    failing = Failing(ledger)
    failing.before_admit = 1
    gateway = await start(on=failing.ledger)
    got = await gateway.call()
    assert (got.status, got.code) == (503, "ledger_unavailable")
    assert got.header("retry-after") == "1"
    assert got.header("fencegate-decision") == "refused"
    assert got.header("x-should-retry") is None
    assert "sent" not in got.problem
    assert got.problem["safe_new_key"] is False
    assert got.problem["ref"] == got.header("fencegate-ref")
    assert double.hits == []
    assert gateway.said(LedgerFailed) == [LedgerFailed("admit", "away", unclear=False)]
    assert failing.settled == []  # nothing was recorded, so nothing is undone
    assert await gateway.state_of() is None
    assert (await gateway.call()).status == 201


async def test_an_admission_without_an_acknowledgement_is_undone_by_its_attempts_id(
    double: Double, start: Start, ledger: Ledger
) -> None:
    failing = Failing(ledger)
    failing.after_admit = 1
    gateway = await start(on=failing.ledger)
    got = await gateway.call(fence=42)
    assert (got.status, got.code) == (503, "ledger_unavailable")
    assert "sent" not in got.problem
    await becomes(None, gateway.state_of)
    assert [attempt for attempt, _ in failing.settled] == [got.problem["ref"]]
    assert await gateway.high_water() == 42
    assert double.hits == []
    assert (await gateway.call(fence=42)).status == 201
    assert len(double.hits) == 1


async def test_an_undo_is_tried_on_while_the_ledger_is_away(
    double: Double, start: Start, ledger: Ledger
) -> None:
    failing = Failing(ledger)
    failing.after_admit = 1
    failing.before_settle = 1
    gateway = await start(on=failing.ledger)
    await gateway.call()
    assert await gateway.state_of() == "sending"
    await becomes(None, gateway.state_of)
    assert double.hits == []
    assert (await gateway.call()).status == 201


async def test_an_undo_that_comes_before_its_admission_is_repeated_after_one_hold(
    double: Double, start: Start, ledger: Ledger
) -> None:
    class Overtaken(Failing):
        """The admission is on its way for longer than its undo."""

        async def admit(self, call: Call, terms: Terms) -> Told[Decision]:
            if self.after_admit:
                self.after_admit -= 1
                late.append(lambda: self.within.admit(call, terms))
                raise LedgerUnavailable("no acknowledgement", unclear=True)
            return await self.within.admit(call, terms)

    late: list[Callable[[], Any]] = []
    failing = Overtaken(ledger)
    failing.after_admit = 1
    gateway = await start(on=failing.ledger, more={"gateway": {"hold": "400ms"}})
    assert (await gateway.call()).code == "ledger_unavailable"
    await until(lambda: failing.settled)
    assert failing.settled[0][1] == Superseded(nothing=True)
    await late[0]()
    assert await gateway.state_of() == "sending"
    await becomes(None, gateway.state_of)
    assert len(failing.settled) == 2
    assert double.hits == []
    assert (await gateway.call()).status == 201


async def test_an_undo_frees_no_earlier_attempt(
    double: Double, start: Start, ledger: Ledger
) -> None:
    failing = Failing(ledger)
    double.script = [do_drop()]
    gateway = await start(on=failing.ledger, on_unknown="resend", key_window="1h")
    assert (await gateway.call()).status == 502
    failing.after_admit = 1
    assert (await gateway.call()).code == "ledger_unavailable"
    await becomes("unknown", gateway.state_of)
    record = await gateway.record_of()
    assert record is not None
    assert len(record.attempts) == 1
    assert len(double.hits) == 1


async def test_a_waiting_call_is_refused_when_the_ledger_goes_away(
    double: Double, start: Start, ledger: Ledger
) -> None:
    gate_open = asyncio.Event()

    async def play(hit: Any, writer: Any) -> None:
        while not gate_open.is_set():
            await asyncio.sleep(0.002)
        await ok()(hit, writer)

    double.script = [play]
    failing = Failing(ledger)
    gateway = await start(on=failing.ledger)
    first = asyncio.create_task(gateway.call("k41", 41))
    await until(lambda: double.hits)
    second = asyncio.create_task(gateway.call("k42", 42))
    while await gateway.high_water() != 42:
        await asyncio.sleep(0.002)
    await asyncio.sleep(0)
    failing.before_admit = 1
    gate_open.set()
    assert (await first).status == 201
    got = await second
    assert (got.status, got.code) == (503, "ledger_unavailable")
    assert len(double.hits) == 1
    assert (await gateway.call("k42", 42)).status == 201


# --- at settlement -------------------------------------------------------------------------


async def test_an_answer_that_cannot_be_recorded_is_passed_on_marked_and_recorded_later(
    double: Double, start: Start, ledger: Ledger
) -> None:
    failing = Failing(ledger)
    failing.before_settle = 2
    gateway = await start(on=failing.ledger, duplicate_wait="0ms")
    got = await gateway.call()
    assert (got.status, got.body) == (201, b'{"ok":true}')
    assert got.header("fencegate-decision") == "forwarded"
    assert got.header("fencegate-outcome") == "unrecorded"
    assert gateway.said(LedgerFailed) == [LedgerFailed("settle", "away", unclear=False)]
    assert await gateway.state_of() == "sending"
    assert (await gateway.call()).code == "in_flight"
    assert await gateway.gate.drained(0) == 1  # a process that ends waits for it
    await becomes("done", gateway.state_of)
    assert await gateway.gate.drained(5) == 0
    assert (await gateway.call()).header("fencegate-decision") == "replayed"
    assert len(double.hits) == 1


async def test_a_settlement_without_an_acknowledgement_is_made_again_and_is_one(
    double: Double, start: Start, ledger: Ledger
) -> None:
    failing = Failing(ledger)
    failing.after_settle = 1
    gateway = await start(on=failing.ledger)
    got = await gateway.call()
    assert got.header("fencegate-outcome") == "unrecorded"
    await until(lambda: len(failing.settled) == 2)
    assert failing.settled[0] == failing.settled[1]
    assert (await gateway.call()).body == got.body
    assert len(double.hits) == 1


async def test_a_lost_answer_that_cannot_be_recorded_is_unknown_later(
    double: Double, start: Start, ledger: Ledger
) -> None:
    failing = Failing(ledger)
    failing.before_settle = 1
    double.script = [do_drop()]
    gateway = await start(on=failing.ledger)
    got = await gateway.call()
    assert (got.status, got.code, got.problem["sent"]) == (502, "outcome_unknown", True)
    assert got.header("fencegate-outcome") == "unrecorded"
    await becomes("unknown", gateway.state_of)


async def test_a_call_that_was_not_sent_says_so_only_when_the_ledger_knows(
    start: Start, ledger: Ledger
) -> None:
    failing = Failing(ledger)
    failing.before_settle = 2
    port = nobody_listens()
    gateway = await start(on=failing.ledger, url=f"http://127.0.0.1:{port}", duplicate_wait="0ms")
    got = await gateway.call()
    assert (got.status, got.code) == (502, "not_sent")
    assert "sent" not in got.problem
    assert got.header("fencegate-outcome") == "unrecorded"
    assert (await gateway.call()).code == "in_flight"
    await becomes(None, gateway.state_of)
    with upstream_up(port) as double:
        assert (await gateway.call()).status == 201
        assert len(double.hits) == 1
