"""How a forwarded call ended: an outcome is a value, and doubt is one of them.

`judge` says what an upstream's complete answer means. Everything that is not an answer is named
where it happens: `NotSent` with proof that no byte was written, `OutcomeUnknown` otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """An upstream's complete answer: end-to-end headers in order, body bytes as received."""

    status: int
    headers: Headers
    body: bytes

    def __repr__(self) -> str:
        return f"Answer({self.status}, {len(self.headers)} headers, {len(self.body)} bytes)"

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()

    def unkept(self) -> Unkept:
        """The same answer without its body: status, headers, length and digest are kept."""
        return Unkept(self.status, self.headers, len(self.body), self.digest)


@dataclass(frozen=True, slots=True, repr=False)
class Unkept:
    """An answer that is not kept: too large, erased, or never seen (status None)."""

    status: int | None = None
    headers: Headers = ()
    length: int | None = None
    digest: str | None = None

    def __repr__(self) -> str:
        return f"Unkept({self.status}, {self.length} bytes)"


class Doubt(StrEnum):
    """Why an attempt is unknown."""

    HOLD_RAN_OUT = "hold_ran_out"
    TIMEOUT = "timeout"
    CONNECTION_LOST = "connection_lost"
    BROKEN_ANSWER = "broken_answer"
    UNKNOWN_STATUS = "unknown_status"
    CONFLICT_WITH_EARLIER = "conflict_with_earlier"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of an unknown attempt: why it is in doubt, and the status if there was one."""

    doubt: Doubt
    status: int | None = None


class Unsent(StrEnum):
    """Why provably no byte of an attempt was written."""

    NO_CONNECTION = "no_connection"
    HOLD_BAD = "hold_bad"
    ACKNOWLEDGEMENT_UNCLEAR = "acknowledgement_unclear"


@dataclass(frozen=True, slots=True)
class Responded:
    """The upstream answered; the record is done. `kept` is what a replay will need."""

    kept: Answer | Unkept


@dataclass(frozen=True, slots=True)
class RefusedBeforeWork:
    """The upstream answered with a status that says it did no work; the attempt is undone."""

    status: int


@dataclass(frozen=True, slots=True)
class NotSent:
    """Provably no byte was written; the attempt is undone."""

    why: Unsent


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Our own timeout has passed; the gateway listens on and settles again when it ends."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """The head of a streamed answer has come; successors are held up for `stream_hold` more."""

    stream_hold: int


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """Something may have been sent and nobody knows how it ended; the gateway has let go."""

    evidence: Evidence


Outcome = Responded | RefusedBeforeWork | NotSent | TimedOut | Streaming | OutcomeUnknown


@dataclass(frozen=True, slots=True)
class Statuses:
    """What an upstream's statuses mean where they are no plain answer."""

    refused: frozenset[int] = frozenset({401, 403, 407, 425, 429})
    unknown: frozenset[int] = frozenset({408, *range(500, 600)})
    conflict: frozenset[int] = frozenset({409})


def judge(answer: Answer, statuses: Statuses, *, earlier: bool, answer_limit: int) -> Outcome:
    """What a complete answer means. `earlier`: an earlier attempt under the key may stand."""
    status = answer.status
    if status in statuses.refused:
        return RefusedBeforeWork(status)
    if status in statuses.conflict and earlier:
        return OutcomeUnknown(Evidence(Doubt.CONFLICT_WITH_EARLIER, status))
    if status in statuses.unknown or not 200 <= status < 600:
        return OutcomeUnknown(Evidence(Doubt.UNKNOWN_STATUS, status))
    kept = answer if len(answer.body) <= answer_limit else answer.unkept()
    return Responded(kept)
