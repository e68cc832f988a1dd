"""Which route takes a path: all patterns in one tree, so that the number of routes costs nothing.

Of several routes that match, the one that stands first wins; the tree is walked along literals,
captures and rests, and no further than a better route could be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fencegate.policy.paths import Path, Pattern


@dataclass(slots=True)
class _Node:
    """What follows a prefix. `first` is the lowest number of a pattern at or below it; `here` and
    `rest` hold those that end at it, or take whatever follows, lowest number first."""

    first: int
    literals: dict[str, _Node] = field(default_factory=dict)
    capture: _Node | None = None
    here: list[tuple[int, Pattern]] = field(default_factory=list)
    rest: list[tuple[int, Pattern]] = field(default_factory=list)

    def next(self, part: object, number: int) -> _Node:
        if isinstance(part, str):
            return self.literals.setdefault(part, _Node(number))
        self.capture = self.capture or _Node(number)
        return self.capture


class Matching:
    """Patterns in the order in which they win."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._root = _Node(0)
        self._none = len(patterns)
        for number, pattern in enumerate(patterns):
            node = self._root
            for part in pattern.parts:
                node = node.next(part, number)
            (node.rest if pattern.rest else node.here).append((number, pattern))

    def find(self, method: str, path: Path) -> int | None:
        """The number of the first pattern that takes the request."""
        best = self._walk(self._root, method, path.texts, 0, self._none)
        return None if best == self._none else best

    def _walk(self, node: _Node, method: str, texts: tuple[str, ...], depth: int, best: int) -> int:
        """The lowest number below `best` that takes the texts from `depth` on, or `best`."""
        if depth == len(texts):
            return _first(node.here, method, best)
        best = _first(node.rest, method, best)
        text = texts[depth]
        for child in (node.literals.get(text), node.capture if text else None):
            if child is not None and child.first < best:
                best = self._walk(child, method, texts, depth + 1, best)
        return best


def _first(ends: list[tuple[int, Pattern]], method: str, best: int) -> int:
    for number, pattern in ends:
        if number >= best:
            return best
        if pattern.takes(method):
            return number
    return best
