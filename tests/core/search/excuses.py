"""What has happened between calls that the invariants must remember.

An exception often rests on how things stood earlier: when a call was admitted, when a refusal was
given, when an operator spoke. It is judged then, and kept in the lanes that it concerns.
"""

from __future__ import annotations

from fencegate.core.aging import aged_record
from fencegate.core.model import (
    Done,
    Expired,
    Freed,
    Go,
    NoteKind,
    Open,
    Predecessor,
    Record,
    Unknown,
)
from fencegate.core.resolution import Resolved
from tests.core.search.lane import Lane
from tests.core.search.store import Step
from tests.core.search.way import Ways, space_of


def admits(step: Step | None) -> bool:
    """An attempt was recorded: it goes, whether the gateway hears it or not."""
    if step is None or not isinstance(step.verdict, Go):
        return False
    record = step.before.record(step.record)
    return record is None or not record.holds(step.verdict.attempt)


def may_overtake(ways: Ways, lanes: list[Lane], index: int, step: Step, time: int) -> int:
    """Which lower calls this one may overlap, as things stood when it was admitted: a set of
    indices, one bit for each (I2)."""
    return sum(
        1 << other
        for other, lane in enumerate(lanes)
        if other != index and _excused(ways, index, other, lane, step, time)
    )


def _excused(ways: Ways, index: int, other: int, lane: Lane, step: Step, time: int) -> bool:
    if ways.spaces[other] == ways.spaces[index]:
        return True  # an earlier attempt under its own key: I1 speaks of it
    record = aged_record(step.before.record(ways.home(other, lane)), step.at)
    if record is None or isinstance(record.state, Freed):
        return lane.let_go
    if record.current.id != ways.attempt(other, lane):
        return _taken_over(record, ways.calls[index].fence)
    noted = any(note.kind is NoteKind.OVERTOOK_UNKNOWN for note in step.notes)
    match record.state:
        case Unknown():
            return noted
        case Open():
            streaming = 0 < lane.yields_at <= time
            return streaming or (noted and ways.scenario.terms.predecessor is not _REFUSE)
        case _:
            return True  # closed by an operator, or a tombstone


def _taken_over(record: Record, fence: int) -> bool:
    """A later attempt under its key has closed the record, or holds it under a fence that is
    not lower: then what the lower attempt does is done for that one."""
    return isinstance(record.state, (Done, Expired)) or record.fence >= fence


def promised(ways: Ways, lanes: list[Lane], index: int) -> list[Lane]:
    """`sent: false` was said: what is on its way under this key must not be written (I7)."""
    return [
        lane._replace(promised=True)
        if lane.on_its_way and ways.spaces[other] == ways.spaces[index]
        else lane
        for other, lane in enumerate(lanes)
    ]


def frees(step: Step | None) -> bool:
    """A probe or an operator has called attempts not applied."""
    if step is None or step.verb != "resolve":
        return False
    return isinstance(step.verdict, Resolved) and step.verdict.state in ("free", "unknown")


def let_go(ways: Ways, lanes: list[Lane], step: Step) -> list[Lane]:
    """Attempts that were called not applied count as not sent (I2, I7)."""
    assert step.record is not None
    space = space_of(step.record)
    return [
        lane._replace(let_go=True)
        if ways.spaces[other] == space and lane.wire != "unwritten"
        else lane
        for other, lane in enumerate(lanes)
    ]


_REFUSE = Predecessor.REFUSE
