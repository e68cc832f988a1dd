"""Search every scenario and print how far each came: `python -m tests.core.search --long`."""

from __future__ import annotations

import argparse
import sys

from tests.core.search.explore import Found, explore
from tests.core.search.scenarios import SCENARIOS


def main() -> int:
    """Exit status 1 if an invariant is broken, or less is explored than is known to be there."""
    parser = argparse.ArgumentParser(prog="python -m tests.core.search", description=__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--short", action="store_true", help="as the unit tests do (default)")
    form.add_argument("--long", action="store_true", help="more time and more faults")
    parser.add_argument("--only", metavar="NAME", help="one scenario")
    options = parser.parse_args()
    found, less = [], False
    for scenario in SCENARIOS:
        if options.only in (None, scenario.name):
            bounds = scenario.long if options.long else scenario.short
            found.append(explore(scenario, bounds))
            print(line_of(found[-1]), flush=True)
            less = less or found[-1].states < bounds.states
    print(_total(found))
    if less:
        print("the model explores less than it did")
    return 1 if less or any(one.violation for one in found) else 0


def line_of(found: Found) -> str:
    """One line on a search, and the trace where an invariant is broken."""
    line = (
        f"{found.scenario.name:<22} {found.states:>9,} states {found.moves:>10,} moves"
        f" {found.seconds:>7.1f} s"
    )
    if found.violation is None:
        return line
    steps = (f"  {at:>3}. {says}" for at, says in enumerate(found.violation.steps, start=1))
    broken = f"  BROKEN {found.violation.invariant}: {found.violation.wrong}"
    return "\n".join((line, broken, *steps))


def _total(found: list[Found]) -> str:
    states, moves = sum(one.states for one in found), sum(one.moves for one in found)
    seconds = sum(one.seconds for one in found)
    return f"{'total':<22} {states:>9,} states {moves:>10,} moves {seconds:>7.1f} s"


if __name__ == "__main__":
    sys.exit(main())
