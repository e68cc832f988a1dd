"""What is kept of an outcome: without the parts of an answer that a route does not want kept."""

from __future__ import annotations

from dataclasses import replace

from fencegate.core.bodies import media_type
from fencegate.core.outcomes import (
    Answer,
    Headers,
    Outcome,
    RefusedBeforeWork,
    Responded,
    Unkept,
)
from fencegate.core.strict_json import (
    Duplicate,
    Missing,
    NotJson,
    TooDeep,
    compact,
    parse,
    pointer,
    without,
)
from fencegate.gateway.order import Order

REDACTED = (b"fencegate-redacted", b"true")
# They would speak of bytes that are gone.
_OF_THE_BYTES = frozenset({b"content-digest", b"content-md5", b"digest", b"etag", b"repr-digest"})


def kept_of(order: Order, outcome: Outcome) -> Outcome:
    """The outcome as it is kept: not at all where nothing is recorded under a key, and without
    what the route redacts. An answer that cannot be redacted is not kept."""
    if isinstance(outcome, Responded) and not order.recorded:
        return RefusedBeforeWork(outcome.kept.status or 0)
    places = order.route.redact
    if not places or not isinstance(outcome, Responded) or isinstance(outcome.kept, Unkept):
        return outcome
    return Responded(_redacted(outcome.kept, places))


def _redacted(answer: Answer, places: tuple[str, ...]) -> Answer | Unkept:
    if not answer.body:
        return answer
    if not _plain_json(answer.headers):
        return answer.unkept()
    value = parse(answer.body)
    if isinstance(value, NotJson | Duplicate | TooDeep):
        return answer.unkept()
    if all(isinstance(pointer(value, place), Missing) for place in places):
        return answer
    headers = tuple(h for h in answer.headers if h[0].lower() not in _OF_THE_BYTES)
    try:
        body = compact(without(value, places))
    except ValueError:
        return answer.unkept()
    return replace(answer, headers=(*headers, REDACTED), body=body)


def _plain_json(headers: Headers) -> bool:
    """JSON in UTF-8, in no content coding."""
    types = [value for name, value in headers if name.lower() == b"content-type"]
    if len(types) != 1 or any(name.lower() == b"content-encoding" for name, _ in headers):
        return False
    essence, _, charset = media_type(types[0]).partition(b";charset=")
    is_json = essence == b"application/json" or essence.endswith(b"+json")
    return is_json and charset in (b"", b"utf-8")
