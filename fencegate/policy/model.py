"""The shape of policy files: which keys there are, what each holds, and what holds by default.

A file has one `upstream` and its `routes`; `gateway.yaml` has `gateway`, `callers` and
`defaults`. A route setting may stand in a route, in `upstream` or in `defaults`; the nearest wins,
as a whole. The example of a key is what an error about it shows, and its description is what the
schema says.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

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
from fencegate.policy import kinds
from fencegate.policy.kinds import Calls, Count, Duration, Size, Span, word, words
from fencegate.policy.routes import EncodedSlash, Guard, Mode, Unmatched

# --- defaults ------------------------------------------------------------------------------

HOLD: Micros = 15 * SECOND  # three renewals: one slow answer of the ledger loses nothing
TOMBSTONE: Micros = 400 * DAY  # a yearly job that is run again by mistake is still refused
RETENTION: Micros = DAY  # as long as payment APIs commonly remember a key
TIMEOUT: Micros = 30 * SECOND  # longer than most APIs work, shorter than most callers wait
CONNECT_TIMEOUT: Micros = 5 * SECOND  # room for a lost SYN or two, sent again after 1 s and 3 s
REUSE_WITHIN: Micros = 2 * SECOND  # below the shortest keep-alive in common use, Node's 5 s
DUPLICATE_WAIT: Micros = 5 * SECOND  # the second of a double click gets the first one's answer
PREDECESSOR_WAIT: Micros = 5 * SECOND  # most calls end by then; who is refused comes again
LATE_ANSWER: Micros = 120 * SECOND  # most upstreams have given up on a request by then
STREAM_HOLD: Micros = 60 * SECOND  # an entity is not held up by a stream without end
DRAIN_DELAY: Micros = 5 * SECOND  # a load balancer has seen `/readyz` by then
BODY_LIMIT = 1 << 20  # a body is read whole before it is judged, so it is held in memory
ANSWER_LIMIT = 1 << 20  # an answer is kept in the ledger for as long as `retention`
RESEND_LIMIT = 3  # an upstream that needs more resends is down
POOL = 64  # idle connections; more than this are seldom of use within `reuse_within`
MAX_FENCE_LEAD = FenceLead(DAY, clock=True)  # our leases number by the clock, in microseconds

# --- sections ------------------------------------------------------------------------------


class Section(BaseModel):
    """A table of known keys; its repr shows no value, since headers may be secret."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self.model_fields_set))})"


def _key(example: str, about: str, default: Any = None) -> Any:
    return Field(default, examples=[example], description=about)


class FingerprintSettings(Section):
    """What of a request need not, or must too, be the same in a retry."""

    ignore: list[kinds.Pointer] = _key(
        "ignore: [/sent_at]", "JSON pointers to places in the body that may differ.", []
    )
    headers: list[kinds.Header] = _key(
        "headers: [Stripe-Account]", "Header fields that must be the same.", []
    )


class AnswersSection(Section):
    """What an answer to a probe must be."""

    status: kinds.OneStatus = _key("status: 200", "The status of the answer.", ...)
    json_: dict[kinds.Pointer, kinds.JsonValue] = Field(
        {},
        alias="json",
        examples=["json: {/state: captured}"],
        description="Values that its JSON body must have, by JSON pointer.",
    )


class ProbeSection(Section):
    """A question to the upstream: was this call applied?"""

    get: kinds.Place = _key(
        "get: /charges/{path.charge}", "What is asked for, under the upstream's URL.", ...
    )
    applied: AnswersSection = _key("applied: {status: 200}", "The answer that says yes.", ...)
    not_applied: AnswersSection | None = _key(
        "not_applied: {status: 404}", "The answer that says no."
    )
    after: Duration | None = _key(
        "after: 2m", "How long after the attempt a no is believed; `late_answer` if unstated."
    )
    timeout: Span = _key("timeout: 2s", "How long the answer may take.", 2 * SECOND)


class RouteSettings(Section):
    """What may stand in a route, in `upstream` or in `defaults`. The nearest wins."""

    guard: Annotated[Guard | None, word(*Guard), words(Guard)] = _key(
        "guard: full",
        "What a call must bring: a fence and a key, one of them, or nothing. Unstated: reads (GET,"
        " HEAD, OPTIONS) nothing, all else both.",
    )
    entity: kinds.EntityReading = _key(
        "entity: invoice:{path.invoice}", "What a call changes: a template, or several that agree."
    )
    fence: kinds.FenceReading = _key(
        'fence: ["{header.x-execution-fence}", "{json./execution_fence}"]',
        "Where the fence stands; in X-Execution-Fence if unstated.",
    )
    key: kinds.KeyReading = _key(
        "key: payment:{path.invoice}:capture",
        "The idempotency key: where it stands, or how it is made; Idempotency-Key if unstated.",
    )
    fence_domain: kinds.Domain = _key(
        "fence_domain: billing", "Whose numbers the fences are; fences compare within one.", ""
    )
    fence_secret: str | None = _key(
        "fence_secret: ${FENCE_SECRET}",
        "The key of the proof (HMAC-SHA256) that X-Execution-Fence-Proof must carry.",
    )
    on_unknown: Annotated[OnUnknown, word(*OnUnknown), words(OnUnknown)] = _key(
        "on_unknown: refuse",
        "What a retry gets whose first call ended unknown: refuse, resend or probe.",
        OnUnknown.REFUSE,
    )
    resend_limit: Count = _key("resend_limit: 3", "Resends of one key at most.", RESEND_LIMIT)
    encoded_slash: Annotated[EncodedSlash, word(*EncodedSlash), words(EncodedSlash)] = _key(
        "encoded_slash: refuse", "What becomes of %2F in a path.", EncodedSlash.REFUSE
    )
    stream_hold: Duration = _key(
        "stream_hold: 60s", "How long a streamed answer holds up higher fences.", STREAM_HOLD
    )
    stale_replay: Annotated[StaleReplay, word(*StaleReplay), words(StaleReplay)] = _key(
        "stale_replay: replay", "May a lower fence read a kept answer?", StaleReplay.REPLAY
    )
    predecessor: Annotated[Predecessor, word(*Predecessor), words(Predecessor)] = _key(
        "predecessor: refuse",
        "What becomes of a call when a lower fence is still on the wire after the wait.",
        Predecessor.REFUSE,
    )
    predecessor_wait: Duration = _key(
        "predecessor_wait: 5s", "How long a call waits for a lower fence.", PREDECESSOR_WAIT
    )
    duplicate_wait: Duration = _key(
        "duplicate_wait: 5s", "How long a duplicate waits for the first call.", DUPLICATE_WAIT
    )
    one_effect_per: Annotated[OneEffectPer, word(*OneEffectPer), words(OneEffectPer)] = _key(
        "one_effect_per: key",
        "Whether the same request under a new key is another call, or is only warned about.",
        OneEffectPer.KEY,
    )
    fingerprint: FingerprintSettings = _key(
        "fingerprint:\n  ignore: [/sent_at]",
        "What of a request need not be the same in a retry.",
        FingerprintSettings(),
    )
    max_fence_lead: kinds.Lead = _key(
        "max_fence_lead: clock+1d", "How far ahead a fence may run.", MAX_FENCE_LEAD
    )
    retention: Duration = _key("retention: 24h", "How long an answer is kept.", RETENTION)
    timeout: Span = _key("timeout: 30s", "From the last byte sent to the answer's head.", TIMEOUT)
    connect_timeout: Span = _key(
        "connect_timeout: 5s", "How long a connection may take.", CONNECT_TIMEOUT
    )
    late_answer: Duration = _key(
        "late_answer: 2m", "How long to listen on after our own timeout.", LATE_ANSWER
    )
    body_limit: Size = _key("body_limit: 1MiB", "A larger request is refused.", BODY_LIMIT)
    answer_limit: Size = _key("answer_limit: 1MiB", "A larger answer is not kept.", ANSWER_LIMIT)
    refused_statuses: list[kinds.RefusedStatus] = _key(
        "refused_statuses: [401, 403, 407, 425, 429, 503]",
        "Statuses with which the upstream says that it did nothing; by default 401, 403, 407, 425"
        " and 429.",
        [Statuses().refused],
    )
    unknown_statuses: list[kinds.Status] = _key(
        "unknown_statuses: [408, 5xx]",
        "Statuses after which nobody knows whether it did; by default 408 and 5xx.",
        [Statuses().unknown],
    )
    redact: list[kinds.Pointer] = _key(
        "redact: [/card/number]", "JSON pointers to what is not kept of an answer.", []
    )
    probe: ProbeSection | None = _key(
        "probe:\n  get: /charges/{path.charge}\n  applied: {status: 200}",
        "How to ask the upstream whether an unknown call was applied.",
    )
    max_concurrent: Calls | None = _key(
        "max_concurrent: 100", "Calls at once at most; one more is refused at once."
    )
    mode: Annotated[Mode | None, word(*Mode), words(Mode)] = _key(
        "mode: enforce", "Do what the law says, or only report what it would say."
    )


class RouteSection(RouteSettings):
    match: kinds.Match = _key(
        "match: POST /v1/charges/{charge}",
        "Methods and path: {x} is one segment, ** the rest. The first route that matches wins.",
        ...,
    )


class TlsSection(Section):
    """Files for the connection to the upstream."""

    ca: kinds.File = _key("ca: /etc/ssl/payments-ca.pem", "Whom to trust, instead of the system's.")
    cert: kinds.File = _key("cert: /etc/ssl/client.pem", "Our certificate.")
    key: kinds.File = _key("key: /etc/ssl/client.key", "Its key, where it is a file of its own.")


class UpstreamSection(RouteSettings):
    """`headers` hold `${NAME}` as written: no secret gets in here."""

    name: kinds.Name = _key(
        "name: payments", "Part of every record: another name knows no key of this one.", ...
    )
    mount: kinds.Mount = _key(
        "mount: /payments", "Where callers find it; taken off what the upstream is asked for.", ...
    )
    url: kinds.Address = _key("url: https://api.payments.example", "Where it is.", ...)
    kind: Literal["generic", "stripe"] = _key(
        "kind: generic", "What is known of the API: generic assumes nothing.", "generic"
    )
    key_header: kinds.KeyHeader = _key(
        "key_header: Idempotency-Key", "The header in which the upstream wants the key."
    )
    key_window: Span | None = _key(
        "key_window: 24h",
        "How long the upstream remembers a key, and answers a repeated one without doing its work"
        " again. Unstated: it does not.",
    )
    reuse_within: Duration = _key(
        "reuse_within: 2s", "How long an idle connection is trusted.", REUSE_WITHIN
    )
    pool: Count = _key("pool: 64", "Idle connections that are kept.", POOL)
    tls: TlsSection = _key("tls:\n  ca: /etc/ssl/payments-ca.pem", "Whom to trust.", TlsSection())
    headers: dict[str, str] = _key(
        "headers:\n  Authorization: Bearer ${PAYMENTS_KEY}",
        "Set on every request. ${NAME} is from the environment, ${file:/path} from a file.",
        {},
    )


class UpstreamFile(Section):
    upstream: UpstreamSection = _key(
        "upstream:\n  name: payments\n  mount: /payments\n  url: https://api.payments.example",
        "The API behind the gateway, and settings for all of its routes.",
        ...,
    )
    routes: list[RouteSection] = _key(
        "routes:\n  - match: POST /v1/charges/{charge}\n    entity: charge:{path.charge}",
        "What is asked of which calls.",
        [],
    )


class GatewaySection(Section):
    hold: Span = _key("hold: 15s", "How long an open record is held without renewal.", HOLD)
    late_answer: Duration = _key(
        "late_answer: 2m", "How long to listen on after our own timeout.", LATE_ANSWER
    )
    drain_delay: Duration = _key(
        "drain_delay: 5s", "How long calls are still taken after SIGTERM.", DRAIN_DELAY
    )
    drain_timeout: Duration | None = _key(
        "drain_timeout: 65s", "How long open calls may take then; the largest timeout and 5 s."
    )
    tombstone: Duration = _key("tombstone: 400d", "How long an expired key is refused.", TOMBSTONE)
    unmatched: Annotated[Unmatched, word(*Unmatched), words(Unmatched)] = _key(
        "unmatched: refuse", "What becomes of a write that no route covers.", Unmatched.REFUSE
    )
    mode: Annotated[Mode, word(*Mode), words(Mode)] = _key(
        "mode: enforce", "Do what the law says, or only report what it would say.", Mode.ENFORCE
    )
    fold: Literal["case"] | None = _key("fold: case", "Entities that differ in case only are one.")


class CallerSection(Section):
    name: kinds.Name = _key("name: billing-agents", "A stable name: it is part of records.", ...)
    token_sha256: list[kinds.Digest] = _key(
        "token_sha256: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]",
        "SHA-256 digests of its tokens; several, to replace one without a gap.",
        ...,
    )


class GatewayFile(Section):
    gateway: GatewaySection = _key(
        "gateway:\n  hold: 15s", "Settings of the gateway itself.", GatewaySection()
    )
    callers: Annotated[list[CallerSection] | None, BeforeValidator(kinds.callers_or_off)] = Field(
        None,
        examples=["callers:\n  - name: billing-agents\n    token_sha256: [9f86d081...]"],
        description="Who may make calls; `off` says that nobody is asked.",
        json_schema_extra=kinds.or_off,
    )
    defaults: RouteSettings = _key(
        "defaults:\n  retention: 24h", "Route settings for all upstreams.", RouteSettings()
    )
