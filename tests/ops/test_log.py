"""The log: one JSON line an event, and nothing in it that is not a member of the event."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from datetime import UTC, datetime
from typing import get_args

import pytest

from fencegate.core import events
from fencegate.core.events import CallEnded, Event
from fencegate.ops.log import line_of, log_to

AT = datetime(2026, 12, 1, 2, 0, tzinfo=UTC)
REFUSED = CallEnded(
    ref="p-7",
    decision="refused",
    status=412,
    upstream="crm",
    method="PUT",
    entity="customer:c-1048",
    fence=41,
    key="w1-a",
    holder="w1",
    code="stale_fence",
    high_water=42,
    attempt=None,
    outcome=None,
    settlement=None,
    seconds=0.002,
)


def test_a_line_says_when_what_and_why() -> None:
    line = line_of(REFUSED, AT)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    said = json.loads(line)
    assert said["at"] == "2026-12-01T02:00:00.000+00:00"
    assert (said["event"], said["code"]) == ("call_ended", "stale_fence")
    assert (said["fence"], said["high_water"], said["holder"]) == (41, 42, "w1")


def test_members_that_are_none_are_left_out() -> None:
    assert "outcome" not in json.loads(line_of(REFUSED, AT))


def test_each_event_is_a_line_of_its_own_on_the_stream() -> None:
    stream = io.BytesIO()
    emit = log_to(stream)
    emit(REFUSED)
    emit(REFUSED)
    assert len(stream.getvalue().splitlines()) == 2


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_no_event_has_room_for_a_body_a_query_or_headers(kind: type) -> None:
    names = {field.name for field in fields(kind)}
    assert not names & {"body", "query", "headers", "target", "path", "authorization", "token"}


def test_every_event_of_the_module_is_in_the_union() -> None:
    defined = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and value.__module__ == events.__name__
    }
    assert defined == set(get_args(Event))
