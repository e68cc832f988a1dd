"""The ordinary commands, with a hook at every kill point: `python -m tests.crash.instrumented`.

`CRASH_STRIKES` is a JSON list of `{"point": name, "passage": 1, "signal": "SIGKILL"}`: what the
process does to itself, and when. `CRASH_TRACE` names a file that gets a line for each passage of
a point, before anything else happens there. `CRASH_TURN` names the ledger's lock file: a process
is not stopped while it writes, because then nobody could go on, and there would be no story.
"""

from __future__ import annotations

import ast
import fcntl
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tests.crash.killpoints import HOOK, PLACES, weave

STRIKES = "CRASH_STRIKES"
TRACE = "CRASH_TRACE"
TURN = "CRASH_TURN"


@dataclass(frozen=True, slots=True)
class Strike:
    """A signal that the process sends itself at a point, on its first, second, ... passage."""

    point: str
    signal: str = "SIGKILL"
    passage: int = 1


def environment(strikes: Sequence[Strike], *, trace: str, turn: str) -> dict[str, str]:
    """What arms a process."""
    written = json.dumps([asdict(strike) for strike in strikes])
    return {STRIKES: written, TRACE: trace, TURN: turn}


class Watch:
    """What one process does at its points; without strikes it runs through them all."""

    def __init__(self) -> None:
        self._strikes: list[Strike] = []
        self._trace: int | None = None
        self._turn: str | None = None
        self._passages: Counter[str] = Counter()

    def arm(self, environ: Mapping[str, str]) -> None:
        self._strikes = [Strike(**strike) for strike in json.loads(environ.get(STRIKES, "[]"))]
        if TRACE in environ:
            self._trace = os.open(environ[TRACE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._turn = environ.get(TURN)

    def passes(self, point: str) -> None:
        """Called at each point. A signal to oneself is delivered before `kill` returns."""
        self._passages[point] += 1
        if self._trace is not None:
            os.write(self._trace, point.encode() + b"\n")
        for strike in self._strikes:
            if strike.point == point and strike.passage == self._passages[point]:
                if strike.signal == "SIGSTOP" and self._turn:
                    _let_the_writer_out(self._turn)
                os.kill(os.getpid(), signal.Signals[strike.signal])


def _let_the_writer_out(turn: str) -> None:
    """An admission is answered before the writing thread has left its turn."""
    lock = os.open(turn, os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.close(lock)


watch = Watch()


def install() -> None:
    """From now on the places are loaded with their hooks. They must not be loaded yet."""
    loaded = [place.module for place in PLACES if place.module in sys.modules]
    assert not loaded, f"{loaded} must be imported after the hook is installed"
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = next((place for place in PLACES if place.module == fullname), None)
        spec = PathFinder.find_spec(fullname, path, target) if place else None
        if place is None or spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, place.only)
        return spec


class _Loader(SourceFileLoader):
    """Compiles the woven tree, and never from or into the cache of compiled modules."""

    def __init__(self, fullname: str, path: str, only: frozenset[str] | None) -> None:
        super().__init__(fullname, path)
        self._only = only

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        weave(tree, self._only)
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, HOOK, watch.passes)
        super().exec_module(module)


if __name__ == "__main__":
    # As a module of its own name: the hook and what it counts must not exist twice.
    from tests.crash import instrumented

    instrumented.install()
    instrumented.watch.arm(os.environ)
    from fencegate.cli import main

    main(prog_name="fencegate")
