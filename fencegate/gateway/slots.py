"""How many calls are on their way to an upstream at once, where a policy limits them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fencegate.policy import Limit


class Slots:
    """Calls under way, by the scope of their limit. A call is known by its ref: entering twice and
    leaving twice count once."""

    def __init__(self) -> None:
        self._taken: dict[str, set[str]] = {}

    def enter(self, limit: Limit | None, ref: str) -> bool:
        """False if there is no room; then nothing was taken."""
        if limit is None:
            return True
        taken = self._taken.setdefault(limit.scope, set())
        if len(taken) >= limit.calls:
            return False
        taken.add(ref)
        return True

    @contextmanager
    def until_left(self, limit: Limit | None, ref: str) -> Iterator[None]:
        """Leave what was entered when the block is left."""
        try:
            yield
        finally:
            self.leave(limit, ref)

    def leave(self, limit: Limit | None, ref: str) -> None:
        if limit is not None and (taken := self._taken.get(limit.scope)) is not None:
            taken.discard(ref)
            if not taken:
                del self._taken[limit.scope]
