"""Every ledger does what the pure law says, in every case of a small domain.

Each case is reached through the ledger's verbs by a short recipe and ends in one more question.
What the ledger answered on the way, what it decides, what it leaves behind and what it put in the
journal are compared with the law applied to the same story, step by step (`oracle`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from fencegate.core.model import DAY, SECOND, EntityId, Micros
from fencegate.ledger.protocol import JournalRow, Ledger
from tests.conformance import domain
from tests.conformance.domain import Case
from tests.conformance.ledgers import FakeClock, Kind, every_ledger
from tests.conformance.oracle import Oracle
from tests.conformance.recipes import Scene, Step, Verbs

CASES = {
    domain.rows: 2_037,
    domain.orders: 2_726,
    domain.intents: 720,
    domain.settlements: 960,
    domain.renewals: 120,
    domain.resolutions: 480,
}

AT_ONCE = 1_000
LONGER_THAN_ANY_STORY = 1_000 * DAY


@every_ledger
@pytest.mark.parametrize("cases", CASES, ids=[cases.__name__ for cases in CASES])
async def test_every_case_ends_as_the_law_says(
    kind: Kind, cases: Callable[[], Iterator[Case]], tmp_path: Path
) -> None:
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    oracle = Oracle(clock)
    played, stories = 0, cases()
    while some := list(islice(stories, AT_ONCE)):
        clock.move(LONGER_THAN_ANY_STORY)
        await _play(some, ledger, oracle, clock)
        played += len(some)
    await _compare_journals(ledger, oracle)
    await ledger.close()
    print(f"{played} cases")
    assert played == CASES[cases]


async def _play(cases: list[Case], ledger: Ledger, oracle: Oracle, clock: FakeClock) -> None:
    """All stories at once, each in its own order; the clock moves for all of them together."""
    end = clock.now
    steps: dict[Micros, dict[Case, list[Step]]] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        for ago, step in case.scene.steps:
            steps[ago][case].append(step)
    for ago in sorted(steps, reverse=True):
        clock.now = end - ago
        answers = await asyncio.gather(*(_all(some, ledger) for some in steps[ago].values()))
        for (case, some), heard in zip(steps[ago].items(), answers, strict=True):
            assert heard == await _all(some, oracle), f"{case.about}; {ago / SECOND} s ago"
    assert clock.now == end
    looks = await asyncio.gather(*(_look(case.scene, ledger) for case in cases))
    for case, seen in zip(cases, looks, strict=True):
        assert seen == await _look(case.scene, oracle), case.about


async def _all(steps: list[Step], ledger: Verbs) -> list[object]:
    return [await step(ledger) for step in steps]


async def _look(scene: Scene, ledger: Verbs) -> list[object]:
    """What is left behind: the entity, and the records of all keys and callers of the scene."""
    entity = await ledger.inspect(scene.entity)
    return [entity, *[await ledger.inspect_key(key) for key in scene.keys]]


async def _compare_journals(ledger: Ledger, oracle: Oracle) -> None:
    """The same rows, and those of one entity in the same order."""
    rows: list[JournalRow] = []
    while page := await ledger.journal(after=rows[-1].number if rows else 0, limit=1_000):
        rows.extend(page)
    assert len(rows) == len(oracle.journal)
    assert _by_entity(rows) == _by_entity(oracle.journal)


def _by_entity(rows: list[JournalRow]) -> dict[EntityId, list[JournalRow]]:
    found: dict[EntityId, list[JournalRow]] = defaultdict(list)
    for row in rows:
        found[row.entity].append(replace(row, number=0))
    return found
