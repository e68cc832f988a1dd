"""What operators and probes may say about a record, and what operators may do to an entity.

An unknown record ends by a verdict: applied, not applied, or abandoned. A verdict that something
did *not* happen is taken only when no gateway can still be connected to the attempt it speaks of.
Nothing lowers high water but a reset, on a frozen entity with nothing open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencegate.core.admission import too_far
from fencegate.core.aging import aged
from fencegate.core.model import (
    AttemptId,
    Disowned,
    Done,
    Expired,
    FenceLead,
    Freed,
    Instant,
    Micros,
    Record,
    Ruling,
    Snapshot,
    Unknown,
)
from fencegate.core.outcomes import Answer, Unkept
from fencegate.core.reasons import Reason

# --- verdicts on an unknown record ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect happened. With an answer it is replayed from now on."""

    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class NotApplied:
    """An operator says that no attempt under this key had its effect."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Nobody will ever know: the key becomes a tombstone."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What the upstream said about one attempt, asked when that attempt was the unknown one.

    `after`: how long after the attempt's end (or its unknown) a "no" may be believed. `ago`: how
    long ago the upstream was asked; a "no" speaks of then, not of now.
    """

    attempt: AttemptId
    applied: bool
    after: Micros
    ago: Micros = 0


VerdictOn = Applied | NotApplied | Abandoned | Probed


@dataclass(frozen=True, slots=True)
class Resolved:
    """The record is `state` now."""

    state: str


@dataclass(frozen=True, slots=True)
class NotResolved:
    """Nothing was changed: not unknown (any more), still listening, or too early."""

    reason: Reason


Resolution = Resolved | NotResolved


def resolve(seen: Snapshot, verdict: VerdictOn, now: Instant) -> Ruling[Resolution]:
    """End an unknown record by an operator's or a probe's verdict."""
    seen = aged(seen, now)
    record = seen.record
    if record is None or not isinstance(record.state, Unknown):
        return Ruling(NotResolved(Reason.NOT_UNKNOWN), seen)
    match verdict:
        case Applied(answer=answer):
            return _done(seen, record, answer or Unkept(), now)
        case NotApplied():
            if any(a.ended_at is None for a in record.attempts):
                return Ruling(NotResolved(Reason.STILL_LISTENING), seen)
            return _disowned(seen, record, kept=0, now=now)
        case Abandoned():
            expired = replace(record, state=Expired(now))
            return Ruling(Resolved("expired"), seen.with_record(expired))
        case Probed(attempt=attempt) if attempt != record.current.id:
            return Ruling(NotResolved(Reason.NOT_UNKNOWN), seen)
        case Probed(applied=True):
            return _done(seen, record, Unkept(), now)
        case Probed(after=after, ago=ago):
            if not _believable(record, after, now - ago):
                return Ruling(NotResolved(Reason.STILL_LISTENING), seen)
            return _disowned(seen, record, kept=len(record.attempts) - 1, now=now)


def _believable(record: Record, after: Micros, now: Instant) -> bool:
    """A probe's "no" holds only when nobody is connected any more and time has passed."""
    ended, since = record.current.ended_at, record.current.doubtful_since
    return ended is not None and since is not None and now >= max(ended, since) + after


def _done(
    seen: Snapshot, record: Record, answer: Answer | Unkept, now: Instant
) -> Ruling[Resolution]:
    done = replace(record, state=Done(answer, now + record.retention))
    return Ruling(Resolved("done"), seen.with_record(done))


def _disowned(seen: Snapshot, record: Record, *, kept: int, now: Instant) -> Ruling[Resolution]:
    """Free all attempts but the first `kept`; their ids are known for `tombstone` more."""
    until = now + record.tombstone
    disowned = tuple(Disowned(a, until) for a in record.attempts[kept:])
    left = replace(
        record,
        attempts=record.attempts[:kept],
        state=Unknown() if kept else Freed(),
        disowned=(*record.disowned, *disowned),
    )
    return Ruling(Resolved("unknown" if kept else "free"), seen.with_record(left))


# --- acts on an entity ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Announced:
    """High water is at least the announced fence now; `raised` if it rose by this."""

    high_water: int
    raised: bool


@dataclass(frozen=True, slots=True)
class NotAnnounced:
    reason: Reason
    high_water: int


Announcement = Announced | NotAnnounced


def announce(
    seen: Snapshot, fence: int, holder: str | None, lead: FenceLead | None, now: Instant
) -> Ruling[Announcement]:
    """Raise high water before the holder's first call. Works on a frozen entity."""
    water = seen.entity.high_water
    if too_far(fence, water, lead, now):
        return Ruling(NotAnnounced(Reason.FENCE_TOO_FAR, water), seen)
    if fence < water:
        return Ruling(NotAnnounced(Reason.STALE_FENCE, water), seen)
    if fence == water:
        return Ruling(Announced(water, raised=False), seen)
    entity = replace(seen.entity, high_water=fence, holder=holder, accepted_at=now)
    return Ruling(Announced(fence, raised=True), replace(seen, entity=entity, intent=None))


@dataclass(frozen=True, slots=True)
class Frozen:
    frozen: bool
    changed: bool


def freeze(seen: Snapshot, frozen: bool) -> Ruling[Frozen]:
    """Refuse (or allow again) every call on the entity; attempts already sending run on."""
    entity = replace(seen.entity, frozen=frozen)
    return Ruling(Frozen(frozen, entity != seen.entity), replace(seen, entity=entity))


@dataclass(frozen=True, slots=True)
class Reset:
    was: int
    high_water: int


@dataclass(frozen=True, slots=True)
class NotReset:
    reason: Reason


def reset(seen: Snapshot, high_water: int, open_now: int, now: Instant) -> Ruling[Reset | NotReset]:
    """Set high water, also lower: the cure of a poisoned fence. `open_now`: open attempts."""
    if not seen.entity.frozen:
        return Ruling(NotReset(Reason.NOT_FROZEN), seen)
    if open_now:
        return Ruling(NotReset(Reason.STILL_OPEN), seen)
    entity = replace(seen.entity, high_water=high_water, holder=None, accepted_at=now)
    verdict = Reset(seen.entity.high_water, high_water)
    return Ruling(verdict, replace(seen, entity=entity, intent=None))
