"""Outcomes on their way into the ledger. An outcome is never lost while the process lives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fencegate.core.events import LedgerFailed, NoteTaken
from fencegate.core.model import SECOND, AttemptId, RecordId, Settlement, Superseded
from fencegate.core.outcomes import NotSent, Outcome, Unsent
from fencegate.gateway.gate import Gate
from fencegate.gateway.order import Order
from fencegate.ledger.protocol import LedgerUnavailable, Told

RETRY_AFTER = 0.5  # seconds between two tries while the ledger is away


@dataclass(frozen=True, slots=True)
class Recorded:
    """How an outcome entered the ledger; None while the ledger is away."""

    settlement: Settlement | None


async def settle(gate: Gate, order: Order, outcome: Outcome) -> Recorded:
    """Enter an outcome. While the ledger is away it is tried on in the background, by the
    attempt's id, so that it cannot overwrite what has come since."""
    record, attempt = order.call.record_id, order.call.attempt
    try:
        told = await gate.ledger.settle(record, attempt, outcome)
    except LedgerUnavailable as error:
        gate.emit(LedgerFailed("settle", str(error), error.unclear))
        gate.start(_settle_later(gate, record, attempt, outcome))
        return Recorded(None)
    for note in told.notes:
        apart = None if note.apart is None else note.apart / SECOND
        entity = order.call.entity.shown
        gate.emit(NoteTaken(order.ref, note.kind, entity, order.key, note.other_key, apart))
    return Recorded(told.verdict)


def undo(gate: Gate, order: Order) -> None:
    """Undo an admission of which nobody knows whether it was recorded; it was not sent."""
    gate.start(_undo(gate, order))


async def _undo(gate: Gate, order: Order) -> None:
    """Where nothing was found the admission may still be on its way: look again after a hold."""
    record, attempt = order.call.record_id, order.call.attempt
    outcome = NotSent(Unsent.ACKNOWLEDGEMENT_UNCLEAR)
    told = await _settle_later(gate, record, attempt, outcome)
    if told.verdict == Superseded(nothing=True):
        await asyncio.sleep(order.terms.hold / SECOND)
        await _settle_later(gate, record, attempt, outcome)


async def _settle_later(
    gate: Gate, record: RecordId, attempt: AttemptId, outcome: Outcome
) -> Told[Settlement]:
    while True:
        try:
            return await gate.ledger.settle(record, attempt, outcome)
        except LedgerUnavailable:
            await asyncio.sleep(RETRY_AFTER)
