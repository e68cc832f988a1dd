"""`PUT /_fencegate/v1/entities/{entity}/fence`: high water rises before the holder's first call."""

from __future__ import annotations

from urllib.parse import parse_qs

import orjson

from fencegate.core.events import LedgerFailed
from fencegate.core.model import EntityId, FenceLead
from fencegate.core.outcomes import Headers
from fencegate.core.reading import Malformed, decode_segment, read_fence, spell_entity
from fencegate.core.reasons import Reason
from fencegate.core.resolution import Announced, NotAnnounced
from fencegate.gateway.gate import Gate
from fencegate.gateway.intake import DEFAULT_DOMAIN, Incoming, read_holder
from fencegate.gateway.problems import KINDS, Problem, unread
from fencegate.gateway.protected import FENCE, HOLDER
from fencegate.gateway.replies import Reply, of_problem
from fencegate.ledger.protocol import LedgerUnavailable


async def announce(
    gate: Gate, incoming: Incoming, raw_entity: bytes, lead: FenceLead | None, ref: str
) -> Reply:
    """Raise high water to the fence in the header; a lower one is 412."""
    query = incoming.target.partition(b"?")[2].decode("latin-1")
    if parse_qs(query).get("domain"):  # or it would be raised in another one
        seen = "No policy names this domain."
        return of_problem(unread(Reason.ENTITY_UNRESOLVED, seen, ref))
    decoded = decode_segment(raw_entity)
    entity = spell_entity(decoded) if isinstance(decoded, str) else decoded
    if isinstance(entity, Malformed):
        return of_problem(
            unread(Reason.ENTITY_UNRESOLVED, f"The entity is {entity.expected}.", ref)
        )
    fence = read_fence(incoming.lines(FENCE))
    if fence is None:
        return of_problem(unread(Reason.FENCE_REQUIRED, "X-Execution-Fence is not there.", ref))
    if isinstance(fence, Malformed):
        seen = f"X-Execution-Fence is {fence.expected}."
        return of_problem(unread(Reason.FENCE_INVALID, seen, ref))
    try:
        holder = read_holder(incoming.lines(HOLDER))
        told, open_below = await gate.ledger.announce(
            EntityId(DEFAULT_DOMAIN, entity), fence, holder, lead
        )
    except LedgerUnavailable as error:
        gate.emit(LedgerFailed("announce", str(error), error.unclear))
        seen = "The ledger did not answer in time."
        return of_problem(unread(Reason.LEDGER_UNAVAILABLE, seen, ref))
    match told:
        case Announced(high_water=high_water, raised=raised):
            headers: Headers = ((b"content-type", b"application/json"),)
            said = {
                "entity": entity,
                "high_water": high_water,
                "raised": raised,
                "open_below": open_below,
            }
            return Reply(None, 200, headers, orjson.dumps(said), high_water=high_water)
        case NotAnnounced(reason=reason, high_water=high_water):
            return of_problem(_refused(reason, entity, fence, high_water, ref), high_water)


def _refused(reason: Reason, entity: str, fence: int, high_water: int, ref: str) -> Problem:
    kind = KINDS[reason]
    how = "below" if reason is Reason.STALE_FENCE else "too far ahead of"
    detail = f"Fence {fence} is {how} {high_water} for {entity}. {kind.meaning}"
    members = {"entity": entity, "fence": fence, "high_water": high_water}
    return Problem(reason, detail, ref, kind.status, members)
