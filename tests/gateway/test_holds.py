"""Local holds: never longer than the ledger's, on a clock that the test sets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from fencegate.core.events import Event, HoldLost, LedgerFailed
from fencegate.core.fingerprint import Fingerprint, Request, Scheme, fingerprint
from fencegate.core.model import (
    SECOND,
    AttemptId,
    Call,
    Decision,
    EntityId,
    Go,
    OnUnknown,
    RecordId,
    Renewal,
    Terms,
)
from fencegate.core.outcomes import Doubt, Evidence, OutcomeUnknown, Responded, Unkept
from fencegate.gateway.holds import Hold, Holds, boottime
from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Ledger, LedgerUnavailable, Told
from tests.gateway.rig import Around

HOLD = 15
TERMS = Terms(hold=HOLD * SECOND, max_fence_lead=None)


class Machine:
    """The gateway's clock and the ledger's, which need not agree on what time it is."""

    def __init__(self) -> None:
        self.here = 1000.0
        self.there = 1_700_000_000 * SECOND

    def passes(self, seconds: float) -> None:
        self.here += seconds
        self.there += int(seconds * SECOND)


class Link(Around):
    """The way to a ledger: answers may be late or lost."""

    def __init__(self, within: Ledger, machine: Machine) -> None:
        super().__init__(within)
        self._machine = machine
        self.way_there = 0.0
        self.way_back = 0.0
        self.lost = False

    async def admit(self, call: Call, terms: Terms) -> Told[Decision]:
        self._machine.passes(self.way_there)
        told = await self.within.admit(call, terms)
        self._machine.passes(self.way_back)
        return told

    async def renew(self, held: Sequence[tuple[RecordId, AttemptId]]) -> list[Renewal]:
        self._machine.passes(self.way_there)
        renewals = await self.within.renew(held)
        if self.lost:
            raise LedgerUnavailable("no answer", unclear=True)
        self._machine.passes(self.way_back)
        return renewals


class Rig:
    def __init__(self) -> None:
        self.machine = Machine()
        self.within = MemoryLedger(lambda: self.machine.there)
        self.link = Link(self.within, self.machine)
        self.events: list[Event] = []
        self.holds = Holds(
            self.link.ledger, HOLD * SECOND, self.events.append, lambda: self.machine.here
        )

    async def go(self, attempt: str = "a-1", terms: Terms = TERMS, key: str = "k1") -> Hold:
        """Admit a call, as the gateway does, and keep its hold as it would be kept."""
        asked_at = self.holds.clock()
        told = await self.link.admit(call(attempt, key), terms)
        assert isinstance(told.verdict, Go)
        return self.holds.of(told.verdict, asked_at)


def print_of() -> Fingerprint:
    taken = fingerprint(Request("POST", b"/x", (), b""), "e", Scheme())
    assert isinstance(taken, Fingerprint)
    return taken


def call(attempt: str, key: str) -> Call:
    entity = EntityId("", "e")
    return Call("api", None, "", entity, 1, key, (print_of(),), AttemptId(attempt))


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_hold_is_good_until_its_time_from_when_it_was_asked_for(rig: Rig) -> None:
    hold = await rig.go()
    rig.machine.passes(HOLD - 0.001)
    assert hold.good()
    rig.machine.passes(0.001)
    assert not hold.good()


@pytest.mark.parametrize("way", ["way_there", "way_back"])
async def test_an_admission_that_takes_time_leaves_less_of_the_hold(rig: Rig, way: str) -> None:
    """It counts from when the admission was sent: the ledger's own hold may have begun then."""
    setattr(rig.link, way, 4.0)
    hold = await rig.go()
    rig.machine.passes(HOLD - 4 - 0.001)
    assert hold.good()
    rig.machine.passes(0.001)
    assert not hold.good()


async def test_an_admission_that_takes_longer_than_the_hold_gives_none(rig: Rig) -> None:
    rig.link.way_back = HOLD
    assert not (await rig.go()).good()


async def test_a_local_hold_never_outlasts_the_ledgers(rig: Rig) -> None:
    """Whatever the ways take, also after renewals: when here is good, there is open."""
    rig.link.way_there, rig.link.way_back = 1.0, 2.0
    hold = await rig.go()
    with rig.holds.kept(hold):
        for _ in range(3):
            rig.machine.passes(5)
            await rig.holds.renew()
    rig.machine.passes(hold.good_until - rig.machine.here - 0.001)
    assert hold.good()
    record = await rig.within.inspect_key(hold.record)
    assert record is not None
    assert type(record.state).__name__ == "Open"


async def test_a_renewal_extends_the_hold_from_when_it_was_sent(rig: Rig) -> None:
    hold = await rig.go()
    rig.machine.passes(10)
    rig.link.way_back = 2.0
    with rig.holds.kept(hold):
        await rig.holds.renew()
    rig.machine.passes(HOLD - 2 - 0.001)
    assert hold.good()
    rig.machine.passes(0.001)
    assert not hold.good()


async def test_a_hold_that_is_not_kept_is_not_renewed(rig: Rig) -> None:
    hold, kept = await rig.go("a-1", key="k1"), await rig.go("a-2", key="k2")
    with rig.holds.kept(hold):
        pass
    rig.machine.passes(10)
    with rig.holds.kept(kept):
        await rig.holds.renew()
    rig.machine.passes(10)
    assert not hold.good()
    assert kept.good()


async def test_a_renewal_that_is_refused_makes_the_hold_bad_at_once_and_for_ever(
    rig: Rig,
) -> None:
    """The record was settled elsewhere; an answer that says otherwise later revives nothing."""
    hold = await rig.go()
    evidence = OutcomeUnknown(Evidence(Doubt.TIMEOUT))
    await rig.within.settle(hold.record, hold.attempt, evidence)
    with rig.holds.kept(hold):
        await rig.holds.renew()
        assert not hold.good()
        assert rig.events == [HoldLost("a-1")]
        await rig.holds.renew()
        assert rig.events == [HoldLost("a-1")]
        hold.good_until = rig.machine.here + 1000
        assert not hold.good()


async def test_a_hold_that_ran_out_in_the_ledger_is_never_revived(rig: Rig) -> None:
    """The ledger's clock has stepped forward: here the hold would still be good."""
    hold = await rig.go()
    rig.machine.there += (HOLD + 1) * SECOND
    assert hold.good()
    with rig.holds.kept(hold):
        await rig.holds.renew()
    assert not hold.good()


async def test_a_renewal_without_an_answer_changes_nothing(rig: Rig) -> None:
    """It may have been made or not: the hold runs out as it would have."""
    hold = await rig.go()
    rig.machine.passes(10)
    rig.link.lost = True
    with rig.holds.kept(hold):
        await rig.holds.renew()
        assert rig.events == [LedgerFailed("renew", "no answer", unclear=True)]
        rig.machine.passes(4.999)
        assert hold.good()
        rig.machine.passes(0.001)
        assert not hold.good()
        rig.link.lost = False
        await rig.holds.renew()  # the lost one had been made, so the ledger goes on
        assert hold.good()


async def test_all_holds_are_renewed_together_and_each_by_its_own_answer(rig: Rig) -> None:
    holds = [await rig.go(f"a-{n}", key=f"k{n}") for n in range(5)]
    await rig.within.settle(holds[2].record, holds[2].attempt, Responded(Unkept(200)))
    rig.machine.passes(10)
    with (
        rig.holds.kept(holds[0]),
        rig.holds.kept(holds[1]),
        rig.holds.kept(holds[2]),
        rig.holds.kept(holds[3]),
        rig.holds.kept(holds[4]),
    ):
        await rig.holds.renew()
    rig.machine.passes(10)
    assert [hold.good() for hold in holds] == [True, True, False, True, True]
    assert rig.events == [HoldLost("a-2")]


async def test_an_attempt_that_ends_during_its_renewal_has_lost_nothing(rig: Rig) -> None:
    """Its record is done, so the renewal is refused: no alarm for that."""
    hold = await rig.go()

    class Between(Around):
        async def renew(self, held: Sequence[tuple[RecordId, AttemptId]]) -> list[Renewal]:
            await rig.within.settle(hold.record, hold.attempt, Responded(Unkept(200)))
            renewals = await self.within.renew(held)
            keeping.__exit__(None, None, None)
            return renewals

    rig.holds._ledger = Between(rig.within).ledger
    keeping = rig.holds.kept(hold)
    keeping.__enter__()
    await rig.holds.renew()
    assert rig.events == []


async def test_a_resend_is_good_only_while_the_upstream_knows_the_key(rig: Rig) -> None:
    """The window counts from the first attempt, less the timeout: 60 - 30 - 20 = 10 seconds."""
    terms = Terms(
        hold=HOLD * SECOND,
        timeout=30 * SECOND,
        max_fence_lead=None,
        on_unknown=OnUnknown.RESEND,
        key_window=60 * SECOND,
    )
    first = await rig.go("a-1", terms)
    assert first.window_until is None
    await rig.within.settle(first.record, first.attempt, OutcomeUnknown(Evidence(Doubt.TIMEOUT)))
    rig.machine.passes(20)
    second = await rig.go("a-2", terms)
    with rig.holds.kept(second):
        rig.machine.passes(9)
        await rig.holds.renew()  # this extends the hold and not the window
        rig.machine.passes(0.999)
        assert second.good()
        rig.machine.passes(0.001)
        assert not second.good()


async def test_holds_are_renewed_by_themselves_while_they_are_kept() -> None:
    """With the clocks of the machine: three renewals within each hold."""
    ledger = MemoryLedger()
    holds = Holds(ledger, SECOND // 5, lambda event: None)
    terms = Terms(hold=SECOND // 5, max_fence_lead=None)
    asked_at = holds.clock()
    told = await ledger.admit(call("a-1", "k1"), terms)
    assert isinstance(told.verdict, Go)
    hold = holds.of(told.verdict, asked_at)
    running = asyncio.create_task(holds.run())
    with holds.kept(hold):
        first = hold.good_until
        async with asyncio.timeout(10):
            while hold.good_until < first + 0.5:
                await asyncio.sleep(0.005)
                assert hold.good()
    running.cancel()


def test_the_clock_of_holds_runs_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def clock_gettime(clock: int) -> float:
        asked.append(clock)
        return 7.0

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    assert boottime() == 7.0
    assert asked == [time.CLOCK_BOOTTIME]
