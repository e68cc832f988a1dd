"""Attempt ids, unique for all time: the prefix of a process, and a counter."""

from __future__ import annotations

from itertools import count

from fencegate.core.model import AttemptId


class AttemptIds:
    """Hands out ids under one process's prefix. The prefix must never be used again."""

    def __init__(self, process: str) -> None:
        self.process = process
        self._numbers = count(1)

    def __call__(self) -> AttemptId:
        return AttemptId(f"{self.process}-{next(self._numbers)}")
