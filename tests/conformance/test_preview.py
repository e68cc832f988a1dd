"""A preview says what an admission would say, and leaves everything as it was."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pytest

from fencegate.core.model import (
    DAY,
    SECOND,
    Call,
    Go,
    Held,
    Instant,
    Micros,
    OneEffectPer,
    Refuse,
    Terms,
    Wait,
)
from fencegate.core.reasons import Reason
from fencegate.ledger.protocol import JournalRow, Ledger
from tests.conformance import domain
from tests.conformance.calls import (
    HOLD,
    IN_DOUBT,
    INVOICE,
    RESEND,
    TERMS,
    call,
    went,
)
from tests.conformance.domain import Case
from tests.conformance.ledgers import FakeClock, Kind, every_ledger, opened, shared_ledgers
from tests.conformance.recipes import Scene, Step

T = TypeVar("T")

CASES = (domain.rows, domain.orders, domain.intents)
AT_ONCE = 1_000
LONGER_THAN_ANY_STORY = 1_000 * DAY
BEFORE_ALL: Instant = 0


@every_ledger
@pytest.mark.parametrize("cases", CASES, ids=[cases.__name__ for cases in CASES])
async def test_a_preview_changes_nothing_and_an_admission_right_after_says_the_same(
    kind: Kind, cases: Callable[[], Iterator[Case]], tmp_path: Path
) -> None:
    """In every case of the sweep in which a call is admitted."""
    async with opened(kind, tmp_path) as (ledger, clock):
        stories = cases()
        while some := list(islice(stories, AT_ONCE)):
            clock.move(LONGER_THAN_ANY_STORY)
            await _lead_up([case.scene for case in some], ledger, clock)
            before = await _as_written(some, ledger, clock)
            previews = await _asked(some, ledger.preview)
            assert await _as_written(some, ledger, clock) == before
            for case, preview, told in zip(
                some, previews, await _asked(some, ledger.admit), strict=True
            ):
                assert preview == told.verdict, case.about


async def _lead_up(scenes: list[Scene], ledger: Ledger, clock: FakeClock) -> None:
    """All that comes before the question."""
    end = clock.now
    steps: dict[Micros, dict[Scene, list[Step]]] = defaultdict(lambda: defaultdict(list))
    for scene in scenes:
        for ago, step in scene.steps:
            steps[ago][scene].append(step)
    for ago in sorted(steps.keys() - {0}, reverse=True):
        clock.now = end - ago
        await asyncio.gather(*(_all(some, ledger) for some in steps[ago].values()))
    clock.now = end


async def _all(steps: list[Step], ledger: Ledger) -> None:
    for step in steps:
        await step(ledger)


async def _asked(cases: list[Case], verb: Callable[[Call, Terms], Awaitable[T]]) -> list[T]:
    questions = [case.scene.question for case in cases]
    return await asyncio.gather(*(verb(*question) for question in questions if question))


async def _as_written(cases: list[Case], ledger: Ledger, clock: FakeClock) -> list[object]:
    """What is written down: seen from a time at which nothing has lapsed yet."""
    now, clock.now = clock.now, BEFORE_ALL
    scenes = [case.scene for case in cases]
    views = await asyncio.gather(*(ledger.inspect(scene.entity) for scene in scenes))
    keys = [key for scene in scenes for key in scene.keys]
    records = await asyncio.gather(*map(ledger.inspect_key, keys))
    clock.now = now
    return [views, records, await _journal(ledger), len(await ledger.audit(limit=10_000))]


async def _journal(ledger: Ledger) -> list[JournalRow]:
    rows: list[JournalRow] = []
    while page := await ledger.journal(after=rows[-1].number if rows else 0, limit=1_000):
        rows.extend(page)
    return rows


@every_ledger
async def test_a_preview_is_no_admission_however_often_it_is_asked(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        first = call(fence=42)
        for _ in range(3):
            assert isinstance(await ledger.preview(first, TERMS), Go)
        assert await ledger.inspect_key(first.record_id) is None
        went(await ledger.admit(call("lower", 41), TERMS))
        assert isinstance(await ledger.preview(first, TERMS), Wait)
        assert (await ledger.inspect(INVOICE)).entity.high_water == 41


@every_ledger
async def test_what_a_preview_found_lapsed_is_revived_when_the_clock_goes_back(
    kind: Kind, tmp_path: Path
) -> None:
    """An admission writes it down; a preview must not."""
    async with opened(kind, tmp_path) as (ledger, clock):
        lower, higher = call("lower", 41), call("higher", 42)
        went(await ledger.admit(lower, TERMS))
        clock.move(HOLD)
        assert isinstance(await ledger.preview(higher, TERMS), Go)
        clock.move(-HOLD)
        assert await ledger.renew([(lower.record_id, lower.attempt)]) == [Held(HOLD)]


@every_ledger
async def test_a_preview_leaves_no_instant_behind(kind: Kind, tmp_path: Path) -> None:
    """A ledger whose clock has gone back resends nothing; it has not, if nothing was recorded."""
    async with opened(kind, tmp_path) as (ledger, clock):
        first = call()
        went(await ledger.admit(first, RESEND))
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        clock.move(DAY)
        assert isinstance(await ledger.preview(call(), RESEND), Go)
        clock.move(-DAY)
        went(await ledger.admit(call(), RESEND))


@every_ledger
async def test_a_preview_knows_that_the_clock_has_gone_back(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        first = call()
        went(await ledger.admit(first, RESEND))
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        clock.move(-RESEND.timeout - 1)
        preview = await ledger.preview(call(), RESEND)
        assert isinstance(preview, Refuse)
        assert preview.reason is Reason.OUTCOME_UNKNOWN
        assert (await ledger.admit(call(), RESEND)).verdict == preview


@every_ledger
async def test_a_preview_takes_what_has_lapsed_and_gone_out_of_the_index(
    kind: Kind, tmp_path: Path
) -> None:
    """The index names a key whose record was open and is forgotten by now, and nobody has yet
    written that down: an admission does, and then resends its own."""
    intent = replace(RESEND, one_effect_per=OneEffectPer.INTENT)
    brief = replace(TERMS, tombstone=SECOND)
    async with opened(kind, tmp_path) as (ledger, clock):
        mine, named = call("mine", 41), call("named", 41)
        went(await ledger.admit(mine, TERMS))
        await ledger.settle(mine.record_id, mine.attempt, IN_DOUBT)
        went(await ledger.admit(named, brief))
        await ledger.announce(INVOICE, 42, None, None)
        assert isinstance((await ledger.admit(call("named", 42), intent)).verdict, Wait)
        again = call("mine", 42)
        preview = await ledger.preview(again, intent)
        assert isinstance(preview, Refuse)
        assert preview.reason is Reason.OUTCOME_UNKNOWN

        clock.move(HOLD + 2 * SECOND)
        preview = await ledger.preview(again, intent)
        assert isinstance(preview, Go)
        assert (await ledger.admit(again, intent)).verdict == preview


@shared_ledgers
async def test_a_preview_sees_what_another_gateway_has_recorded(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ours, clock):
        theirs = await kind.open(clock, tmp_path)
        went(await theirs.admit(call(fence=42), TERMS))
        preview = await ours.preview(call("zombie", 41), TERMS)
        assert isinstance(preview, Refuse)
        assert preview.reason is Reason.STALE_FENCE
        assert isinstance(await ours.preview(call(fence=42), TERMS), Wait)
        assert await ours.journal() == ()
        await theirs.close()
