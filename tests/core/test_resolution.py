"""A probe's "no" speaks of the moment at which the upstream was asked."""

from __future__ import annotations

from dataclasses import replace

from fencegate.core.fingerprint import Fingerprint, Scheme
from fencegate.core.model import (
    SECOND,
    Attempt,
    AttemptId,
    Entity,
    EntityId,
    Record,
    RecordId,
    Snapshot,
    Unknown,
)
from fencegate.core.reasons import Reason
from fencegate.core.resolution import NotResolved, Probed, Resolved, resolve

ENDED = 100 * SECOND
AFTER = 10 * SECOND
ATTEMPT = Attempt(AttemptId("p-1"), 1, 41, None, 90 * SECOND, ENDED, ENDED)
ENTITY = EntityId("", "invoice:8812")
RECORD = Record(
    id=RecordId("payments", None, "charge"),
    credential="",
    fingerprint=Fingerprint(Scheme(), (b"",) * 7),
    entity=ENTITY,
    attempts=(ATTEMPT,),
    state=Unknown(),
    tries=1,
    hold=15 * SECOND,
    retention=SECOND,
    tombstone=1000 * SECOND,
)
SEEN = Snapshot(Entity(ENTITY, 41), RECORD)


def test_a_no_that_was_asked_too_early_is_not_believed_when_it_comes_late() -> None:
    late = ENDED + AFTER
    asked_now = Probed(ATTEMPT.id, applied=False, after=AFTER)
    assert resolve(SEEN, asked_now, late).verdict == Resolved("free")
    asked_before = replace(asked_now, ago=1)
    told = resolve(SEEN, asked_before, late).verdict
    assert told == NotResolved(Reason.STILL_LISTENING)
