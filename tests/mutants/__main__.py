"""Prints a table: each mutant, and which of sweep, search, conformance and crash runs catch it.

    python -m tests.mutants            every mutant against every run
    python -m tests.mutants --quick    every mutant against the runs that must catch it

Exit status 1 if a run that must catch a mutant does not, or if a run fails without one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
RUNS = {
    "sweep": ("tests/core/test_sweep.py",),
    "search": ("tests/core/test_search.py",),
    "conformance": ("tests/conformance",),
    "crash": ("tests/crash",),
}
PARTS = ("fencegate", "tests", "policies", "pyproject.toml")
SIDE_BY_SIDE = 2


def main() -> int:
    quick = "--quick" in sys.argv[1:]
    began = time.monotonic()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        jobs = {
            (mutant, run): pool.submit(caught, mutant, run)
            for mutant in MUTANTS
            for run in (mutant.caught_by if quick else RUNS)
        }
        clean = {} if quick else {run: pool.submit(caught, None, run) for run in RUNS}
        said = {job: future.result() for job, future in jobs.items()}
        failing = [run for run, future in clean.items() if future.result()]
    print(table(said))
    missed = [(m.name, run) for m in MUTANTS for run in m.caught_by if not said[m, run]]
    for name, run in missed:
        print(f"not caught: {name}, by {run}")
    for run in failing:
        print(f"fails without a mutant: {run}")
    print(f"{len(MUTANTS)} mutants, {len(said)} runs, {time.monotonic() - began:.0f} s")
    return 1 if missed or failing else 0


def caught(mutant: Mutant | None, run: str) -> bool:
    """Run one suite on a copy of the tree with the mutant in it: does a test fail?"""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder)
        copy(tree)
        if mutant is not None:
            apply(mutant, tree)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *RUNS[run]]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
    if ended.returncode not in (0, 1):
        name = mutant.name if mutant else "no mutant"
        raise SystemExit(f"{run} could not run with {name}:\n{ended.stdout[-3000:]}{ended.stderr}")
    return ended.returncode == 1


def copy(tree: Path) -> None:
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / part)


def apply(mutant: Mutant, tree: Path) -> None:
    for change in mutant.changes:
        path = tree / change.file
        text = path.read_text()
        if text.count(change.old) != 1:
            raise SystemExit(f"{mutant.name}: its text is not once in {change.file}")
        path.write_text(text.replace(change.old, change.new))


def table(said: dict[tuple[Mutant, str], bool]) -> str:
    lines = [f"{'mutant':<46}" + "".join(f"{run:>13}" for run in RUNS)]
    for mutant in MUTANTS:
        cells = [said.get((mutant, run)) for run in RUNS]
        words = ["" if cell is None else "caught" if cell else "-" for cell in cells]
        lines.append(f"{mutant.name:<46}" + "".join(f"{word:>13}" for word in words))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
