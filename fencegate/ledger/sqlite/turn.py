"""Whose turn it is to write: a lock among the processes that share a ledger's file.

SQLite's own busy handler sleeps between its tries, so that a busy process starves the others for
a second and more. Here whoever waits sleeps in the kernel and is woken when the writer leaves.
The kernel takes the lock from a process that dies, and gives it to none that is stopped.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

LOOK_AGAIN = 0.02  # seconds


class Turn:
    """A context manager; entering blocks until it is this process's turn. One thread only."""

    def __init__(self, ledger: Path) -> None:
        path = ledger.with_name(f"{ledger.name}-turn")
        self._turn = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """The same, but given up with `TimeoutError`: for a start, which must say why it fails."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError from None
                time.sleep(LOOK_AGAIN)
        try:
            yield
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._turn)
