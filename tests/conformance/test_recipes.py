"""The recipes lead where their names say, by the law alone."""

from __future__ import annotations

import pytest

from fencegate.core.model import word_of
from tests.conformance.ledgers import FakeClock
from tests.conformance.oracle import Oracle
from tests.conformance.recipes import NEIGHBOURS, STATES, Recipe, Scene

REACHED = {
    "none": "none",
    "sending": "sending",
    "sending, renewed": "sending",
    "sending, hold out": "unknown",
    "sending, hold and tombstone out": "expired",
    "sending again": "sending",
    "sending again, hold out": "unknown",
    "sending after a disowned one": "sending",
    "listening": "listening",
    "listening, hold out": "unknown",
    "done": "done",
    "done again": "done",
    "done, retention over": "expired",
    "done, not kept": "done",
    "done, never seen": "done",
    "done, as an operator says": "done",
    "done, as the disowned one says": "done",
    "unknown": "unknown",
    "unknown again": "unknown",
    "unknown again, below the limit": "unknown",
    "unknown again, at the limit": "unknown",
    "unknown again, earlier connected": "unknown",
    "unknown, a later one undone": "unknown",
    "unknown after a disowned one": "unknown",
    "expired": "expired",
    "expired, tombstone over": "none",
    "free, not sent": "none",
    "free, refused before work": "none",
    "free, called not applied": "free",
    "free, probed": "free",
}
BESIDE = {
    "none": "none",
    "open": "sending",
    "listening": "listening",
    "unknown": "unknown",
    "open, hold out": "unknown",
    "open, long forgotten": "expired",
    "streaming, not for long": "sending",
    "streaming, too long": "sending",
    "streaming, too long, and open": "sending",
    "done": "done",
    "open, under the next fence": "sending",
    "unknown, and two open": "unknown",
}


async def played(recipe: Recipe) -> tuple[Scene, Oracle]:
    clock = FakeClock()
    scene, oracle, end = Scene("scene", 41), Oracle(clock), clock.now
    recipe(scene)
    for ago, step in sorted(scene.steps, key=lambda step: -step[0]):
        clock.now = end - ago
        await step(oracle)
    clock.now = end
    return scene, oracle


async def word(scene: Scene, oracle: Oracle, key: str) -> str:
    record = await oracle.inspect_key(scene.key(key))
    return "none" if record is None else word_of(record.state)


def test_every_recipe_is_checked() -> None:
    assert [*REACHED, *BESIDE] == [*STATES, *NEIGHBOURS]


@pytest.mark.parametrize("state", STATES)
async def test_a_recipe_reaches_the_state_that_it_is_named_for(state: str) -> None:
    scene, oracle = await played(STATES[state])
    assert await word(scene, oracle, "key") == REACHED[state]
    record = await oracle.inspect_key(scene.key())
    if record is not None and record.attempts:
        assert record.current.id == scene.current
        assert (len(record.attempts) > 1) == ("again" in state)
        assert bool(record.disowned) == ("after a disowned one" in state)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
async def test_a_neighbour_is_what_it_is_named_for(neighbours: str) -> None:
    scene, oracle = await played(NEIGHBOURS[neighbours])
    assert await word(scene, oracle, "other key") == BESIDE[neighbours]
