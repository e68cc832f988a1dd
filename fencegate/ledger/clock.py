"""The clock of a ledger that runs on this host; tests put another in its place."""

from __future__ import annotations

import time

from fencegate.core.model import Instant


def wall_clock() -> Instant:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000
