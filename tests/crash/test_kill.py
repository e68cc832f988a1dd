"""A kill between any two steps leaves the truth."""

from __future__ import annotations

import ast

import pytest

from tests.crash.killpoints import PLACES, all_points
from tests.crash.matrix import Result
from tests.crash.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.timeout(900)
scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@scenarios
def test_a_scenario_ends_as_told_while_nobody_is_killed(
    scenario: Scenario, kills: list[Result]
) -> None:
    (undisturbed,) = [r for r in kills if r.scenario == scenario.name and r.strike is None]
    assert not undisturbed.violations, str(undisturbed)


@scenarios
def test_a_kill_at_any_step_of_a_scenario_leaves_the_truth(
    scenario: Scenario, kills: list[Result]
) -> None:
    struck = [r for r in kills if r.scenario == scenario.name and r.strike]
    broken = [str(result) for result in struck if result.violations]
    assert struck
    assert not broken, "\n" + "\n".join(broken)


def test_every_kill_point_is_struck_in_some_scenario(kills: list[Result]) -> None:
    """Who adds a step to the way of a call adds a scenario that comes by."""
    struck = {result.strike.point for result in kills if result.strike}
    unreached = [p for points in all_points().values() for p in points if p not in struck]
    assert not unreached


def test_every_function_on_the_way_of_a_call_has_kill_points() -> None:
    exchange, leg = PLACES
    functions = {
        node.name
        for node in ast.walk(ast.parse(exchange.source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    points = all_points()
    assert functions
    assert leg.only
    assert points.keys() == functions | leg.only
    assert all(points.values())
