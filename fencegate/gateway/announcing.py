"""`PUT /_fencegate/v1/entities/{entity}/fence`: high water rises before the holder's first call."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import parse_qs

import orjson

from fencegate.core.events import LedgerFailed
from fencegate.core.identity import OBSERVED
from fencegate.core.model import SECOND, EntityId, FenceLead
from fencegate.core.outcomes import Headers
from fencegate.core.reading import Malformed, decode_segment, read_fence, spell_entity
from fencegate.core.reasons import Reason
from fencegate.core.resolution import Announced, Announcement, NotAnnounced
from fencegate.gateway.callers import who
from fencegate.gateway.calls import read_holder
from fencegate.gateway.gate import Gate
from fencegate.gateway.intake import Incoming
from fencegate.gateway.problems import KINDS, Problem, unread
from fencegate.gateway.proofs import proven
from fencegate.gateway.protected import FENCE, HOLDER, PROOF, framing_fault
from fencegate.gateway.replies import Reply, of_problem
from fencegate.ledger.protocol import LedgerUnavailable
from fencegate.policy import Policies, duration

LOOK_AGAIN = 1.0  # seconds
LONGEST_WAIT = 60.0  # seconds; who waits holds a connection


@dataclass(frozen=True, slots=True)
class _Asked:
    entity: EntityId
    fence: int
    holder: str | None
    wait: float  # seconds


async def announce(
    gate: Gate, policies: Policies, incoming: Incoming, raw_entity: bytes, ref: str
) -> Reply:
    """Raise high water to the fence in the header; a lower one is 412."""
    asked = _read(policies, incoming, raw_entity, ref)
    if isinstance(asked, Problem):
        return of_problem(asked)
    lead = policies.gateway.max_fence_lead
    try:
        if policies.observes:  # what only watches must have seen it too
            shadow = EntityId(OBSERVED + asked.entity.domain, asked.entity.name)
            await gate.ledger.announce(shadow, asked.fence, asked.holder, lead)
        told, open_below = await _announced(gate, asked, lead)
    except LedgerUnavailable as error:
        gate.emit(LedgerFailed("announce", str(error), error.unclear))
        seen = "The ledger did not answer in time."
        return of_problem(unread(Reason.LEDGER_UNAVAILABLE, seen, ref))
    match told:
        case Announced(high_water=high_water, raised=raised):
            headers: Headers = ((b"content-type", b"application/json"),)
            said = {
                "entity": asked.entity.name,
                "high_water": high_water,
                "raised": raised,
                "open_below": open_below,
            }
            return Reply(None, 200, headers, orjson.dumps(said), high_water=high_water)
        case NotAnnounced(reason=reason, high_water=high_water):
            return of_problem(_refused(reason, asked, high_water, ref), high_water)


async def _announced(gate: Gate, asked: _Asked, lead: FenceLead | None) -> tuple[Announcement, int]:
    """Raise high water, and wait for lower attempts to end for as long as was asked."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + asked.wait
    with gate.ledger.watch(asked.entity) as watch:
        while True:
            told, open_below = await gate.ledger.announce(
                asked.entity, asked.fence, asked.holder, lead
            )
            left = deadline - loop.time()
            if isinstance(told, NotAnnounced) or not open_below or left <= 0:
                return told, open_below
            # A hold may run out without anybody's doing.
            await watch.changed(min(left, LOOK_AGAIN))


def _read(policies: Policies, incoming: Incoming, raw_entity: bytes, ref: str) -> _Asked | Problem:
    if fault := framing_fault(incoming.headers):
        return unread(Reason.FRAMING, fault, ref)
    if who(policies.callers, incoming.headers) is None:
        return unread(Reason.CALLER_UNKNOWN, "No token of a known caller was shown.", ref)
    entity = _entity(policies, incoming, raw_entity)
    if isinstance(entity, Malformed):
        return unread(Reason.ENTITY_UNRESOLVED, f"{entity.expected}.", ref)
    fence = read_fence(incoming.lines(FENCE))
    if fence is None:
        return unread(Reason.FENCE_REQUIRED, "X-Execution-Fence is not there.", ref)
    if isinstance(fence, Malformed):
        return unread(Reason.FENCE_INVALID, f"X-Execution-Fence is {fence.expected}.", ref)
    if not proven(policies.gateway.fence_secret, incoming.lines(PROOF), entity, fence):
        return unread(Reason.FENCE_UNPROVEN, "X-Execution-Fence-Proof does not sign it.", ref)
    wait = _wait(incoming)
    if isinstance(wait, Malformed):
        return unread(Reason.FRAMING, wait.expected, ref)
    return _Asked(entity, fence, read_holder(incoming.lines(HOLDER)), wait)


def _wait(incoming: Incoming) -> float | Malformed:
    """`?wait=10s`, in seconds; a minute at most."""
    stated = _query(incoming).get("wait", ["0s"])
    try:
        if len(stated) != 1:
            raise ValueError("it is sent more than once")
        return min(duration(stated[0]) / SECOND, LONGEST_WAIT)
    except ValueError as error:
        return Malformed(f"The wait cannot be read: {error}.")


def _query(incoming: Incoming) -> dict[str, list[str]]:
    query = incoming.target.partition(b"?")[2].decode("latin-1")
    return parse_qs(query, keep_blank_values=True)


def _entity(policies: Policies, incoming: Incoming, raw: bytes) -> EntityId | Malformed:
    if b"/" in raw:
        return Malformed("The entity is more than one segment; send %2F for a slash")
    decoded = decode_segment(raw)
    entity = spell_entity(decoded) if isinstance(decoded, str) else decoded
    if isinstance(entity, str) and policies.gateway.fold_case:
        entity = spell_entity(entity.casefold())
    if isinstance(entity, Malformed):
        return Malformed(f"The entity is {entity.expected}")
    domains = _query(incoming).get("domain", [""])
    if len(domains) != 1 or not policies.names_domain(domains[0]):
        return Malformed("No policy names this domain")  # or it would be raised in another one
    return EntityId(domains[0], entity)


def _refused(reason: Reason, asked: _Asked, high_water: int, ref: str) -> Problem:
    kind = KINDS[reason]
    how = "below" if reason is Reason.STALE_FENCE else "too far ahead of"
    name = asked.entity.name
    detail = f"Fence {asked.fence} is {how} {high_water} for {name}. {kind.meaning}"
    members = {"entity": name, "fence": asked.fence, "high_water": high_water}
    return Problem(reason, detail, ref, kind.status, members)
