"""A gateway as users run it: the real command, on a free port, with its log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DEADLINE = 20.0  # seconds; beyond it a fact is not late but absent


class Process:
    """`fencegate serve`. Its ledger and its log are files in `folder`."""

    def __init__(self, policies: Path, folder: Path, *options: str, **environ: str) -> None:
        self.ledger = f"sqlite:///{folder}/ledger.db"
        self._log = folder / "log"
        command = [sys.executable, "-m", "fencegate", "serve", str(policies)]
        command += ["--ledger", self.ledger, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *options],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, **environ},
            )

    def wait_until_ready(self) -> None:
        started = self.wait_for("gateway_started")
        self.port = int(started["listen"].rpartition(":")[2])
        self.admin_url = f"http://{started['admin']}"

    def wait_for(self, event: str, count: int = 1) -> dict[str, Any]:
        """The last event of a kind, once there are so many."""
        end = time.monotonic() + DEADLINE
        while len(told := self.told(event)) < count:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.01)
        return told[-1]

    def told(self, event: str) -> list[dict[str, Any]]:
        """Whole lines only: the last one may still be on its way."""
        lines = [
            json.loads(line) for line in self.log.splitlines(keepends=True) if line[-1] == "\n"
        ]
        return [line for line in lines if line["event"] == event]

    @property
    def log(self) -> str:
        return self._log.read_text()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def terminate(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """The exit status, once it has ended."""
        return self._process.wait(DEADLINE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def served(policies: Path, folder: Path, *options: str, **environ: str) -> Iterator[Process]:
    """Ready, and killed at the end if it is still there."""
    process = Process(policies, folder, *options, **environ)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.kill()
