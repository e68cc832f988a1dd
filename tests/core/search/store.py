"""The ledger of the model: the rows of one entity, and every verb as one step of the real law.

A store does three things in one atomic section: it loads the snapshot, asks the law, and writes
what the law left. No sweeper runs here, and only an admission writes a lapse down: every verb
meets rows as old as they can be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from fencegate.core import admission, resolution, settlement
from fencegate.core.aging import aged_record
from fencegate.core.intent import intent_of
from fencegate.core.model import (
    Attempt,
    AttemptId,
    Call,
    Decision,
    Disowned,
    Done,
    Entity,
    Expired,
    Freed,
    Intent,
    Note,
    OneEffectPer,
    OnUnknown,
    Open,
    Other,
    Record,
    RecordId,
    Renewal,
    Settlement,
    Snapshot,
    Terms,
    Unknown,
)
from fencegate.core.outcomes import Outcome
from fencegate.core.resolution import Frozen, Resolution, VerdictOn

START = 100  # of the ledger's clock: no instant of the law may be 0
FOR_EVER = 1_000

Index = tuple[tuple[bytes, Intent], ...]
Verb = Literal["admit", "renew", "settle", "resolve", "freeze"]


@dataclass(frozen=True, slots=True)
class Moment:
    """What the clocks show: everyone's own (they agree), the ledger's, and the latest that the
    ledger has seen on its own."""

    own: int
    ledger: int
    latest: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """The rows of one entity. An intent is indexed under the high water of now."""

    entity: Entity
    records: tuple[tuple[RecordId, Record], ...] = ()
    index: Index = ()

    def record(self, id: RecordId | None) -> Record | None:
        return next((record for at, record in self.records if at == id), None)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One atomic step: what stood there, what the law said, and what it left."""

    verb: Verb
    at: int
    before: Ledger
    after: Ledger
    verdict: Decision | Renewal | Settlement | Resolution | Frozen
    notes: tuple[Note, ...] = ()
    record: RecordId | None = None
    attempt: AttemptId | None = None


class Store:
    """Every verb of a ledger whose routes have these terms."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def admit(self, ledger: Ledger, call: Call, at: Moment) -> Step:
        book = self._lapses_written(ledger, call, at.ledger)
        seen = self._seen_by(book, call, at)
        ruling = admission.admit(seen, call, self.terms, at.ledger)
        after = self._written(book, seen, ruling.left, self._index(book, ruling.left, call))
        id = seen.record.id if seen.record else call.record_id
        return Step(
            "admit", at.ledger, ledger, after, ruling.verdict, ruling.notes, id, call.attempt
        )

    def renew(self, ledger: Ledger, id: RecordId, attempt: AttemptId, at: Moment) -> Step:
        seen = _seen(ledger, id)
        ruling = settlement.renew(seen, attempt, at.ledger)
        after = self._written(ledger, seen, ruling.left, ledger.index)
        return Step("renew", at.ledger, ledger, after, ruling.verdict, ruling.notes, id, attempt)

    def settle(
        self, ledger: Ledger, id: RecordId, attempt: AttemptId, outcome: Outcome, at: Moment
    ) -> Step:
        seen = _seen(ledger, id)
        ruling = settlement.settle(seen, attempt, outcome, at.ledger)
        after = self._written(ledger, seen, ruling.left, ledger.index)
        return Step("settle", at.ledger, ledger, after, ruling.verdict, ruling.notes, id, attempt)

    def resolve(self, ledger: Ledger, id: RecordId, verdict: VerdictOn, at: Moment) -> Step:
        seen = _seen(ledger, id)
        ruling = resolution.resolve(seen, verdict, at.ledger)
        after = self._written(ledger, seen, ruling.left, ledger.index)
        return Step("resolve", at.ledger, ledger, after, ruling.verdict, ruling.notes, id)

    def freeze(self, ledger: Ledger, frozen: bool, at: Moment) -> Step:
        ruling = resolution.freeze(Snapshot(ledger.entity), frozen)
        after = replace(ledger, entity=ruling.left.entity)
        return Step("freeze", at.ledger, ledger, after, ruling.verdict)

    # --- loading ---------------------------------------------------------------------------

    def _seen_by(self, ledger: Ledger, call: Call, at: Moment) -> Snapshot:
        """The key's own record is looked up first, then the one that the intent names."""
        record, intent = ledger.record(call.record_id), None
        if self.terms.one_effect_per is not OneEffectPer.KEY:
            intent = dict(ledger.index).get(intent_of(call))
        if intent and self.terms.one_effect_per is OneEffectPer.INTENT and _free(record, at):
            record = ledger.record(intent.key) or record
        but = record.id if record else call.record_id
        return Snapshot(ledger.entity, record, _others(ledger, call, but), intent, at.latest)

    # --- writing ---------------------------------------------------------------------------

    def _written(self, ledger: Ledger, seen: Snapshot, left: Snapshot, index: Index) -> Ledger:
        """The rows as the law left them."""
        records = dict(ledger.records)
        if seen.record is not None and left.record is None:
            del records[seen.record.id]
        if left.record is not None:
            records[left.record.id] = self._plain(left.record)
        if seen.record is not None and _is_free(left.record):
            index = tuple((intent, names) for intent, names in index if names.key != seen.record.id)
        entity = replace(left.entity, accepted_at=None)
        return Ledger(entity, tuple(sorted(records.items(), key=_place)), index)

    def _lapses_written(self, ledger: Ledger, call: Call, now: int) -> Ledger:
        """A call that meets a lower attempt whose hold has run out may overtake it: that it ran
        out is written down, and stays so though the clock go back."""
        rows = tuple(
            (id, self._plain(aged_record(record, now) or record))
            if isinstance(record.state, Open) and record.fence < call.fence
            else (id, record)
            for id, record in ledger.records
        )
        return ledger if rows == ledger.records else replace(ledger, records=rows)

    def _index(self, ledger: Ledger, left: Snapshot, call: Call) -> Index:
        """The index is emptied where high water rose; how old an entry is matters to notes only."""
        if self.terms.one_effect_per is OneEffectPer.KEY:
            return ()
        rose = left.entity.high_water > ledger.entity.high_water
        names = {} if rose else dict(ledger.index)
        if left.intent is not None:
            names[intent_of(call)] = replace(left.intent, since=0)
        return tuple(sorted(names.items(), key=lambda entry: entry[0]))

    def _plain(self, record: Record) -> Record:
        """The record without what makes no difference under these terms: worlds that differ in
        that only are one world."""
        attempts = tuple(self._plain_attempt(attempt) for attempt in record.attempts)
        state = record.state
        if isinstance(state, Done) and record.retention >= FOR_EVER:
            state = replace(state, expires_at=FOR_EVER)
        if isinstance(state, Expired):
            state = Expired(START)
        disowned = tuple(
            Disowned(self._plain_attempt(gone.attempt), FOR_EVER) for gone in record.disowned
        )
        return replace(record, attempts=attempts, state=state, disowned=disowned)

    def _plain_attempt(self, attempt: Attempt) -> Attempt:
        """When it was admitted counts for a window, when it ended for a probe."""
        window = self.terms.key_window
        windowed = window is not None and window < FOR_EVER
        probed = self.terms.on_unknown is OnUnknown.PROBE
        since, ended = attempt.doubtful_since, attempt.ended_at
        return replace(
            attempt,
            admitted_at=attempt.admitted_at if windowed else START,
            doubtful_since=since if probed or since is None else START,
            ended_at=ended if probed or ended is None else START,
            evidence=None,
        )


def unknown_records(ledger: Ledger, now: int) -> tuple[Record, ...]:
    """What an operator's page shows as unknown."""
    true_now = (aged_record(record, now) for _, record in ledger.records)
    return tuple(r for r in true_now if r is not None and isinstance(r.state, Unknown))


def _seen(ledger: Ledger, id: RecordId) -> Snapshot:
    return Snapshot(ledger.entity, ledger.record(id))


def _others(ledger: Ledger, call: Call, but: RecordId) -> tuple[Other, ...]:
    return tuple(
        Other(record.fence, record.state)
        for at, record in ledger.records
        if at != but and isinstance(record.state, (Open, Unknown)) and record.fence < call.fence
    )


def _free(record: Record | None, at: Moment) -> bool:
    return _is_free(aged_record(record, at.ledger))


def _is_free(record: Record | None) -> bool:
    return record is None or isinstance(record.state, Freed)


def _place(row: tuple[RecordId, Record]) -> tuple[str, str, str]:
    return row[0].upstream, row[0].caller or "", row[0].key
