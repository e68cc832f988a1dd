"""One thread that writes: it takes its turn, and commits what was asked meanwhile together.

A piece of work runs whole or not at all, in one transaction with its neighbours. Its answer is
handed out after the commit. Work that is still in the queue can be withdrawn, and then never
runs; once taken, it may be committed although nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from fencegate.core.model import Instant
from fencegate.ledger.protocol import LedgerUnavailable, Topic
from fencegate.ledger.sqlite.rows import SqliteRows
from fencegate.ledger.sqlite.turn import Turn

BATCH = 512  # a commit stays short, and a reply waits for at most one before its own
QUEUE = 20_000  # beyond this the ledger is behind by seconds: refuse at once

Work = Callable[[SqliteRows, Instant], Any]


class Asked:
    """A piece of work and who waits for its answer."""

    __slots__ = ("answer", "taken", "work")

    def __init__(self, work: Work, answer: asyncio.Future[Any]) -> None:
        self.work = work
        self.answer = answer
        self.taken = False


class Writer:
    """Owns the writing connection. `tell` is called on the loop with what has changed."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        turn: Turn,
        clock: Callable[[], Instant],
        tell: Callable[[set[Topic]], None],
    ) -> None:
        self._connect = connect
        self._turn = turn
        self._clock = clock
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Asked] = deque()
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._closing = False
        self._told: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def ask(self, work: Work) -> Asked:
        asked = Asked(work, self._loop.create_future())
        with self._news:
            if self._closing:
                raise LedgerUnavailable("the ledger is closed")
            if len(self._queue) >= QUEUE:
                raise LedgerUnavailable(f"{QUEUE} steps are waiting to be written")
            self._queue.append(asked)
            self._news.notify()
        return asked

    def withdraw(self, asked: Asked) -> bool:
        """Take work back; False when it was taken already and may be committed."""
        with self._lock:
            if asked.taken:
                return False
            with suppress(ValueError):
                self._queue.remove(asked)
            return True

    async def close(self) -> None:
        """Write what was asked, then end. A turn that never comes is not waited for."""
        with self._news:
            self._closing = True
            self._news.notify()
        await asyncio.to_thread(self._thread.join, 5.0)

    # --- in the thread ---------------------------------------------------------------------

    def _run(self) -> None:
        db = self._connect()
        while self._wait():
            with self._turn:
                if self._begin(db):
                    self._write(db, self._take())
            self._hand_out()
        db.close()
        self._turn.close()

    def _wait(self) -> bool:
        with self._news:
            while not self._queue and not self._closing:
                self._news.wait()
            return bool(self._queue)

    def _begin(self, db: sqlite3.Connection) -> bool:
        """Begin before work is taken: while it cannot begin, work can still be withdrawn."""
        self._undo(db)  # what a failing disk has left open would keep every further one out
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._fail(self._take(), _named(error, unclear=False))
            return False
        return True

    def _take(self) -> list[Asked]:
        with self._lock:
            size = min(BATCH, len(self._queue))
            batch = [self._queue.popleft() for _ in range(size)]
            for asked in batch:
                asked.taken = True
            return batch

    def _write(self, db: sqlite3.Connection, batch: list[Asked]) -> None:
        """Commit the batch as one; if one of it cannot be done, each on its own."""
        rows = SqliteRows(db)
        try:
            now = self._clock()
            answers = [asked.work(rows, now) for asked in batch]
            rows.saw(now)
        except Exception as error:
            self._undo(db)
            if len(batch) == 1:
                self._fail(batch, _named(error, unclear=False))
            else:
                self._write_singly(db, batch)
            return
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo(db)
            self._fail(batch, _named(error, unclear=True))
            return
        self._told.append(partial(self._answer, batch, answers, rows.changed))

    def _write_singly(self, db: sqlite3.Connection, batch: list[Asked]) -> None:
        for asked in batch:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                self._fail([asked], _named(error, unclear=False))
            else:
                self._write(db, [asked])

    def _undo(self, db: sqlite3.Connection) -> None:
        if db.in_transaction:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")

    def _fail(self, batch: list[Asked], error: Exception) -> None:
        self._told.append(partial(self._refuse, batch, error))

    def _hand_out(self) -> None:
        """Only when the turn is over: who acts on an answer must not find us still holding it."""
        for tell in self._told:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(tell)
        self._told.clear()

    # --- on the loop -----------------------------------------------------------------------

    def _answer(self, batch: list[Asked], answers: list[Any], changed: set[Topic]) -> None:
        for asked, answer in zip(batch, answers, strict=True):
            if not asked.answer.done():
                asked.answer.set_result(answer)
        self._tell(changed)

    def _refuse(self, batch: list[Asked], error: Exception) -> None:
        for asked in batch:
            if not asked.answer.done():
                asked.answer.set_exception(error)


def _named(error: Exception, *, unclear: bool) -> Exception:
    """The database's own errors mean that the ledger is away; anything else is a bug."""
    if not isinstance(error, sqlite3.Error):
        return error
    named = LedgerUnavailable(f"{type(error).__name__}: {error}", unclear=unclear)
    named.__cause__ = error
    return named
