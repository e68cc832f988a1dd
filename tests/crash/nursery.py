"""Gateway processes at the price of a fork: a process that has imported everything once.

A *nursery* is started once and forks a child for each gateway. The child runs the ordinary
command from its arguments on: policies, ledger, port and threads are its own. The nursery is its
parent, so it waits for it and tells when it has stopped or ended; and it is the only one that
sends it signals, so that none reaches a stranger under a reused process id.

On its standard input it reads JSON lines `{"argv", "environ", "log"}` and `{"pid", "signal"}`, on
its standard output it writes `{"born"}` and `{"pid", "stopped"}` or `{"pid", "ended"}`. When its
input ends, it ends its children and itself.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.crash import instrumented

DEADLINE = 20.0  # seconds; beyond it a fact is not late but absent
PRELOADED = (
    "fencegate.cli",
    "fencegate.ledger.protocol",
    "fencegate.ledger.sqlite",
    "fencegate.ops.log",
    "fencegate.policy",
    "fencegate.server",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)


class Stuck(Exception):
    """A fact that had to come did not."""


class Process:
    """A child of a nursery. `exit_code` is negative for a signal, as in `subprocess`."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.stopped = False
        self.exit_code: int | None = None

    @property
    def ended(self) -> bool:
        return self.exit_code is not None

    def send(self, number: signal.Signals) -> None:
        """A signal; nothing happens if the process has ended."""
        if number is signal.SIGCONT:
            self.stopped = False
        self._nursery.order({"pid": self.pid, "signal": int(number)})

    def wait(self) -> int:
        """Wait for its end, as its parent saw it."""
        self._nursery.until(lambda: self.ended, f"process {self.pid} does not end")
        assert self.exit_code is not None
        return self.exit_code

    def wait_stopped(self) -> bool:
        """Wait until it has stopped or ended; did it stop?"""
        absent = f"process {self.pid} neither stops nor ends"
        self._nursery.until(lambda: self.stopped or self.ended, absent)
        return not self.ended


class Nursery:
    """The side of the tests."""

    def __init__(self, *, with_hooks: bool) -> None:
        command = [sys.executable, "-m", __name__, "hooks" if with_hooks else "plain"]
        root = Path(__file__).parents[2]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, start_new_session=True
        )
        self._news = threading.Condition()
        self._processes: dict[int, Process] = {}
        self._born: list[Process] = []
        self._gone = False
        self._one_at_a_time = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def spawn(self, argv: Sequence[str], environ: dict[str, str], log: Path) -> Process:
        with self._one_at_a_time:
            self._write({"argv": list(argv), "environ": environ, "log": str(log)})
            self.until(lambda: bool(self._born), "no process is born")
            return self._born.pop()

    def until(self, fact: Callable[[], bool], absent: str) -> None:
        """Wait for a fact about a process; `absent` says in a sentence that it did not come."""
        with self._news:
            self._news.wait_for(lambda: fact() or self._gone, DEADLINE)
            if not fact():
                raise Stuck(absent)

    def order(self, line: dict[str, Any]) -> None:
        with self._one_at_a_time:
            self._write(line)

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(DEADLINE)
        self._reader.join(DEADLINE)

    def _write(self, line: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(line).encode() + b"\n")
        self._server.stdin.flush()

    def _read(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            with self._news:
                self._heard(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._gone = True
            self._news.notify_all()

    def _heard(self, said: dict[str, Any]) -> None:
        match said:
            case {"born": int(pid)}:
                self._processes[pid] = Process(self, pid)
                self._born.append(self._processes[pid])
            case {"pid": int(pid), "stopped": True}:
                self._processes[pid].stopped = True
            case {"pid": int(pid), "ended": int(code)}:
                self._processes.pop(pid).exit_code = code


# --- the process itself --------------------------------------------------------------------


def main(kind: str) -> None:
    """Serve until the input ends."""
    if kind == "hooks":
        instrumented.install()
    for module in PRELOADED:
        importlib.import_module(module)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: set[int] = set()
    try:
        _serve(woken, living)
    finally:
        for pid in living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _serve(woken: int, living: set[int]) -> None:
    pending = b""
    while True:
        readable, _, _ = select.select([0, woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            _reap(living)
        if 0 in readable:
            read = os.read(0, 65536)
            if not read:
                return
            *lines, pending = (pending + read).split(b"\n")
            for line in lines:
                _obey(json.loads(line), living)


def _obey(order: dict[str, Any], living: set[int]) -> None:
    match order:
        case {"pid": int(pid), "signal": int(number)}:
            if pid in living:
                os.kill(pid, number)
        case {"argv": [*argv], "environ": dict(environ), "log": str(log)}:
            pid = os.fork()
            if pid == 0:
                _become_a_gateway(argv, environ, log)
            living.add(pid)
            _tell({"born": pid})


def _reap(living: set[int]) -> None:
    while living:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            _tell({"pid": pid, "stopped": True})
        else:
            living.discard(pid)
            _tell({"pid": pid, "ended": os.waitstatus_to_exitcode(status)})


def _tell(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def _become_a_gateway(argv: list[str], environ: dict[str, str], log: str) -> NoReturn:
    """The child: nothing of the nursery's is left but what it has imported."""
    code: Any = 70  # EX_SOFTWARE
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ.update(environ)
        instrumented.watch.arm(os.environ)
        from fencegate.cli import main

        main(argv, prog_name="fencegate")
    except SystemExit as left:
        code = left.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main(sys.argv[1])
