"""What observed calls would have met, counted since the start of this process."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from fencegate.core.events import CallObserved, Event

SHOWN = 20  # of the calls that would not have been forwarded, the last ones


@dataclass(frozen=True, slots=True)
class Line:
    """So many calls of a route would have met this."""

    upstream: str
    route: str
    decision: str
    code: str | None
    calls: int


class Tally:
    """Passes every event on, and counts those of observed calls. Labels are those of policies and
    codes; entities and keys stand in the last few calls only."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._since = datetime.now(UTC)
        self._counted: Counter[tuple[str, str, str, str]] = Counter()
        self._last: deque[CallObserved] = deque(maxlen=SHOWN)

    def __call__(self, event: Event) -> None:
        if isinstance(event, CallObserved):
            route = event.route or "no route"
            self._counted[event.upstream, route, event.decision, event.code or ""] += 1
            if event.decision != "forwarded":
                self._last.append(event)
        self._emit(event)

    def lines(self) -> list[Line]:
        """Upstream by upstream, route by route."""
        return [
            Line(upstream, route, decision, code or None, calls)
            for (upstream, route, decision, code), calls in sorted(self._counted.items())
        ]

    def report(self) -> dict[str, Any]:
        """As JSON: the counts, and the last calls that would not have been forwarded."""
        return {
            "since": self._since.isoformat(timespec="seconds"),
            "counts": [asdict(line) for line in self.lines()],
            "last": [asdict(event) for event in reversed(self._last)],
        }
