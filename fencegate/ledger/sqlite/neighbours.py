"""What other processes have written to the same file, for those who wait here.

A process is told of its own changes at once. For the others' it asks SQLite's change counter,
once for all its waiters and only while somebody waits; when that has moved, it looks at what is
waited for, and wakes those whose topic has changed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fencegate.core.model import RecordId
from fencegate.ledger.protocol import Topic
from fencegate.ledger.sqlite.codec import key_of
from fencegate.ledger.sqlite.schema import connect
from fencegate.ledger.watching import Watching

EVERY = 0.02  # seconds: what a waiter on another process's call is late by at most

_OF_RECORD = "SELECT state, attempts FROM records WHERE upstream = ? AND caller = ? AND key = ?"
_OF_ENTITY = (
    "SELECT id, fence, yields_at FROM records WHERE domain = ? AND entity = ? AND state = 'open'"
)


class Neighbours:
    def __init__(self, path: Path, watching: Watching) -> None:
        self._path = path
        self._watching = watching
        self._db: sqlite3.Connection | None = None
        self._version = -1
        self._seen: dict[Topic, list[Any]] = {}
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Entered by whoever waits."""
        self._waiting += 1
        if self._task is None:
            self._task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            self._waiting -= 1

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._db is not None:
            self._db.close()
            self._db = None

    async def _listen(self) -> None:
        try:
            while self._waiting:
                with suppress(sqlite3.Error):  # away for a moment: the hold's end wakes them too
                    self._watching.tell(self._news())
                await asyncio.sleep(EVERY)
        finally:
            self._task = None
            self._seen.clear()
            self._version = -1

    def _news(self) -> set[Topic]:
        db = self._db = self._db or self._connected()
        topics = set(self._watching.topics)
        version = db.execute("PRAGMA data_version").fetchone()[0]
        new = topics - self._seen.keys()
        if version == self._version and not new:
            return set()
        now = {topic: _state_of(db, topic) for topic in topics}
        # A topic seen for the first time may have changed since its waiter looked.
        changed = {topic for topic in topics if self._seen.get(topic) != now[topic]}
        self._seen, self._version = now, version  # only once the look has succeeded
        return changed | new

    def _connected(self) -> sqlite3.Connection:
        """A look is made on the event loop: it fails at once rather than wait for a lock."""
        db = connect(self._path)
        db.execute("PRAGMA busy_timeout = 0")
        return db


def _state_of(db: sqlite3.Connection, topic: Topic) -> list[Any]:
    if isinstance(topic, RecordId):
        return db.execute(_OF_RECORD, key_of(topic)).fetchall()
    return db.execute(_OF_ENTITY, (topic.domain, topic.name)).fetchall()
