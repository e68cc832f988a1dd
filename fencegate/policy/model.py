"""The shape of policy files: which keys there are, what each holds, and what holds by default.

A file has one `upstream` and its `routes`; `gateway.yaml` has `gateway` and `defaults`. A route
setting may stand in a route, in `upstream` or in `defaults`; the nearest wins, as a whole. The
example of a key is what an error about it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from fencegate.core.model import (
    DAY,
    SECOND,
    FenceLead,
    Micros,
    OneEffectPer,
    OnUnknown,
    Predecessor,
    StaleReplay,
)
from fencegate.core.outcomes import Statuses
from fencegate.policy import values
from fencegate.policy.paths import Pattern, parse_pattern
from fencegate.policy.routes import Guard, Unmatched
from fencegate.policy.templates import Template, entity_template, key_template
from fencegate.policy.units import duration, size, span
from fencegate.policy.values import Url

# --- defaults ------------------------------------------------------------------------------

HOLD: Micros = 15 * SECOND  # three renewals: one slow answer of the ledger loses nothing
TOMBSTONE: Micros = 400 * DAY  # a yearly job that is run again by mistake is still refused
RETENTION: Micros = DAY  # as long as payment APIs commonly remember a key
TIMEOUT: Micros = 30 * SECOND  # longer than most APIs work, shorter than most callers wait
CONNECT_TIMEOUT: Micros = 5 * SECOND  # room for a lost SYN or two, sent again after 1 s and 3 s
REUSE_WITHIN: Micros = 2 * SECOND  # below the shortest keep-alive in common use, Node's 5 s
DUPLICATE_WAIT: Micros = 5 * SECOND  # the second of a double click gets the first one's answer
PREDECESSOR_WAIT: Micros = 5 * SECOND  # most calls end by then; who is refused comes again
BODY_LIMIT = 1 << 20  # a body is read whole before it is judged, so it is held in memory
ANSWER_LIMIT = 1 << 20  # an answer is kept in the ledger for as long as `retention`
RESEND_LIMIT = 3  # an upstream that needs more resends is down
MAX_FENCE_LEAD = FenceLead(DAY, clock=True)  # our leases number by the clock, in microseconds

# --- kinds of values -----------------------------------------------------------------------

T = TypeVar("T")
W = TypeVar("W", bound=StrEnum)


def _text(read: Callable[[str], T]) -> PlainValidator:
    def validate(written: object) -> T:
        if isinstance(written, str):
            return read(written)
        raise ValueError("must be a text; put it in quotes")

    return PlainValidator(validate)


def _word(*words: W) -> PlainValidator:
    return PlainValidator(lambda written: values.one_of(written, words))


Duration = Annotated[Micros, PlainValidator(duration)]
Span = Annotated[Micros, PlainValidator(span)]
Size = Annotated[int, PlainValidator(size)]

# --- sections ------------------------------------------------------------------------------


class Section(BaseModel):
    """A table of known keys; its repr shows no value, since headers may be secret."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self.model_fields_set))})"


def _key(example: str, default: Any = None) -> Any:
    return Field(default, examples=[example])


class FingerprintSettings(Section):
    """What of a request need not, or must too, be the same in a retry."""

    ignore: list[Annotated[str, _text(values.read_pointer)]] = _key("ignore: [/sent_at]", [])
    headers: list[Annotated[str, _text(values.read_header_name)]] = _key(
        "headers: [Stripe-Account]", []
    )


class RouteSettings(Section):
    """What may stand in a route, in `upstream` or in `defaults`.

    Whether a key is stated is asked of `model_fields_set`. Without a stated guard, reads have
    none and all else is guarded in full.
    """

    guard: Annotated[Guard | None, _word(*Guard)] = _key("guard: full")
    entity: Annotated[Template | None, _text(entity_template)] = _key(
        "entity: invoice:{path.invoice}"
    )
    key: Annotated[Template | None, _text(key_template)] = _key(
        "key: payment:{path.invoice}:capture"
    )
    on_unknown: Annotated[OnUnknown, _word(OnUnknown.REFUSE, OnUnknown.RESEND)] = _key(
        "on_unknown: refuse", OnUnknown.REFUSE
    )
    resend_limit: Annotated[int, PlainValidator(values.read_count)] = _key(
        "resend_limit: 3", RESEND_LIMIT
    )
    stale_replay: Annotated[StaleReplay, _word(*StaleReplay)] = _key(
        "stale_replay: replay", StaleReplay.REPLAY
    )
    predecessor: Annotated[Predecessor, _word(*Predecessor)] = _key(
        "predecessor: refuse", Predecessor.REFUSE
    )
    predecessor_wait: Duration = _key("predecessor_wait: 5s", PREDECESSOR_WAIT)
    duplicate_wait: Duration = _key("duplicate_wait: 5s", DUPLICATE_WAIT)
    one_effect_per: Annotated[OneEffectPer, _word(*OneEffectPer)] = _key(
        "one_effect_per: key", OneEffectPer.KEY
    )
    fingerprint: FingerprintSettings = _key(
        "fingerprint:\n  ignore: [/sent_at]", FingerprintSettings()
    )
    max_fence_lead: Annotated[FenceLead | Literal["off"], PlainValidator(values.read_lead)] = _key(
        "max_fence_lead: clock+1d", MAX_FENCE_LEAD
    )
    retention: Duration = _key("retention: 24h", RETENTION)
    timeout: Span = _key("timeout: 30s", TIMEOUT)
    connect_timeout: Span = _key("connect_timeout: 5s", CONNECT_TIMEOUT)
    body_limit: Size = _key("body_limit: 1MiB", BODY_LIMIT)
    answer_limit: Size = _key("answer_limit: 1MiB", ANSWER_LIMIT)
    refused_statuses: list[
        Annotated[frozenset[int], PlainValidator(values.read_refused_status)]
    ] = _key("refused_statuses: [401, 403, 407, 425, 429, 503]", [Statuses().refused])
    unknown_statuses: list[Annotated[frozenset[int], PlainValidator(values.read_status)]] = _key(
        "unknown_statuses: [408, 5xx]", [Statuses().unknown]
    )


class RouteSection(RouteSettings):
    match: Annotated[Pattern, _text(parse_pattern)] = _key("match: POST /v1/charges/{charge}", ...)


class UpstreamSection(RouteSettings):
    """`headers` hold `${NAME}` as written: no secret gets in here.

    `key_window`: how long the upstream remembers an Idempotency-Key and answers a repeated one
    without doing its work again. Unstated: it does not.
    """

    name: Annotated[str, _text(values.read_name)] = _key("name: payments", ...)
    mount: Annotated[str, _text(values.read_mount)] = _key("mount: /payments", ...)
    url: Annotated[Url, _text(values.read_url)] = _key("url: https://api.payments.example", ...)
    kind: Literal["generic"] = _key("kind: generic", "generic")
    key_window: Span | None = _key("key_window: 24h")
    reuse_within: Duration = _key("reuse_within: 2s", REUSE_WITHIN)
    headers: dict[str, str] = _key("headers:\n  Authorization: Bearer ${PAYMENTS_KEY}", {})


class UpstreamFile(Section):
    upstream: UpstreamSection = _key(
        "upstream:\n  name: payments\n  mount: /payments\n  url: https://api.payments.example", ...
    )
    routes: list[RouteSection] = _key(
        "routes:\n  - match: POST /v1/charges/{charge}\n    entity: charge:{path.charge}", []
    )


class GatewaySection(Section):
    hold: Span = _key("hold: 15s", HOLD)
    tombstone: Duration = _key("tombstone: 400d", TOMBSTONE)
    unmatched: Annotated[Unmatched, _word(*Unmatched)] = _key("unmatched: refuse", Unmatched.REFUSE)


class GatewayFile(Section):
    gateway: GatewaySection = _key("gateway:\n  hold: 15s", GatewaySection())
    defaults: RouteSettings = _key("defaults:\n  retention: 24h", RouteSettings())
