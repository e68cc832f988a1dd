"""Where one call is, and one step of it as a value.

A lane holds what a gateway knows of a call, what the upstream has made of it, what is left of it
in spools and on the wire, and what the invariants must remember.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from fencegate.core.model import Asked, AttemptId, RecordId, WaitFor
from fencegate.core.outcomes import Answer, Outcome
from fencegate.core.reasons import Reason
from tests.core.search.store import FOR_EVER, Ledger, Step

Phase = Literal[
    "idle",
    "asking",
    "unclear",
    "waiting",
    "probing",
    "heard",
    "admitted",
    "cleared",
    "sent",
    "listening",
    "settling",
    "over",
    "dead",
]
Wire = Literal["unwritten", "pending", "copy", "performed", "refused", "void"]
Did = Literal["step", "byte", "effect", "end", "time"]
Cost = Literal["troubles", "crashes", "lost_acks", "ledger_cuts", "acts", "clock_steps"]


class Spooled(NamedTuple):
    """An outcome on disk. What finds nothing to undo is written once more, `again`, when `due`."""

    outcome: Outcome
    due: int = 0
    again: bool = False


class Lane(NamedTuple):
    """Where one call is: in its gateway, at the upstream, and what is left behind.

    A call writes to the upstream at most once. `sure_until`: its local hold, 0 once it is bad.
    The last five are what the invariants must remember.
    """

    phase: Phase = "idle"
    number: int = 1
    asked: Asked = Asked()
    on: WaitFor | None = None
    sure_until: int = 0
    window_until: int = FOR_EVER
    earlier: bool = False
    home: RecordId | None = None
    probing: AttemptId | None = None
    applied: bool = False
    read_at: int = 0
    outcome: Outcome | None = None
    answered: bool = False
    wire: Wire = "unwritten"
    arrived: int = 0
    copy_of: int = -1
    spool: Spooled | None = None
    late: tuple[int, Asked] | None = None
    yields_at: int = 0
    stopped: bool = False
    promised: bool = False
    let_go: bool = False
    may_overtake: int = 0

    @property
    def connected(self) -> bool:
        return self.phase in ("sent", "listening")

    @property
    def on_its_way(self) -> bool:
        """Its first byte may still leave."""
        return self.phase in ("admitted", "cleared")

    @property
    def in_the_air(self) -> bool:
        """It is at the upstream, or may still have its effect there."""
        return self.connected or self.wire == "pending"


class Reply(NamedTuple):
    """What a caller is told: an answer of the upstream, or a refusal with its reason."""

    answer: Answer | None = None
    replayed: bool = False
    reason: Reason | None = None
    sent: bool | None = None


class Stride(NamedTuple):
    """One step of one call, and what it leaves. `cost` is the chance that it takes."""

    says: str
    lane: Lane
    ledger: Ledger
    step: Step | None = None
    reply: Reply | None = None
    did: Did = "step"
    cost: Cost | None = None


# --- how lanes change ----------------------------------------------------------------------


def over(lane: Lane) -> Lane:
    """The call has ended; only what may still matter to others is kept."""
    return Lane(
        phase="over",
        number=lane.number,
        wire=lane.wire,
        arrived=lane.arrived,
        copy_of=lane.copy_of,
        late=lane.late,
        stopped=lane.stopped,
        let_go=lane.let_go,
        home=lane.home if lane.wire == "pending" else None,
    )


def crashed(lane: Lane) -> Lane:
    """Its process is gone, and all it knew."""
    return over(lane)._replace(phase="dead", home=lane.home)


def settling(lane: Lane, outcome: Outcome) -> Lane:
    return lane._replace(
        phase="settling",
        outcome=outcome,
        sure_until=0,
        window_until=FOR_EVER,
        yields_at=0,
        may_overtake=0,
    )
