"""What has happened, in the past tense; logs, metrics and pages are made from these.

No body, no header value but the contract's own (fence, key, holder), no query string.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A guarded call was answered: forwarded, replayed or refused."""

    ref: str
    decision: str | None
    status: int
    upstream: str
    method: str
    entity: str | None
    fence: int | None
    key: str | None
    holder: str | None
    code: str | None
    high_water: int | None
    attempt: int | None
    outcome: str | None
    settlement: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class CallUnread:
    """A call was refused before the ledger was asked."""

    ref: str
    status: int
    code: str


@dataclass(frozen=True, slots=True)
class CallObserved:
    """A call was forwarded, whatever the law would have said: `forwarded`, `would-replay`, or
    `would-refuse` and why."""

    ref: str
    decision: str
    code: str | None
    status: int
    upstream: str
    route: str | None
    method: str
    entity: str | None = None
    fence: int | None = None
    key: str | None = None
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class NoteTaken:
    """The journal holds more than a refusal: an overtaking, a possible duplicate, ..."""

    ref: str
    kind: str
    entity: str | None
    key: str | None
    other_key: str | None
    apart: float | None


@dataclass(frozen=True, slots=True)
class CallerLeft:
    """The client hung up while its call waited."""

    ref: str
    entity: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class HoldLost:
    """An open attempt's hold ran out or was taken; it is not sent any more."""

    attempt: str


@dataclass(frozen=True, slots=True)
class LedgerFailed:
    """The ledger could not be asked."""

    step: str
    why: str
    unclear: bool


@dataclass(frozen=True, slots=True)
class GatewayStarted:
    ledger: str
    upstreams: int
    routes: int
    listen: str = ""
    admin: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyWarned:
    """A finding in the policies that does not keep them from being used."""

    place: str
    code: str
    wrong: str


@dataclass(frozen=True, slots=True)
class PoliciesReloaded:
    """Calls that begin from now on are read by other policies."""

    upstreams: int
    routes: int
    warnings: int


@dataclass(frozen=True, slots=True)
class ReloadRefused:
    """The policies of before hold on. `why` names files and settings, never their values."""

    problems: int
    why: str


@dataclass(frozen=True, slots=True)
class GatewayDraining:
    """The gateway goes away: in `delay` seconds it takes no more calls, and what is under way then
    may take `timeout` seconds."""

    delay: float
    timeout: float


@dataclass(frozen=True, slots=True)
class GatewayStopped:
    """All that was under way has ended, but for `unsettled` outcomes that were not recorded."""

    unsettled: int


Event = (
    CallEnded
    | CallUnread
    | CallObserved
    | NoteTaken
    | CallerLeft
    | HoldLost
    | LedgerFailed
    | GatewayStarted
    | PolicyWarned
    | PoliciesReloaded
    | ReloadRefused
    | GatewayDraining
    | GatewayStopped
)
