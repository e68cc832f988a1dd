"""Whoever was stopped for longer than its hold does not write when it goes on."""

from __future__ import annotations

import pytest

from tests.crash.killpoints import all_points
from tests.crash.matrix import Result
from tests.crash.scenarios import FIRST_BYTE, HOLD_CHECK, PAUSES, Scenario

pytestmark = pytest.mark.timeout(900)
scenarios = pytest.mark.parametrize("scenario", PAUSES, ids=lambda scenario: scenario.name)


@scenarios
def test_no_write_of_a_stopped_gateway_follows_that_of_its_successor(
    scenario: Scenario, pauses: list[Result]
) -> None:
    stopped = [result for result in pauses if result.scenario == scenario.name]
    broken = [str(result) for result in stopped if result.violations]
    assert stopped
    assert not broken, "\n" + "\n".join(broken)


def test_the_last_stop_before_the_first_byte_is_the_hold_check(pauses: list[Result]) -> None:
    """Behind it lies the one point that is left out, which DESIGN.md excepts (I2): no step that
    waits may come between them."""
    stopped_at = [result.strike.point for result in pauses if result.strike]
    points = all_points()["Leg.forward"]
    between = points[points.index(HOLD_CHECK) : points.index(FIRST_BYTE) + 1]
    assert stopped_at[-1] == HOLD_CHECK
    assert not [point for point in between if "await" in point]
