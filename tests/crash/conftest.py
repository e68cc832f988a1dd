"""The matrix is played once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.matrix import Result, before_the_first_byte, play_all, play_pauses
from tests.crash.scenarios import PAUSES, SCENARIOS
from tests.crash.stage import Nurseries


@pytest.fixture(scope="session")
def nurseries() -> Iterator[Nurseries]:
    with Nurseries() as nurseries:
        yield nurseries


@pytest.fixture(scope="session")
def kills(nurseries: Nurseries) -> list[Result]:
    """Every scenario: undisturbed, and killed at every step."""
    return list(play_all(nurseries, SCENARIOS))


@pytest.fixture(scope="session")
def pauses(nurseries: Nurseries, kills: list[Result]) -> list[Result]:
    """Every pausing scenario, stopped at every step before the first byte."""
    success = next(result for result in kills if result.strike is None)
    return list(play_pauses(nurseries, PAUSES, before_the_first_byte(success)))
