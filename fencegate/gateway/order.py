"""What intake makes of a request: a call, and all that is needed to carry it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from fencegate.core.attempts import AttemptIds
from fencegate.core.fingerprint import Fingerprint, Scheme
from fencegate.core.identity import OBSERVED
from fencegate.core.model import Asked, Call, EntityId, Terms
from fencegate.gateway.upstream import Leg, Outgoing
from fencegate.policy import Guard, Mode, Route


@dataclass(frozen=True, slots=True, repr=False)
class Order:
    """One guarded request, and the route that it keeps to its end, whatever the policies become.
    `left` ends when the client hangs up."""

    call: Call
    terms: Terms
    outgoing: Outgoing
    leg: Leg
    route: Route
    print_under: Callable[[Scheme], Fingerprint]
    left: Callable[[], Awaitable[None]]

    @property
    def ref(self) -> str:
        """Names this request in answers, logs and the journal; unique for all time."""
        return self.call.attempt

    @property
    def observed(self) -> bool:
        return self.route.mode is Mode.OBSERVE

    @property
    def fence(self) -> int | None:
        """The fence that the call brought, None where it was asked for none."""
        return self.call.fence if self.route.guard.asks_fence else None

    @property
    def key(self) -> str | None:
        return self.call.key if self.route.guard.asks_key else None

    @property
    def recorded(self) -> bool:
        """Is its end kept under its key?"""
        return self.route.guard is not Guard.FENCE_ONLY

    def asked_anew(self, asked: Asked) -> Order:
        return replace(self, call=replace(self.call, asked=asked))

    def with_print(self, taken: Fingerprint) -> Order:
        """The same order, also comparable with a record that was made under this scheme."""
        return replace(self, call=replace(self.call, prints=(*self.call.prints, taken)))

    def afresh(self, ids: AttemptIds) -> Order:
        """The same order for another attempt, as after a first one that was superseded."""
        asked = Asked(waited=True)
        return replace(self, call=replace(self.call, attempt=ids(), asked=asked))


def observed(order: Order) -> Order:
    """The order as one that is only watched: judged against rows of its own, which no enforced
    call ever sees. It never waits."""
    call, entity = order.call, order.call.entity
    shadow = replace(
        call,
        upstream=OBSERVED + call.upstream,
        entity=EntityId(OBSERVED + entity.domain, entity.name),
        asked=Asked(duplicate_wait_over=True, predecessor_wait_over=True, probed=True),
    )
    return replace(order, call=shadow)
