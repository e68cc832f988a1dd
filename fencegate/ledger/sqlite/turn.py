"""Whose turn it is to write: a lock among the processes that share a ledger's file.

SQLite's own busy handler sleeps between its tries, so that a busy process starves the others for
a second and more. Here a process that waits stands in the doorway (`next`) until the writer
leaves, and who has just written must pass the doorway again: nobody writes twice while another
waits. The kernel takes both locks from a process that dies.
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
        self._next = _lock_file(ledger, "next")
        self._turn = _lock_file(ledger, "turn")

    def __enter__(self) -> None:
        fcntl.flock(self._next, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)

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
        os.close(self._next)
        os.close(self._turn)


def _lock_file(ledger: Path, name: str) -> int:
    path = ledger.with_name(f"{ledger.name}-{name}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
