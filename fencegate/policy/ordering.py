"""Routes in their order: what an earlier one takes, a later one never sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fencegate.policy.codes import Code
from fencegate.policy.documents import Problem
from fencegate.policy.levels import Levels
from fencegate.policy.paths import Pattern
from fencegate.policy.routes import Guard, Route


@dataclass(frozen=True, slots=True)
class Placed:
    """The routes that one match became, and where it stands."""

    levels: Levels
    routes: tuple[Route, ...]


def shadowed(placed: Sequence[Placed]) -> Iterator[Problem]:
    """The matches of one file of which no request, or no guarded one, reaches them."""
    earlier = Earlier()
    for one in placed:
        found = [(route, earlier.covering(route.pattern)) for route in one.routes]
        covered = [(route, first) for route, first in found if first is not None]
        guarded = [(route, first) for route, first in covered if route.guard is not Guard.NONE]
        if guarded or len(covered) == len(found):
            _, first = (guarded or covered)[0]
            yield _shadow(one.levels, first.levels)
        for route in one.routes:
            earlier.add(route.pattern, one)


def _shadow(levels: Levels, first: Levels) -> Problem:
    place = first.file.document.value_place(("routes", first.number, "match"))
    wrong = (
        f"`{levels.section.match.text}` is never reached: `{first.section.match.text}` in line"
        f" {place.line} takes all of its calls"
    )
    example = "put the special route before the general one"
    return levels.problem("match", wrong, example=example, code=Code.SHADOWED)


class Earlier:
    """Patterns in their order, found by their first segment."""

    def __init__(self) -> None:
        self._by_first: dict[object, list[tuple[Pattern, Placed]]] = {}

    def add(self, pattern: Pattern, placed: Placed) -> None:
        self._by_first.setdefault(_first(pattern), []).append((pattern, placed))

    def covering(self, pattern: Pattern) -> Placed | None:
        """The first of which every request of the pattern is one."""
        found = (
            next(
                (placed for other, placed in self._by_first.get(key, ()) if other.covers(pattern)),
                None,
            )
            for key in {_first(pattern), None}
        )
        return min(filter(None, found), key=lambda placed: placed.levels.number, default=None)


def _first(pattern: Pattern) -> str | None:
    """The first segment, None where it may be any."""
    first = pattern.parts[0] if pattern.parts else None
    return first if isinstance(first, str) else None
