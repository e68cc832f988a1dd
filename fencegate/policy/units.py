"""Durations and sizes, as policy files write them: a whole number and its unit, without a space.

Inside, a duration is whole microseconds and a size is bytes, so that every ledger and every
comparison computes with the same exact numbers.
"""

from __future__ import annotations

import re

from fencegate.core.model import DAY, SECOND, Micros

DURATION_UNITS: dict[str, Micros] = {
    "ms": SECOND // 1000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": DAY,
}
SIZE_UNITS: dict[str, int] = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

# Today's microseconds plus this stay below 2^53, up to which a double (Lua's number) is exact.
LONGEST: Micros = 36_500 * DAY
# More than any machine holds: what is larger is a slip of the hand.
LARGEST = 1 << 40


def duration(written: object) -> Micros:
    """The microseconds of `30s`; ValueError says what is wrong with what was written."""
    micros = _measure(written, DURATION_UNITS, "a duration", "30s")
    if micros > LONGEST:
        raise ValueError(f"`{written}` is longer than {LONGEST // DAY}d, the longest duration")
    return micros


def span(written: object) -> Micros:
    """A duration that cannot be 0, because nothing could ever happen within it."""
    micros = duration(written)
    if not micros:
        raise ValueError(f"`{written}` must be longer than 0")
    return micros


def size(written: object) -> int:
    """The bytes of `1MiB`; ValueError says what is wrong with what was written."""
    count = _measure(written, SIZE_UNITS, "a size", "1MiB")
    if count > LARGEST:
        raise ValueError(f"`{written}` is larger than {LARGEST >> 30}GiB, the largest size")
    return count


def _measure(written: object, units: dict[str, int], what: str, example: str) -> int:
    choice = ", ".join(units)
    parts = re.fullmatch(r"([0-9]{1,18})([A-Za-z]*)", str(written))
    if parts is None:
        seen = str(written).lower() if isinstance(written, bool) else written
        raise ValueError(
            f"`{seen}` is not {what}: a whole number and one of {choice}, such as {example}"
        )
    number, unit = parts.groups()
    if unit not in units:
        seen = f"the unit `{unit}`" if unit else "no unit"
        raise ValueError(f"`{written}` has {seen}; {what} ends in one of {choice}")
    return int(number) * units[unit]
