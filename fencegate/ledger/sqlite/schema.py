"""The file: how it is opened, recognised and brought to this program's schema."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from secrets import token_hex

from fencegate.ledger.protocol import LedgerUnusable
from fencegate.ledger.sqlite.turn import Turn

OURS = 0x66656E63  # application_id: "fenc"
OPENING = 10.0  # seconds to wait for other processes before a start is given up


def connect(path: Path) -> sqlite3.Connection:
    """A connection without transactions of its own. Every commit is on disk when it returns."""
    db = sqlite3.connect(path, isolation_level=None, timeout=1.0, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def open_file(path: Path) -> tuple[Turn, str]:
    """Make the file or bring it up to date; answers its lock and the ledger's id."""
    try:
        turn = Turn(path)
        with turn.within(OPENING):
            _recognise(path)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # answers are personal data
            db = connect(path)
            try:
                return turn, _migrate(db)
            finally:
                db.close()
    except TimeoutError as error:
        raise LedgerUnusable(
            f"{path} is held by another process that has not let go of it in {OPENING:.0f} s; "
            "see whether that process is stopped"
        ) from error
    except (sqlite3.Error, OSError) as error:
        raise LedgerUnusable(
            f"{path} cannot be used as a ledger: {error}; name a file of fencegate's own, "
            "or one that does not exist yet, in a folder that can be written"
        ) from error


def migrations() -> list[tuple[int, str]]:
    """All migrations in order: (number, SQL)."""
    folder = files(__package__).joinpath("migrations")
    found = [(re.match(r"(\d{4})_\w+\.sql$", file.name), file) for file in folder.iterdir()]
    return sorted((int(match[1]), file.read_text()) for match, file in found if match)


def _recognise(path: Path) -> None:
    """Refuse what is not ours before anything in it is changed."""
    if not path.exists():
        return
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    finally:
        db.close()
    if application != OURS and tables:
        raise LedgerUnusable(
            f"{path} is a database of another program; name a file of fencegate's own"
        )
    newest = migrations()[-1][0]
    if version > newest:
        raise LedgerUnusable(
            f"{path} has schema {version}, this program knows {newest}; start a newer fencegate"
        )


def _migrate(db: sqlite3.Connection) -> str:
    with _transaction(db):
        version = db.execute("PRAGMA user_version").fetchone()[0]
        for number, sql in migrations():
            if number > version:
                for statement in _statements(sql):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {number}")
        db.execute(f"PRAGMA application_id = {OURS}")
        if db.execute("SELECT count(*) FROM ledger").fetchone()[0] == 0:
            db.execute("INSERT INTO ledger (id, latest) VALUES (?, 0)", (token_hex(16),))
        return str(db.execute("SELECT id FROM ledger").fetchone()[0])


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _statements(sql: str) -> Iterator[str]:
    """Statement by statement: `executescript` would end our transaction."""
    piece = ""
    for line in sql.splitlines(keepends=True):
        piece += line
        if sqlite3.complete_statement(piece):
            yield piece
            piece = ""
