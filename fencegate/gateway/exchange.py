"""The whole way of a guarded call, on one screen.

    call -> decision -> outcome -> settlement -> reply

Two promises are kept here and nowhere else. Nothing is sent before the attempt is on record. Once
an attempt is on record, a task of its own carries it to its settlement, whatever becomes of the
client; the reply is made of what the ledger then holds.
"""

from __future__ import annotations

from typing import assert_never

from fencegate.core.model import Go, Refuse, Replay, Superseded
from fencegate.core.outcomes import Answer, NotSent, Outcome, OutcomeUnknown, judge
from fencegate.gateway.admitting import Granted, LedgerAway, admit
from fencegate.gateway.gate import Gate
from fencegate.gateway.holds import Hold
from fencegate.gateway.keeping import kept_of
from fencegate.gateway.order import Order
from fencegate.gateway.replies import Reply, away, busy, refused, replayed, responded
from fencegate.gateway.settling import settle


async def exchange(gate: Gate, order: Order) -> tuple[Reply, Order]:
    """Answer one call. What turns out not sent and superseded is admitted once more, as another
    attempt: the order that is answered comes back with the reply."""
    while True:
        if not gate.slots.enter(order.route.limit, order.ref):
            return busy(order), order
        decision: Granted | Replay | Refuse | LedgerAway | None = None
        try:
            decision = await admit(gate, order)
        finally:
            if not isinstance(decision, Granted):  # else it is left when the call is settled
                gate.slots.leave(order.route.limit, order.ref)
        match decision:
            case Replay():
                return replayed(order, decision), order
            case Refuse():
                return refused(order, decision), order
            case LedgerAway():
                return away(order), order
            case Granted(go=go, hold=hold):
                reply = await gate.detached(carry(gate, order, go, hold))
            case _:
                assert_never(decision)
        if reply is not None:
            return reply, order
        order = order.afresh(gate.ids)


async def carry(gate: Gate, order: Order, go: Go, hold: Hold) -> Reply | None:
    """Forward once and settle. None: not sent, and the record is another attempt's."""
    with gate.holds.kept(hold), gate.slots.until_left(order.route.limit, order.ref):
        ended = await order.leg.forward(order.outgoing, hold.good)
        outcome = outcome_of(order, go, ended)
        recorded = await settle(gate, order, kept_of(order, outcome))
    if isinstance(outcome, NotSent) and isinstance(recorded.settlement, Superseded):
        return None
    return responded(order, go, ended, outcome, recorded)


def outcome_of(order: Order, go: Go, ended: Answer | NotSent | OutcomeUnknown) -> Outcome:
    """What the end of the attempt means for its record."""
    if isinstance(ended, Answer):
        route = order.route
        return judge(ended, route.statuses, earlier=go.earlier, answer_limit=route.answer_limit)
    return ended
