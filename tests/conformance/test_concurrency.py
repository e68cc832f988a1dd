"""Many at once: one goes, high water only rises, and nobody who waits is forgotten."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fencegate.core.model import (
    EntityId,
    Go,
    Released,
    Replay,
    Settled,
    Wait,
    WaitFor,
)
from fencegate.core.outcomes import Outcome
from fencegate.core.reasons import Reason
from fencegate.ledger.protocol import Ledger, Watch
from tests.conformance.calls import (
    ANSWERED,
    IN_DOUBT,
    INVOICE,
    TERMS,
    UNSENT,
    call,
    record_id,
    refused,
    went,
)
from tests.conformance.ledgers import FakeClock, Kind, every_ledger, shared_ledgers

AT_LAST = 30.0  # seconds: never reached unless a wake-up was lost


@asynccontextmanager
async def one(kind: Kind, place: Path) -> AsyncIterator[Ledger]:
    ledger = await kind.open(FakeClock(), place)
    try:
        yield ledger
    finally:
        await ledger.close()


@asynccontextmanager
async def two(kind: Kind, place: Path) -> AsyncIterator[tuple[Ledger, Ledger]]:
    """Two objects that are one ledger, as two processes have them."""
    clock = FakeClock()
    ours, theirs = await kind.open(clock, place), await kind.open(clock, place)
    try:
        yield ours, theirs
    finally:
        await ours.close()
        await theirs.close()


# --- going ---------------------------------------------------------------------------------


@every_ledger
async def test_of_two_hundred_calls_under_one_key_exactly_one_goes(
    kind: Kind, tmp_path: Path
) -> None:
    async with one(kind, tmp_path) as ledger:
        calls = [call() for _ in range(200)]
        told = await asyncio.gather(*(ledger.admit(each, TERMS) for each in calls))
        assert Counter(type(each.verdict) for each in told) == {Go: 1, Wait: 199}
        [gone] = [each.verdict.attempt for each in told if isinstance(each.verdict, Go)]
        record = await ledger.inspect_key(record_id())
        assert record is not None
        assert [attempt.id for attempt in record.attempts] == [gone]


@shared_ledgers
async def test_of_calls_through_two_ledger_objects_exactly_one_goes(
    kind: Kind, tmp_path: Path
) -> None:
    async with two(kind, tmp_path) as both:
        calls = [(ledger, call(f"key {n}")) for n in range(50) for ledger in both * 2]
        random.Random(8812).shuffle(calls)
        told = await asyncio.gather(*(ledger.admit(each, TERMS) for ledger, each in calls))
        goes = Counter(t.verdict.record_id for t in told if isinstance(t.verdict, Go))
        assert goes == Counter({record_id(f"key {n}"): 1 for n in range(50)})
        assert all(isinstance(t.verdict, (Go, Wait)) for t in told)


async def _rising(ledgers: tuple[Ledger, ...]) -> None:
    """Fifty fences in any order, from everywhere; a reader sees high water only rise."""
    fences = random.Random(42).sample(range(1, 10_000), 50)
    over = asyncio.Event()
    seen: list[int] = []

    async def read() -> None:
        while not over.is_set():
            seen.append((await ledgers[0].inspect(INVOICE)).entity.high_water)
            await asyncio.sleep(0)

    async def admitted(number: int, fence: int) -> None:
        told = await ledgers[number % len(ledgers)].admit(call(f"key {fence}", fence), TERMS)
        if not isinstance(told.verdict, (Go, Wait)):
            assert refused(told) is Reason.STALE_FENCE
        water = (await ledgers[-1].inspect(INVOICE)).entity.high_water
        assert water >= fence

    reader = asyncio.create_task(read())
    await asyncio.gather(*(admitted(*each) for each in enumerate(fences)))
    over.set()
    await reader
    assert seen == sorted(seen)
    for ledger in ledgers:
        assert (await ledger.inspect(INVOICE)).entity.high_water == max(fences)


@every_ledger
async def test_high_water_is_the_largest_of_fifty_fences_and_never_falls(
    kind: Kind, tmp_path: Path
) -> None:
    async with one(kind, tmp_path) as ledger:
        await _rising((ledger,))


@shared_ledgers
async def test_high_water_is_one_for_all_ledger_objects(kind: Kind, tmp_path: Path) -> None:
    async with two(kind, tmp_path) as both:
        await _rising(both)


@shared_ledgers
async def test_a_fence_that_another_ledger_object_has_raised_is_never_forgotten(
    kind: Kind, tmp_path: Path
) -> None:
    """Each in turn: what one remembers of the entity is old whenever the other has spoken."""
    async with two(kind, tmp_path) as (ours, theirs):
        for fence in range(10, 100, 10):
            went(await ours.admit(call(f"ours {fence}", fence, entity=INVOICE), TERMS))
            await theirs.announce(INVOICE, fence + 5, None, None)
            late = await ours.admit(call(f"late {fence}", fence + 1), TERMS)
            assert refused(late) is Reason.STALE_FENCE
            open_now = (await theirs.inspect(INVOICE)).open
            for record in open_now:
                await theirs.settle(record.id, record.current.id, ANSWERED)


@shared_ledgers
async def test_an_attempt_is_settled_once_whoever_says_so(kind: Kind, tmp_path: Path) -> None:
    async with two(kind, tmp_path) as (ours, theirs):
        calls = [call(f"key {n}") for n in range(50)]
        await asyncio.gather(*(ours.admit(each, TERMS) for each in calls))
        said = await asyncio.gather(
            *(
                ledger.settle(each.record_id, each.attempt, outcome)
                for each in calls
                for ledger, outcome in ((ours, ANSWERED), (theirs, UNSENT))
            )
        )
        for each, answered, unsent in zip(calls, said[::2], said[1::2], strict=True):
            record = await ours.inspect_key(each.record_id)
            if unsent.verdict == Released(unknown=False):
                assert record is None
                assert not isinstance(answered.verdict, Settled)
            else:
                assert record is not None
                assert answered.verdict == Settled("done")


# --- waiting -------------------------------------------------------------------------------


async def _duplicate(ledger: Ledger, key: str) -> None:
    """Look, wait, look: until the waiting duplicate has its answer."""
    with ledger.watch(record_id(key)) as watch:
        while True:
            told = await ledger.admit(call(key), TERMS)
            if isinstance(told.verdict, Replay):
                return
            assert isinstance(told.verdict, Wait), told
            assert await watch.changed(AT_LAST), "nobody woke the waiter"


async def _quiet(watch: Watch) -> None:
    """A ledger may wake who has just come, to be sure; what is told from here on is news."""
    while await watch.changed(0.05):
        pass


@every_ledger
async def test_two_hundred_waiting_duplicates_are_all_woken(kind: Kind, tmp_path: Path) -> None:
    async with one(kind, tmp_path) as ledger:
        first = call()
        await ledger.admit(first, TERMS)
        waiters = [asyncio.create_task(_duplicate(ledger, first.key)) for _ in range(200)]
        await asyncio.sleep(0)
        await ledger.settle(first.record_id, first.attempt, ANSWERED)
        await asyncio.gather(*waiters)


@shared_ledgers
async def test_a_waiting_duplicate_is_woken_by_another_ledger_objects_settlement(
    kind: Kind, tmp_path: Path
) -> None:
    async with two(kind, tmp_path) as (ours, theirs):
        first = call()
        await theirs.admit(first, TERMS)
        with ours.watch(first.record_id) as watch:
            waiters = [asyncio.create_task(_duplicate(ours, first.key)) for _ in range(200)]
            await _quiet(watch)
            await theirs.settle(first.record_id, first.attempt, ANSWERED)
            await asyncio.gather(*waiters)


async def _nothing_lost(ours: Ledger, theirs: Ledger) -> None:
    """The change comes between the look and the wait, in every round."""
    for number in range(5):
        first = call(f"key {number}")
        await theirs.admit(first, TERMS)
        with ours.watch(first.record_id) as watch:
            await _quiet(watch)
            assert isinstance((await ours.admit(call(first.key), TERMS)).verdict, Wait)
            await theirs.settle(first.record_id, first.attempt, ANSWERED)
            assert await watch.changed(AT_LAST), "the change was lost"
            assert isinstance((await ours.admit(call(first.key), TERMS)).verdict, Replay)


@every_ledger
async def test_a_change_between_the_look_and_the_wait_is_not_lost(
    kind: Kind, tmp_path: Path
) -> None:
    async with one(kind, tmp_path) as ledger:
        await _nothing_lost(ledger, ledger)


@shared_ledgers
async def test_another_ledger_objects_change_between_look_and_wait_is_not_lost(
    kind: Kind, tmp_path: Path
) -> None:
    async with two(kind, tmp_path) as (ours, theirs):
        await _nothing_lost(ours, theirs)


@shared_ledgers
async def test_waiters_that_come_and_go_all_hear_of_their_own_keys(
    kind: Kind, tmp_path: Path
) -> None:
    """Who waits changes all the time, while another ledger object settles."""
    async with two(kind, tmp_path) as (ours, theirs):

        async def waits(number: int) -> None:
            first = call(f"key {number}")
            await theirs.admit(first, TERMS)
            waiter = asyncio.create_task(_duplicate(ours, first.key))
            if number % 2:
                await ours.admit(call(f"another {number}"), TERMS)
            await theirs.settle(first.record_id, first.attempt, ANSWERED)
            await waiter

        await asyncio.gather(*(waits(number) for number in range(60)))


async def _predecessor(ours: Ledger, theirs: Ledger) -> None:
    """A successor waits for the entity, and goes when what was in its way has ended."""
    outcomes: tuple[Outcome, ...] = (ANSWERED, UNSENT, IN_DOUBT)
    for number, outcome in enumerate(outcomes):
        entity = EntityId("", f"entity {number}")
        first = call(f"first {number}", 41, entity=entity)
        second = call(f"second {number}", 42, entity=entity)
        await theirs.admit(first, TERMS)
        with ours.watch(entity) as watch:
            await _quiet(watch)
            waits = (await ours.admit(second, TERMS)).verdict
            assert isinstance(waits, Wait)
            assert waits.on is WaitFor.PREDECESSOR
            await theirs.settle(first.record_id, first.attempt, outcome)
            assert await watch.changed(AT_LAST), f"nobody woke the successor of {outcome}"
            went(await ours.admit(second, TERMS))


@every_ledger
async def test_a_successor_is_woken_when_its_predecessor_ends(kind: Kind, tmp_path: Path) -> None:
    async with one(kind, tmp_path) as ledger:
        await _predecessor(ledger, ledger)


@shared_ledgers
async def test_a_successor_is_woken_when_another_ledger_objects_predecessor_ends(
    kind: Kind, tmp_path: Path
) -> None:
    async with two(kind, tmp_path) as (ours, theirs):
        await _predecessor(ours, theirs)


@every_ledger
async def test_a_wait_ends_without_news_when_its_time_is_over(kind: Kind, tmp_path: Path) -> None:
    async with one(kind, tmp_path) as ledger:
        first = call()
        await ledger.admit(first, TERMS)
        with ledger.watch(first.record_id) as watch:
            for _ in range(5):
                if not await watch.changed(0.05):
                    break
            else:
                pytest.fail("told of changes although nothing changed")


# --- bugs ----------------------------------------------------------------------------------


@every_ledger
async def test_a_step_that_cannot_be_done_does_not_fail_its_neighbours(
    kind: Kind, tmp_path: Path
) -> None:
    async with one(kind, tmp_path) as ledger:
        calls = [call(f"key {n}", prints=()) if n == 30 else call(f"key {n}") for n in range(60)]
        told = await asyncio.gather(
            *(ledger.admit(each, TERMS) for each in calls), return_exceptions=True
        )
        assert isinstance(told[30], IndexError)
        assert all(not isinstance(each, BaseException) for n, each in enumerate(told) if n != 30)
        records = [await ledger.inspect_key(each.record_id) for each in calls]
        assert [n for n, record in enumerate(records) if record is None] == [30]
