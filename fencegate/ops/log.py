"""Events as JSON lines. What is not a member of an event cannot get into the log."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import BinaryIO

import orjson

from fencegate.core.events import Event

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


def line_of(event: Event, at: datetime) -> bytes:
    """One line, with the event's name in snake case and without members that are None."""
    name = _WORD.sub("_", type(event).__name__).lower()
    members = {key: value for key, value in asdict(event).items() if value is not None}
    said = {"at": at.isoformat(timespec="milliseconds"), "event": name, **members}
    return orjson.dumps(said) + b"\n"


def log_to(stream: BinaryIO | None = None) -> Callable[[Event], None]:
    """A consumer of events that writes them to a stream (default: standard error)."""
    out = stream or sys.stderr.buffer

    def emit(event: Event) -> None:
        out.write(line_of(event, datetime.now(UTC)))
        out.flush()

    return emit
