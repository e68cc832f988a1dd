"""Durations and sizes: what they are in microseconds and bytes, and what is refused as none."""

from __future__ import annotations

import re

import pytest

from fencegate.policy.units import LARGEST, LONGEST, duration, size, span


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("0s", 0),
        ("1ms", 1_000),
        ("30s", 30_000_000),
        ("2m", 120_000_000),
        ("24h", 86_400_000_000),
        ("400d", 400 * 86_400_000_000),
        ("007s", 7_000_000),
        ("36500d", LONGEST),
    ],
)
def test_duration_is_whole_microseconds(written: str, micros: int) -> None:
    assert duration(written) == micros


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        (30, "`30` has no unit; a duration ends in one of ms, s, m, h, d"),
        ("30", "`30` has no unit"),
        ("30sec", "`30sec` has the unit `sec`"),
        ("1M", "`1M` has the unit `M`"),
        ("30 s", "a whole number and one of ms, s, m, h, d, such as 30s"),
        ("1.5h", "a whole number"),
        ("-1s", "a whole number"),
        ("1h30m", "a whole number"),
        ("s", "a whole number"),
        ("", "a whole number"),
        ("٣s", "a whole number"),
        ("9" * 5000 + "s", "a whole number"),
        (True, "a whole number"),
        (None, "a whole number"),
        (["30s"], "a whole number"),
        ("36501d", "`36501d` is longer than 36500d"),
    ],
)
def test_what_is_no_duration_is_met_with_what_is_one(written: object, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        duration(written)


def test_longest_duration_after_today_is_still_exact_as_a_double() -> None:
    this_century = 4_102_444_800 * 1_000_000  # the year 2100, in microseconds
    assert this_century + LONGEST < 2**53


def test_span_is_a_duration_in_which_something_can_happen() -> None:
    assert span("1ms") == 1_000
    with pytest.raises(ValueError, match="`0s` must be longer than 0"):
        span("0s")


@pytest.mark.parametrize(
    ("written", "count"),
    [("0B", 0), ("512B", 512), ("4KiB", 4096), ("1MiB", 1_048_576), ("1024GiB", LARGEST)],
)
def test_size_is_bytes(written: str, count: int) -> None:
    assert size(written) == count


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        (1024, "`1024` has no unit; a size ends in one of B, KiB, MiB, GiB"),
        ("1MB", "`1MB` has the unit `MB`"),
        ("1mib", "`1mib` has the unit `mib`"),
        ("1 MiB", "a whole number and one of B, KiB, MiB, GiB, such as 1MiB"),
        ("1025GiB", "`1025GiB` is larger than 1024GiB"),
    ],
)
def test_what_is_no_size_is_met_with_what_is_one(written: object, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        size(written)
