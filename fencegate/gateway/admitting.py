"""From call to decision: ask the ledger, and where the law says so wait and ask again.

Who waits watches first and then looks once more, so that no change is lost between looking and
waiting. Every look is an admission from the first row. A wait ends with one last look, which
decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fencegate.core.events import CallerLeft, LedgerFailed, NoteTaken
from fencegate.core.model import (
    SECOND,
    Compare,
    Go,
    Note,
    Probe,
    Refuse,
    Replay,
    Wait,
    WaitFor,
)
from fencegate.gateway.gate import Gate
from fencegate.gateway.holds import Hold
from fencegate.gateway.order import Order
from fencegate.gateway.settling import undo
from fencegate.ledger.protocol import LedgerUnavailable, Topic, Watch

SHORTEST_WAIT = 0.002  # seconds; a hold is over by the ledger's clock, not by ours


@dataclass(frozen=True, slots=True)
class LedgerAway:
    """The ledger did not decide; nothing was or will be sent."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The call goes, under this local hold."""

    go: Go
    hold: Hold


@dataclass(frozen=True, slots=True)
class _Asked:
    decision: Go | Wait | Replay | Refuse | LedgerAway
    sent_at: float


class ClientLeft(Exception):
    """The client hung up while its call waited: there is nobody to answer."""


async def admit(gate: Gate, order: Order) -> Granted | Replay | Refuse | LedgerAway:
    """Decide on a call, waiting as long as the route allows. Raises `ClientLeft`."""
    asked = await _ask(gate, order)
    deadlines: dict[WaitFor, float] = {}
    while isinstance(asked.decision, Wait):
        asked = await _wait(gate, order, asked.decision, deadlines)
    if isinstance(asked.decision, Go):
        return Granted(asked.decision, gate.holds.of(asked.decision, asked.sent_at))
    return asked.decision


async def _wait(gate: Gate, order: Order, wait: Wait, deadlines: dict[WaitFor, float]) -> _Asked:
    """Watch one thing until it is no longer what the call waits for."""
    loop = asyncio.get_running_loop()
    topic = _topic(order, wait)
    deadline = deadlines.setdefault(wait.on, loop.time() + _allowed(order, wait.on))
    with gate.ledger.watch(topic) as watch:
        while True:
            over = {on for on, end in deadlines.items() if end <= loop.time()}
            asked = await _ask(gate, _once_more(order, wait, over))
            if not isinstance(asked.decision, Wait) or _topic(order, asked.decision) != topic:
                return asked
            wait = asked.decision
            left = min(deadline - loop.time(), wait.lapses_in / SECOND)
            await _changed_or_left(gate, order, watch, max(left, SHORTEST_WAIT))


async def judged(gate: Gate, order: Order) -> Granted | Replay | Refuse | None:
    """What the law says of a call that is only observed; None where it could not be asked."""
    asked = await _ask(gate, order)
    match asked.decision:
        case Go() as go:
            return Granted(go, gate.holds.of(go, asked.sent_at))
        case Replay() | Refuse() as decision:
            return decision
        case _:
            return None


async def _ask(gate: Gate, order: Order) -> _Asked:
    """One admission. Whatever the law wants to know first is looked up, and it is asked again."""
    while True:
        sent_at = gate.holds.clock()
        try:
            told = await gate.ledger.admit(order.call, order.terms)
        except LedgerUnavailable as error:
            gate.emit(LedgerFailed("admit", str(error), error.unclear))
            if error.unclear:
                undo(gate, order)
            return _Asked(LedgerAway(), sent_at)
        _emit_notes(gate, order, told.notes)
        match told.verdict:
            case Compare(scheme=scheme):
                try:
                    order = order.with_print(order.print_under(scheme))
                except ValueError as error:
                    gate.emit(LedgerFailed("compare", str(error), unclear=False))
                    return _Asked(LedgerAway(), sent_at)
            case Probe():
                order = order.asked_anew(replace(order.call.asked, probed=True))
            case decision:
                return _Asked(decision, sent_at)


async def _changed_or_left(gate: Gate, order: Order, watch: Watch, timeout: float) -> None:
    changed = asyncio.ensure_future(watch.changed(timeout))
    left = asyncio.ensure_future(order.left())
    try:
        await asyncio.wait({changed, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        changed.cancel()
        left.cancel()
    if left.done() and not left.cancelled():
        gate.emit(CallerLeft(order.ref, order.call.entity.shown, order.key))
        raise ClientLeft


def _once_more(order: Order, wait: Wait, over: Iterable[WaitFor]) -> Order:
    asked = replace(
        order.call.asked,
        waited=True,
        found=wait.found,
        duplicate_wait_over=WaitFor.KEY in over,
        predecessor_wait_over=WaitFor.PREDECESSOR in over,
    )
    return order.asked_anew(asked)


def _topic(order: Order, wait: Wait) -> Topic:
    return wait.record_id if wait.on is WaitFor.KEY else order.call.entity


def _allowed(order: Order, on: WaitFor) -> float:
    route = order.route
    return route.duplicate_wait if on is WaitFor.KEY else route.predecessor_wait


def _emit_notes(gate: Gate, order: Order, notes: tuple[Note, ...]) -> None:
    for note in notes:
        apart = None if note.apart is None else note.apart / SECOND
        gate.emit(
            NoteTaken(
                order.ref, note.kind, order.call.entity.shown, order.key, note.other_key, apart
            )
        )
