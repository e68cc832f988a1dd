"""What the law speaks of: a call, what the ledger holds, and what the law says.

All values are frozen. A rule takes a `Snapshot` and returns a `Ruling`: its verdict and the
snapshot as it should become; a ledger writes what differs. Instants and durations are whole
microseconds by the ledger's clock, so that every ledger computes them exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, NewType, TypeVar

from fencegate.core.fingerprint import Fingerprint, Scheme
from fencegate.core.outcomes import Answer, Evidence, Unkept
from fencegate.core.reasons import Reason

Instant = int
Micros = int
AttemptId = NewType("AttemptId", str)
SECOND: Micros = 1_000_000
DAY: Micros = 86_400 * SECOND
NO_ENTITY = ":keys"


@dataclass(frozen=True, slots=True, order=True)
class EntityId:
    """What a side effect changes, within the domain of one issuer of fences.

    A domain with a colon is the gateway's own: `:keys` is that of calls which have no entity,
    `observe:` and a domain that of what is only observed.
    """

    domain: str
    name: str

    @property
    def shown(self) -> str | None:
        """The name as callers know it; None where the call has no entity."""
        return None if self.domain.endswith(NO_ENTITY) else self.name


@dataclass(frozen=True, slots=True, order=True)
class RecordId:
    """Where a record is found. `caller` is None where no callers are configured."""

    upstream: str
    caller: str | None
    key: str


# --- the call ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """What this call has been through: it may be admitted again, never with more rights.

    `found` is the attempt that it had found unknown before it first waited; only that one may
    it resend. The two `*_over` say that a wait has ended: what would wait again is decided.
    """

    waited: bool = False
    found: AttemptId | None = None
    duplicate_wait_over: bool = False
    predecessor_wait_over: bool = False
    probed: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One guarded request. `attempt` is the id that its attempt gets if it goes."""

    upstream: str
    caller: str | None
    credential: str
    entity: EntityId
    fence: int
    key: str
    prints: tuple[Fingerprint, ...]
    attempt: AttemptId
    holder: str | None = None
    asked: Asked = Asked()

    @property
    def record_id(self) -> RecordId:
        return RecordId(self.upstream, self.caller, self.key)

    def print_under(self, scheme: Scheme) -> Fingerprint | None:
        return next((p for p in self.prints if p.scheme == scheme), None)


# --- the terms of a route ------------------------------------------------------------------


class OnUnknown(StrEnum):
    REFUSE = "refuse"
    RESEND = "resend"
    PROBE = "probe"


class Predecessor(StrEnum):
    REFUSE = "refuse"
    PROCEED = "proceed"
    IGNORE = "ignore"


class StaleReplay(StrEnum):
    REPLAY = "replay"
    REFUSE = "refuse"


class OneEffectPer(StrEnum):
    KEY = "key"
    INTENT = "intent"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class FenceLead:
    """How far a fence may run ahead: of high water, or (`clock`) of the larger of it and now."""

    ahead: int
    clock: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """What a route and its upstream say about admission. `max_fence_lead` None is `off`.

    `key_window` is how long the upstream remembers our key; None means that it does not
    de-duplicate by it.
    """

    hold: Micros = 15 * SECOND
    timeout: Micros = 30 * SECOND
    retention: Micros = DAY
    tombstone: Micros = 400 * DAY
    max_fence_lead: FenceLead | None = FenceLead(DAY, clock=True)
    stale_replay: StaleReplay = StaleReplay.REPLAY
    on_unknown: OnUnknown = OnUnknown.REFUSE
    resend_limit: int = 3
    key_window: Micros | None = None
    predecessor: Predecessor = Predecessor.REFUSE
    one_effect_per: OneEffectPer = OneEffectPer.KEY


# --- what the ledger holds -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attempt:
    """One admitted try. `doubtful_since` and `ended_at` are set once it may have been sent:
    when it became unknown, and when its gateway reported its end (or was declared gone)."""

    id: AttemptId
    number: int
    fence: int
    holder: str | None
    admitted_at: Instant
    doubtful_since: Instant | None = None
    ended_at: Instant | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Disowned:
    """An attempt that an operator or a probe called not applied; its id is kept `until` then."""

    attempt: Attempt
    until: Instant


@dataclass(frozen=True, slots=True)
class Open:
    """Sending, or listening after our own timeout. From `yields_at` on a streamed answer holds
    up no successor."""

    hold_until: Instant
    listening: bool = False
    yields_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Done:
    answer: Answer | Unkept
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class Unknown:
    """The current attempt may have had its effect; since when stands in the attempt."""


@dataclass(frozen=True, slots=True)
class Expired:
    """A tombstone: the key was used, its answer or its doubt is no longer kept."""

    at: Instant


@dataclass(frozen=True, slots=True)
class Freed:
    """No record, for every row of the law; kept for the late answers of disowned attempts."""


State = Open | Done | Unknown | Expired | Freed


@dataclass(frozen=True, slots=True)
class Record:
    """What the ledger holds for a key.

    `attempts` are those that may have been sent, oldest first; the last is the current one
    (none in a freed record). `tries` counts all that were ever admitted.
    """

    id: RecordId
    credential: str
    fingerprint: Fingerprint
    entity: EntityId
    attempts: tuple[Attempt, ...]
    state: State
    tries: int
    hold: Micros
    retention: Micros
    tombstone: Micros
    disowned: tuple[Disowned, ...] = ()

    @property
    def current(self) -> Attempt:
        return self.attempts[-1]

    @property
    def fence(self) -> int:
        return self.current.fence

    def holds(self, attempt: AttemptId) -> bool:
        return any(a.id == attempt for a in self.attempts)

    def with_current(self, attempt: Attempt, state: State) -> Record:
        return replace(self, attempts=(*self.attempts[:-1], attempt), state=state)


@dataclass(frozen=True, slots=True)
class Entity:
    """The row of an entity: the largest fence accepted, by whom and when."""

    id: EntityId
    high_water: int = 0
    holder: str | None = None
    accepted_at: Instant | None = None
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Other:
    """Another key's record on the same entity, open or unknown."""

    fence: int
    state: Open | Unknown


@dataclass(frozen=True, slots=True)
class Intent:
    """What the entity's index names for a call's intent, and since when."""

    key: RecordId
    since: Instant


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the law looks at.

    `record` is the key's; where the key has none and the route says one effect per intent, it
    is the record that `intent` names. `others` are the open and unknown records of other keys
    on the entity with a fence below the call's; one witness of each kind is enough.
    `latest` is the latest instant that the ledger has seen on its clock.
    """

    entity: Entity
    record: Record | None = None
    others: tuple[Other, ...] = ()
    intent: Intent | None = None
    latest: Instant = 0

    def with_record(self, record: Record | None) -> Snapshot:
        return Snapshot(self.entity, record, self.others, self.intent, self.latest)


# --- what the law says ---------------------------------------------------------------------


class NoteKind(StrEnum):
    """What a ruling puts in the journal besides a refusal."""

    OVERTOOK_UNKNOWN = "overtook_unknown"
    POSSIBLE_DUPLICATE = "possible_duplicate"
    OUTCOME_CONTRADICTED = "outcome_contradicted"
    SETTLEMENT_SUPERSEDED = "settlement_superseded"


@dataclass(frozen=True, slots=True)
class Note:
    kind: NoteKind
    other_key: str | None = None
    apart: Micros | None = None


Verdict = TypeVar("Verdict", covariant=True)


@dataclass(frozen=True, slots=True)
class Ruling(Generic[Verdict]):
    """A verdict, the snapshot as it should become, and what the journal must hold."""

    verdict: Verdict
    left: Snapshot
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Go:
    """Forward once, if the first byte leaves within `hold_left` (and `window_left`) of asking.

    `earlier` says that an earlier attempt under the key may have been sent.
    """

    attempt: AttemptId
    number: int
    record_id: RecordId
    high_water: int
    hold_left: Micros
    window_left: Micros | None = None
    earlier: bool = False


class WaitFor(StrEnum):
    KEY = "key"
    PREDECESSOR = "predecessor"


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing was recorded but high water: ask again when what it waits for has ended, or when
    its hold runs out in `lapses_in`."""

    on: WaitFor
    record_id: RecordId
    lapses_in: Micros
    found: AttemptId | None


@dataclass(frozen=True, slots=True)
class Replay:
    answer: Answer
    high_water: int
    stale: bool
    matched_by_intent: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """`sent`: may an attempt under this key have reached the upstream; None where unsaid.

    `state` is the record's in one word, `parts` the parts of the request that differ,
    `status` that of the answer which is no longer kept.
    """

    reason: Reason
    high_water: int
    holder: str | None
    accepted_at: Instant | None
    sent: bool | None
    state: str | None = None
    parts: tuple[str, ...] = ()
    status: int | None = None
    retry_in: Micros | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the upstream whether this attempt was applied, then be admitted once more."""

    record_id: RecordId
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class Compare:
    """The record was made under another scheme: come again with a fingerprint under it."""

    scheme: Scheme


Decision = Go | Wait | Replay | Refuse | Probe | Compare


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome is the record's; `state` is what it became, in one word."""

    state: str


@dataclass(frozen=True, slots=True)
class Released:
    """The attempt was undone: the key is free, or (`unknown`) an earlier attempt may stand."""

    unknown: bool


@dataclass(frozen=True, slots=True)
class Superseded:
    """No record was changed: it is closed or another attempt's. `nothing`: the attempt that was to
    be undone is not there, and may yet come."""

    nothing: bool = False


Settlement = Settled | Released | Superseded


@dataclass(frozen=True, slots=True)
class Held:
    hold_left: Micros


@dataclass(frozen=True, slots=True)
class Lost:
    """The hold ran out or the attempt is no longer the record's; it can never be renewed."""


Renewal = Held | Lost


def word_of(state: State) -> str:
    """The state of a record in one word, as headers, events and pages say it."""
    match state:
        case Open(listening=listening):
            return "listening" if listening else "sending"
        case Done():
            return "done"
        case Unknown():
            return "unknown"
        case Expired():
            return "expired"
        case Freed():
            return "free"
