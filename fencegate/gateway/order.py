"""What intake makes of a request: a call, and all that is needed to carry it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from fencegate.core.attempts import AttemptIds
from fencegate.core.fingerprint import Fingerprint, Scheme
from fencegate.core.model import Asked, Call, Terms
from fencegate.core.outcomes import Statuses
from fencegate.gateway.upstream import Leg, Outgoing


@dataclass(frozen=True, slots=True, repr=False)
class Order:
    """One guarded request. Times in seconds; `left` ends when the client hangs up."""

    call: Call
    terms: Terms
    outgoing: Outgoing
    leg: Leg
    statuses: Statuses
    answer_limit: int
    duplicate_wait: float
    predecessor_wait: float
    print_under: Callable[[Scheme], Fingerprint]
    left: Callable[[], Awaitable[None]]

    @property
    def ref(self) -> str:
        """Names this request in answers, logs and the journal; unique for all time."""
        return self.call.attempt

    def asked_anew(self, asked: Asked) -> Order:
        return replace(self, call=replace(self.call, asked=asked))

    def with_print(self, taken: Fingerprint) -> Order:
        """The same order, also comparable with a record that was made under this scheme."""
        return replace(self, call=replace(self.call, prints=(*self.call.prints, taken)))

    def afresh(self, ids: AttemptIds) -> Order:
        """The same order for another attempt, as after a first one that was superseded."""
        asked = Asked(waited=True)
        return replace(self, call=replace(self.call, attempt=ids(), asked=asked))
