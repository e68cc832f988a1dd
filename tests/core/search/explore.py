"""Breadth first through every reachable world, checking each move on the way.

Parents are kept, so that what breaks an invariant is shown with the shortest way to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time

from tests.core.search import invariants
from tests.core.search.scenarios import Bounds, Scenario
from tests.core.search.store import Step
from tests.core.search.world import Model, Move, World

Parents = dict[World, tuple[World, str] | None]


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant by name, what is wrong, and the steps that lead to it."""

    invariant: str
    wrong: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """How far a search came. `violation` is None where everything was explored."""

    scenario: Scenario
    states: int
    moves: int
    seconds: float
    violation: Violation | None


def explore(scenario: Scenario, bounds: Bounds) -> Found:
    """Search a scenario to its bounds, or to the first violation."""
    began, search = process_time(), _Search(Model(scenario, bounds))
    violation = search.run()
    seconds = process_time() - began
    return Found(scenario, len(search.parents), search.moves, seconds, violation)


class _Search:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.parents: Parents = {model.start(): None}
        self.moves = 0
        self._checked: set[Step] = set()

    def run(self) -> Violation | None:
        ring = list(self.parents)
        while ring:
            following: list[World] = []
            for world in ring:
                moves = self.model.moves(world)
                self.moves += len(moves)
                for invariant, wrong, said in self._broken(world, moves):
                    return Violation(invariant, wrong, (*self._way_to(world), *said))
                for move in moves:
                    if move.after not in self.parents:
                        self.parents[move.after] = (world, move.says)
                        following.append(move.after)
            ring = following
        return None

    def _broken(
        self, world: World, moves: list[Move]
    ) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        for move in moves:
            for check in self._checks(move):
                if wrong := check(self.model, world, move):
                    yield check.__name__, wrong, (move.says,)
            if move.step is not None and move.step not in self._checked:
                self._checked.add(move.step)
                for of_step in invariants.OF_STEPS:
                    if wrong := of_step(self.model, move.step):
                        yield of_step.__name__, wrong, (move.says,)
        if not moves:
            for of_end in invariants.OF_DEAD_ENDS:
                if wrong := of_end(self.model, world):
                    yield of_end.__name__, wrong, ()

    def _checks(self, move: Move) -> tuple[invariants.Check, ...]:
        of_replies = invariants.OF_REPLIES if move.reply is not None else ()
        match move.did:
            case "byte":
                return invariants.OF_FIRST_BYTES
            case "effect":
                return invariants.OF_EFFECTS
            case "end":
                return of_replies + invariants.OF_ENDS
            case _:
                return of_replies

    def _way_to(self, world: World) -> list[str]:
        steps: list[str] = []
        while (parent := self.parents[world]) is not None:
            world, says = parent
            steps.append(says)
        return steps[::-1]
