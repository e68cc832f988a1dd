"""Play the whole matrix and print it: `python -m tests.crash`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from tests.crash.matrix import Result, before_the_first_byte, play_all, play_pauses
from tests.crash.scenarios import PAUSES, SCENARIOS
from tests.crash.stage import Nurseries


def main() -> int:
    """Exit status 1 if anything is violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    names = [scenario.name for scenario in (*SCENARIOS, *PAUSES)]
    parser.add_argument("--only", choices=names, help="one scenario")
    options = parser.parse_args()
    began = time.monotonic()
    cases = broken = 0
    scenario = None
    for result in _results(options.only):
        if result.scenario != scenario:
            scenario = result.scenario
            print(f"\n{scenario}")
        print(line_of(result), flush=True)
        cases += 1
        broken += bool(result.violations)
    print(f"\n{cases} cases, {broken} broken, {time.monotonic() - began:.0f} s")
    return 1 if broken else 0


def line_of(result: Result) -> str:
    """What was struck, the effects by key, the answers in their order, and the verdict."""
    verdict = "BROKEN" if result.violations else "ok"
    line = f"  {verdict:<6} {result.at:<100} {result.effects:<24} {', '.join(result.answers)}"
    return "\n".join([line, *(f"         {violation}" for violation in result.violations)])


def _results(only: str | None) -> Iterator[Result]:
    """The undisturbed plays, the kills, and the pauses."""
    with Nurseries() as nurseries:
        chosen = [scenario for scenario in SCENARIOS if only in (None, scenario.name)]
        results = list(play_all(nurseries, chosen or SCENARIOS[:1]))
        order = [scenario.name for scenario in chosen]
        yield from sorted(
            (result for result in results if result.scenario in order),
            key=lambda result: order.index(result.scenario),
        )
        pauses = [scenario for scenario in PAUSES if only in (None, scenario.name)]
        success = next(result for result in results if result.strike is None)
        yield from play_pauses(nurseries, pauses, before_the_first_byte(success))


if __name__ == "__main__":
    sys.exit(main())
