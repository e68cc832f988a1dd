"""A problem: what is wrong in a file, where, and what would be right; as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fencegate.policy.codes import CODES, Code, Severity
from fencegate.policy.frames import frame, visible


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands in a file; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong, where, and what would be right; `hint` says what may have been meant.

    `line` is the line of the file without its secrets, and `caret` the column in it, which is
    another than the place's where a secret stands before it. `Document.problem` fills both in.
    """

    place: Place
    wrong: str
    example: str
    code: Code = Code.WRONG_VALUE
    hint: str = ""
    line: str | None = field(default=None, compare=False, repr=False)
    caret: int = field(default=1, compare=False, repr=False)

    def __str__(self) -> str:
        return render(self)

    @property
    def severity(self) -> Severity:
        return CODES[self.code].severity


class PolicyError(Exception):
    """Every problem of every policy file, in the order in which they stand."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n\n".join(map(str, self.problems)))


def render(problem: Problem) -> str:
    """The problem as people read it: its place, what is wrong, the line, the advice.

    No character of a file can do more than be shown, and no secret of it is.
    """
    return "\n".join(_lines(problem))


def as_json(problem: Problem) -> dict[str, str | int]:
    """The problem as programs read it."""
    return {
        "file": problem.place.file,
        "line": problem.place.line,
        "column": problem.place.column,
        "code": problem.code.value,
        "severity": problem.severity.value,
        "message": problem.wrong,
        "hint": problem.hint,
        "example": problem.example,
    }


def _lines(problem: Problem) -> Iterator[str]:
    warning = "warning: " if problem.severity is Severity.WARNING else ""
    hint = visible(problem.hint)
    yield visible(f"{problem.place}: {warning}{problem.wrong} [{problem.code}]")
    if problem.line is not None:
        yield from frame(problem.line, problem.place.line, problem.caret, hint)
    elif hint:
        yield f"       = {hint}"
    if not problem.example:
        return
    first, *more = map(visible, problem.example.split("\n"))
    if more:
        yield "       = for example:"
        yield from (f"         {line}".rstrip() for line in (first, *more))
    else:
        yield f"       = for example: {first}"
