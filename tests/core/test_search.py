"""The search in its short form: every scenario is closed, and no invariant is broken on the way.

`python -m tests.core.search --long` goes further, over more time and more faults.
"""

from __future__ import annotations

import pytest

from tests.core.search.__main__ import line_of
from tests.core.search.explore import explore
from tests.core.search.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_reachable_state_breaks_an_invariant(scenario: Scenario) -> None:
    found = explore(scenario, scenario.short)
    print(line_of(found))
    assert found.violation is None, line_of(found)
    assert found.states >= scenario.short.states, "the model explores less than it did"
