"""Refusals as problem documents (RFC 9457): what was seen, what was expected, what to do.

A problem answers the two questions of 2 a.m.: may this have been `sent`, and is a new key safe
(`safe_new_key`). `sent` is left out where the ledger was not asked; that means *may have been*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from fencegate.core.model import SECOND, Refuse
from fencegate.core.outcomes import Headers
from fencegate.core.reasons import Reason
from fencegate.gateway.order import Order

MEDIA_TYPE = b"application/problem+json"
NO_RETRY: Headers = ((b"x-should-retry", b"false"), (b"stripe-should-retry", b"false"))


@dataclass(frozen=True, slots=True)
class Kind:
    """One code: its status, a title, what a caller should know, and whether a retry may help."""

    status: int
    title: str
    meaning: str
    retry: bool = False


KINDS: dict[Reason, Kind] = {
    Reason.STALE_FENCE: Kind(
        412,
        "Stale fence",
        "Another holder has taken over this entity. Stop; a new lease brings a new fence.",
    ),
    Reason.FROZEN: Kind(423, "Entity frozen", "An operator stopped all calls on this entity."),
    Reason.KEY_REUSED: Kind(
        422,
        "Key reused",
        "This key was used for another request. A different operation needs a key of its own "
        "meaning, once it is known how the first one ended.",
    ),
    Reason.KEY_EXPIRED: Kind(
        410, "Key expired", "This key was used; its answer is no longer kept. It never runs again."
    ),
    Reason.OUTCOME_UNKNOWN: Kind(
        409,
        "Outcome unknown",
        "The call may have had its effect. Find out at the upstream, then let an operator settle "
        "it; do not try it under a new key.",
    ),
    Reason.ANSWER_NOT_KEPT: Kind(
        409, "Answer not kept", "The call was done; its answer is not kept. Read the upstream."
    ),
    Reason.KEY_OF_OTHER_CALLER: Kind(
        409,
        "Key of another caller",
        "This key was used under another Authorization value. Where tokens are rotated, "
        "configure callers.",
    ),
    Reason.FENCE_REQUIRED: Kind(
        428,
        "Fence required",
        "A call carries the fence of its lease, where the route reads it.",
    ),
    Reason.FENCE_INVALID: Kind(
        400, "Fence invalid", "A fence is a whole number from 1 to 9223372036854775807."
    ),
    Reason.FENCE_TOO_FAR: Kind(
        400, "Fence too far ahead", "This fence would fence out everyone; nothing was raised."
    ),
    Reason.KEY_REQUIRED: Kind(
        400,
        "Key required",
        "A call carries one key for an operation and all its retries, where the route reads it.",
    ),
    Reason.KEY_INVALID: Kind(
        400, "Key invalid", "A key is 1 to 255 visible ASCII characters, sent once."
    ),
    Reason.BODY_AMBIGUOUS: Kind(
        400, "Body ambiguous", "The body can be read in two ways; send each member once."
    ),
    Reason.FRAMING: Kind(400, "Framing", "The request can be read in two ways."),
    Reason.PATH_AMBIGUOUS: Kind(
        400, "Path ambiguous", "The path can be read in two ways; send it in its plain form."
    ),
    Reason.ENTITY_UNRESOLVED: Kind(
        422, "Entity unresolved", "The request does not name one entity as the route reads it."
    ),
    Reason.IN_FLIGHT: Kind(
        409, "In flight", "The same key is running. Wait for it under the same key.", retry=True
    ),
    Reason.PREDECESSOR_OPEN: Kind(
        409,
        "Predecessor open",
        "A call with a lower fence is still on its way. Wait for its end.",
        retry=True,
    ),
    Reason.LEDGER_UNAVAILABLE: Kind(
        503, "Ledger unavailable", "Nothing can be decided now; nothing was sent.", retry=True
    ),
    Reason.DRAINING: Kind(503, "Draining", "This gateway is going away.", retry=True),
    Reason.UPSTREAM_BUSY: Kind(
        503, "Upstream busy", "Too many calls are on their way to this upstream.", retry=True
    ),
    Reason.NOT_SENT: Kind(
        502, "Not sent", "The upstream was not reached. Try again under the same key.", retry=True
    ),
    Reason.NO_ROUTE: Kind(403, "No route", "No route of the policy covers this request."),
    Reason.CALLER_UNKNOWN: Kind(401, "Caller unknown", "Send a token that the policy knows."),
    Reason.FENCE_UNPROVEN: Kind(403, "Fence unproven", "The fence needs a valid proof."),
    Reason.BODY_TOO_LARGE: Kind(413, "Body too large", "The body is over the route's limit."),
    Reason.HEAD_TOO_LARGE: Kind(431, "Head too large", "The head is over the gateway's limit."),
    Reason.REQUEST_TIMEOUT: Kind(408, "Request timeout", "The request did not come in time."),
    Reason.METHOD_REFUSED: Kind(501, "Method refused", "CONNECT and TRACE are not forwarded."),
    Reason.UPGRADE_REFUSED: Kind(426, "Upgrade refused", "Guarded routes are plain HTTP."),
    Reason.LOOP: Kind(508, "Loop", "The request has passed this gateway before."),
    Reason.STILL_LISTENING: Kind(409, "Still listening", "A gateway may still be connected."),
    Reason.STILL_OPEN: Kind(409, "Still open", "The entity has open attempts."),
    Reason.NOT_FROZEN: Kind(409, "Not frozen", "Freeze the entity first."),
    Reason.NOT_UNKNOWN: Kind(409, "Not unknown", "The record is not unknown any more."),
}


@dataclass(frozen=True, slots=True, repr=False)
class Problem:
    """One refusal, ready to be sent. Members that are None are left out."""

    reason: Reason
    detail: str
    ref: str
    status: int
    members: dict[str, Any]
    retry_after: int | None = None

    def __repr__(self) -> str:
        return f"Problem({self.reason}, {self.status}, {self.ref})"

    @property
    def headers(self) -> Headers:
        headers: Headers = ((b"content-type", MEDIA_TYPE),)
        if self.retry_after is not None:
            headers += ((b"retry-after", b"%d" % self.retry_after),)
        if self.reason is Reason.CALLER_UNKNOWN:
            headers += ((b"www-authenticate", b"Bearer"),)
        if not KINDS[self.reason].retry:
            headers += NO_RETRY
        return headers

    @property
    def body(self) -> bytes:
        kind = KINDS[self.reason]
        document = {
            "type": f"/_fencegate/problems/{self.reason}",
            "title": kind.title,
            "status": self.status,
            "code": self.reason.value,
            "detail": self.detail,
            **{name: value for name, value in self.members.items() if value is not None},
            "ref": self.ref,
            "safe_new_key": self.reason in (Reason.KEY_REQUIRED, Reason.KEY_INVALID),
        }
        return orjson.dumps(document)


def unread(reason: Reason, seen: str, ref: str, *, status: int | None = None) -> Problem:
    """A refusal before the ledger was asked. `seen` says what was seen, never a value."""
    kind = KINDS[reason]
    retry_after = 1 if kind.retry else None
    return Problem(reason, f"{seen} {kind.meaning}", ref, status or kind.status, {}, retry_after)


def from_refusal(refusal: Refuse, order: Order) -> Problem:
    """The problem of a refusal by the law. Without a fence nothing is said of high water."""
    kind, fenced = KINDS[refusal.reason], order.fence is not None
    members = {
        "entity": order.call.entity.shown,
        "fence": order.fence,
        "high_water": refusal.high_water if fenced else None,
        "holder": refusal.holder if fenced else None,
        "accepted_at": _instant(refusal.accepted_at) if fenced else None,
        "state": refusal.state,
        "differs": list(refusal.parts) or None,
        "original_status": refusal.status,
        "sent": refusal.sent,
    }
    detail = f"{_seen(refusal, order)} {kind.meaning}"
    return Problem(refusal.reason, detail, order.ref, kind.status, members, _retry(refusal))


def of_call(reason: Reason, seen: str, order: Order, *, status: int, sent: bool | None) -> Problem:
    """A refusal after the ledger was asked: the call was not sent, or its outcome is unknown."""
    kind = KINDS[reason]
    members = {"entity": order.call.entity.shown, "fence": order.fence, "sent": sent}
    retry_after = 1 if kind.retry else None
    return Problem(reason, f"{seen} {kind.meaning}", order.ref, status, members, retry_after)


def _seen(refusal: Refuse, order: Order) -> str:
    call = order.call
    entity, water = call.entity.shown, refusal.high_water
    match refusal.reason:
        case Reason.STALE_FENCE:
            by = f" (accepted for {refusal.holder})" if refusal.holder else ""
            return f"Fence {call.fence} is below {water}{by} for {entity}."
        case Reason.FENCE_TOO_FAR:
            return f"Fence {call.fence} is too far ahead of {water} for {entity}."
        case Reason.KEY_REUSED:
            return f"The request differs from the first one under this key in: {_listed(refusal)}."
        case Reason.ANSWER_NOT_KEPT:
            status = f" with status {refusal.status}" if refusal.status else ""
            return f"The call under this key was done{status}."
        case Reason.OUTCOME_UNKNOWN:
            return "An attempt under this key may have reached the upstream; its end is not known."
        case Reason.IN_FLIGHT:
            return f"An attempt under this key is open ({refusal.state})."
        case Reason.PREDECESSOR_OPEN:
            return f"An attempt with a fence below {call.fence} is open on {entity}."
        case Reason.FROZEN:
            return f"{entity} is frozen."
        case _:
            return f"The call on {entity} was refused." if entity else "The call was refused."


def _listed(refusal: Refuse) -> str:
    return ", ".join(refusal.parts)


def _retry(refusal: Refuse) -> int | None:
    if not KINDS[refusal.reason].retry:
        return None
    return max(1, math.ceil((refusal.retry_in or SECOND) / SECOND))


def _instant(at: int | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="milliseconds")
