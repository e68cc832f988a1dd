"""Code frames: the line that a problem is about, and a caret under the place.

A file may come from anyone: what could drive a terminal is shown as `?`. Columns count
characters, so the caret stands right where a character is as wide as a column.
"""

from __future__ import annotations

import re
from textwrap import wrap

from fencegate.policy.masking import Span, secrets_in

WIDTH = 120  # of the line shown; more than this is cut around the caret
_BEFORE = 60  # of what stays before the caret of a line that is cut
# As YAML counts lines; `str.splitlines` knows more ends than YAML does.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_MASK = "***"


class Source:
    """The lines of a file, and what may be shown of them. Its repr shows none."""

    def __init__(self, text: str = "") -> None:
        self.lines = tuple(_LINE_END.split(text)) if text else ()
        self._secrets: list[list[Span]] | None = None

    def __repr__(self) -> str:
        return f"Source({len(self.lines)} lines)"

    def holds(self, line: int) -> bool:
        """Whether there is such a line; they count from 1."""
        return 1 <= line <= len(self.lines)

    def shown(self, line: int, column: int) -> tuple[str | None, int]:
        """A line without its secrets (None if there is no such line), and where the column is in
        it; both count from 1."""
        if not self.holds(line):
            return None, column
        if self._secrets is None:  # most files are right, and nobody asks
            self._secrets = secrets_in(self.lines)
        return _masked(self.lines[line - 1], self._secrets[line - 1], column)


def frame(line: str, number: int, column: int, hint: str) -> list[str]:
    """The line under its number, and under that the caret with its hint."""
    text, column = _cut(visible(line).rstrip(), column)
    first, *more = wrap(hint, max(WIDTH - column, WIDTH // 2)) or [""]
    under = [f"{' ' * (column - 1)}^ {first}", *(" " * (column + 1) + part for part in more)]
    return [f"{number:6} | {text}".rstrip(), *(f"       | {part}".rstrip() for part in under)]


def visible(text: str) -> str:
    """The text as one line that a terminal only shows."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in text)


def _cut(text: str, column: int) -> tuple[str, int]:
    if len(text) <= WIDTH:
        return text, column
    start = min(max(0, column - 1 - _BEFORE), max(len(text), column) - WIDTH)
    shown = text[start : start + WIDTH]
    before, after = start > 0, start + WIDTH < len(text)
    shown = "…" * before + shown[before : WIDTH - after] + "…" * after
    return shown, column - start


def _masked(line: str, spans: list[Span], column: int) -> tuple[str, int]:
    """What follows a secret moves, since `***` does not tell how long it was; so does its
    place."""
    shown, at, moved = "", 0, column
    for start, end in spans:
        shown += line[at:start] + _MASK
        at = end
        if column > end:
            moved += len(_MASK) - (end - start)
        elif column > start + 1:
            moved = len(shown) - len(_MASK) + 1
    return shown + line[at:], moved
