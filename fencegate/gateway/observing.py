"""Calls that are only watched: the law is asked by rows of its own, and the call goes anyway.

It never waits, never replays, and goes also where the ledger does not answer; what the law would
have said is in the answer's headers and in the event.
"""

from __future__ import annotations

from dataclasses import replace

from fencegate.core.events import CallObserved
from fencegate.core.identity import OBSERVED
from fencegate.core.model import Refuse, Replay
from fencegate.core.outcomes import Answer, Outcome, Responded
from fencegate.gateway.admitting import Granted, judged
from fencegate.gateway.exchange import outcome_of
from fencegate.gateway.gate import Gate
from fencegate.gateway.intake import Unguarded
from fencegate.gateway.keeping import kept_of
from fencegate.gateway.order import Order
from fencegate.gateway.replies import Reply, passed
from fencegate.gateway.settling import settle

FORWARDED = "forwarded"
WOULD_REPLAY = "would-replay"
WOULD_REFUSE = "would-refuse"


async def observe(gate: Gate, order: Order) -> Reply:
    """Forward one call, and say what would have become of it."""
    decision = await judged(gate, order)
    reply = await gate.detached(_pass_on(gate, order, decision))
    gate.emit(_observed(order, reply))
    return reply


async def pass_on(gate: Gate, unguarded: Unguarded) -> Reply:
    """Forward what no guard is asked of, or what would have been refused before the ledger."""
    ended = await unguarded.leg.forward(unguarded.outgoing, lambda: True)
    if unguarded.would is None:
        return passed(ended, unguarded.ref)
    reply = passed(ended, unguarded.ref, WOULD_REFUSE, unguarded.would.reason.value)
    gate.emit(
        CallObserved(
            ref=unguarded.ref,
            decision=WOULD_REFUSE,
            code=reply.code,
            status=reply.status,
            upstream=unguarded.upstream,
            route=unguarded.route,
            method=unguarded.outgoing.method,
        )
    )
    return reply


async def _pass_on(gate: Gate, order: Order, decision: Granted | Replay | Refuse | None) -> Reply:
    match decision:
        case Granted(go=go, hold=hold):
            with gate.holds.kept(hold):
                ended = await order.leg.forward(order.outgoing, lambda: True)
                outcome = kept_of(order, outcome_of(order, go, ended))
                await settle(gate, order, _bodiless(outcome))
            return passed(ended, order.ref, FORWARDED)
        case Replay():
            word, code = WOULD_REPLAY, None
        case Refuse(reason=reason):
            word, code = WOULD_REFUSE, reason.value
        case None:
            word, code = FORWARDED, None
    ended = await order.leg.forward(order.outgoing, lambda: True)
    return passed(ended, order.ref, word, code)


def _bodiless(outcome: Outcome) -> Outcome:
    """No shadow is ever replayed: that there was an answer is enough."""
    match outcome:
        case Responded(kept=Answer() as answer):
            return Responded(replace(answer, headers=(), body=b""))
        case _:
            return outcome


def _observed(order: Order, reply: Reply) -> CallObserved:
    call = order.call
    return CallObserved(
        ref=order.ref,
        decision=reply.decision or FORWARDED,
        code=reply.code if reply.decision == WOULD_REFUSE else None,
        status=reply.status,
        upstream=call.upstream.removeprefix(OBSERVED),
        route=order.route.pattern.text,
        method=order.outgoing.method,
        entity=call.entity.shown,
        fence=order.fence,
        key=order.key,
        holder=call.holder,
    )
