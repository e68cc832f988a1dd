"""What time alone does to a record, by the ledger's clock; every verb applies it first.

    open     -> unknown   when its hold has run out: never free
    unknown  -> expired   after `tombstone`
    done     -> expired   when `retention` has ended
    expired  -> nothing   after `tombstone`
    freed    -> nothing   when no disowned attempt is kept any more

No sweeper is needed for the truth; a sweeper only writes down what is true already.
"""

from __future__ import annotations

from dataclasses import replace

from fencegate.core.model import (
    Done,
    Expired,
    Freed,
    Instant,
    Open,
    Other,
    Record,
    Snapshot,
    Unknown,
)
from fencegate.core.outcomes import Doubt, Evidence


def aged(seen: Snapshot, now: Instant) -> Snapshot:
    """The snapshot as it is at `now`."""
    record = aged_record(seen.record, now)
    others = tuple(aged_other(other, now) for other in seen.others)
    if record is seen.record and others == seen.others:
        return seen
    return replace(seen, record=record, others=others)


def aged_record(record: Record | None, now: Instant) -> Record | None:
    """The record as it is at `now`; None when nothing is kept any more."""
    while record is not None:
        due = due_at(record)
        if due is None or due > now:
            return record
        record = _next(record, due)
    return None


def aged_other(other: Other, now: Instant) -> Other:
    match other.state:
        case Open(hold_until=hold_until) if hold_until <= now:
            return replace(other, state=Unknown())
        case _:
            return other


def due_at(record: Record) -> Instant | None:
    """When time will next change this record."""
    match record.state:
        case Open(hold_until=hold_until):
            return hold_until
        case Done(expires_at=expires_at):
            return expires_at
        case Unknown():
            since = record.current.doubtful_since
            return None if since is None else since + record.tombstone
        case Expired(at=at):
            return at + record.tombstone
        case Freed():
            return min((d.until for d in record.disowned), default=0)


def in_doubt(record: Record, since: Instant, evidence: Evidence, ended: Instant | None) -> Record:
    """The record with its current attempt unknown, since the first time it became so."""
    attempt = record.current
    doubted = replace(
        attempt,
        doubtful_since=attempt.doubtful_since or since,
        ended_at=attempt.ended_at or ended,
        evidence=evidence,
    )
    return record.with_current(doubted, Unknown())


def _next(record: Record, due: Instant) -> Record | None:
    match record.state:
        case Open():
            return in_doubt(record, due, Evidence(Doubt.HOLD_RAN_OUT), ended=None)
        case Done() | Unknown():
            return replace(record, state=Expired(due))
        case Expired():
            return None
        case Freed():
            kept = tuple(d for d in record.disowned if d.until > due)
            return replace(record, disowned=kept) if kept else None
