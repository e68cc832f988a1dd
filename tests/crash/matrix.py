"""The matrix: every passage of every point that a scenario reaches, struck once.

First each scenario is played undisturbed, which tells what it passes; then once for each passage.
A case that the machine was too slow for is played again.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from tests.crash.checker import Log, judge
from tests.crash.instrumented import Strike
from tests.crash.nursery import Stuck
from tests.crash.scenarios import FIRST_BYTE, Scenario, take_over
from tests.crash.stage import Missed, Nurseries, Stage

AT_ONCE = 16  # cases; most of their time they wait for a hold to run out
TRIES = 4


@dataclass(frozen=True, slots=True)
class Result:
    """One case, what was seen, and every violation in a sentence. `passed` are the points that
    the struck gateway has passed, the first `prologue` of them before its story began."""

    scenario: str
    strike: Strike | None
    log: Log
    violations: tuple[str, ...]
    passed: tuple[str, ...] = field(repr=False)
    prologue: int
    seconds: float

    @property
    def at(self) -> str:
        """What was struck, in one line."""
        if self.strike is None:
            return "undisturbed"
        what = "stopped" if self.strike.signal == "SIGSTOP" else "killed"
        again = f", passage {self.strike.passage}" if self.strike.passage > 1 else ""
        return f"{what} at {self.strike.point}{again}"

    @property
    def effects(self) -> str:
        counts = {key: sum(w.effects for w in self.log.effects(key)) for key in self.log.keys}
        return " ".join(f"{key}={effects}" for key, effects in counts.items() if effects) or "none"

    @property
    def answers(self) -> list[str]:
        """Who was told what, in the order of the answers; the same said again is left out."""
        told = [f"{said.call.key}/{said.call.fence} {said}" for said in self.log.said]
        return [one for one, before in zip(told, [None, *told], strict=False) if one != before]

    def __str__(self) -> str:
        lines = [f"{self.scenario}, {self.at}: effects {self.effects}; {', '.join(self.answers)}"]
        return "\n".join([*lines, *(f"    BROKEN: {violation}" for violation in self.violations)])


def play_all(nurseries: Nurseries, scenarios: Iterable[Scenario]) -> Iterator[Result]:
    """The undisturbed plays first, then every case as it is done."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        undisturbed = {
            scenario: pool.submit(play, nurseries, scenario, None) for scenario in scenarios
        }
        cases = []
        for scenario, playing in undisturbed.items():
            yield (result := playing.result())
            strikes = strikes_on(result.passed, result.prologue)
            cases += [pool.submit(play, nurseries, scenario, strike) for strike in strikes]
        for case in cases:
            yield case.result()


def play_pauses(
    nurseries: Nurseries, scenarios: Iterable[Scenario], points: Iterable[str]
) -> Iterator[Result]:
    """Every scenario, paused at every point."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        cases = [
            pool.submit(play_paused, nurseries, scenario, point)
            for scenario in scenarios
            for point in points
        ]
        for case in cases:
            yield case.result()


def before_the_first_byte(undisturbed: Result) -> list[str]:
    """The points that a call passes before anything of it can be on the wire."""
    return list(takewhile(lambda point: point != FIRST_BYTE, undisturbed.passed))


def strikes_on(passed: Iterable[str], prologue: int) -> list[Strike]:
    """A kill for each passage, but for those of the prologue."""
    passages: Counter[str] = Counter()
    strikes = []
    for point in passed:
        passages[point] += 1
        strikes.append(Strike(point, passage=passages[point]))
    return strikes[prologue:]


def play(nurseries: Nurseries, scenario: Scenario, strike: Strike | None) -> Result:
    """One case; the undisturbed one (no strike) is killed when all has been answered."""

    def story(stage: Stage) -> list[str]:
        strikes = (*scenario.strikes, strike) if strike else scenario.strikes
        first = stage.hooked(strikes)
        ends = tuple(map(str, scenario.play(stage, first)))
        if strike:
            stage.struck(first, strike)
        elif ends == scenario.ends:
            stage.kill(first)
        else:
            raise Missed(f"undisturbed it ends in {ends}, not {scenario.ends}")
        stage.upstream.recover()
        return take_over(stage, stage.plain(), scenario.keys)

    return judged(lambda folder: staged(nurseries, scenario, folder), story, scenario.name, strike)


def play_paused(nurseries: Nurseries, scenario: Scenario, point: str) -> Result:
    """One case: the gateway stops itself at the point, and goes on as the play says."""
    strike = Strike(point, "SIGSTOP")

    def story(stage: Stage) -> list[str]:
        first = stage.hooked([strike])
        scenario.play(stage, first)
        stage.upstream.recover()
        return take_over(stage, first, scenario.keys)

    return judged(lambda folder: staged(nurseries, scenario, folder), story, scenario.name, strike)


def judged(
    build: Callable[[Path], Stage],
    story: Callable[[Stage], list[str]],
    name: str,
    strike: Strike | None,
) -> Result:
    """Try until the story goes as it is told. A try that does not is judged all the same."""
    for _ in range(TRIES):
        began = time.monotonic()
        missed: str | None = None
        with tempfile.TemporaryDirectory(prefix="crash-") as folder, build(Path(folder)) as stage:
            try:
                faults = story(stage)
            except Missed as why:
                missed, faults = str(why), []
            except Stuck as why:
                faults = [str(why)]
            log = stage.log()
            passed, prologue = tuple(stage.passed), stage.prologue
        broken = (*judge(log), *faults)
        if broken or missed is None:
            break
    else:
        broken = (f"not once in {TRIES} tries did it go as told: {missed}",)
    seconds = time.monotonic() - began
    return Result(name, strike, log, broken, passed, prologue, seconds)


def staged(nurseries: Nurseries, scenario: Scenario, folder: Path) -> Stage:
    stage = Stage(
        nurseries,
        folder,
        settings=scenario.settings,
        wait=scenario.wait,
        tombstone=scenario.tombstone,
    )
    scenario.upstream(stage.upstream)
    if scenario.listens:
        stage.upstream.start()
    return stage
