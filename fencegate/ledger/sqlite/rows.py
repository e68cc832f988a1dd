"""`Rows` over a SQLite connection. Whoever uses it has begun the transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from fencegate.core.aging import aged_record
from fencegate.core.identity import OBSERVED, Identities
from fencegate.core.model import (
    Entity,
    EntityId,
    Instant,
    Intent,
    Open,
    Other,
    Record,
    RecordId,
    Unknown,
    word_of,
)
from fencegate.ledger.protocol import AuditRow, Filter, JournalRow, Page, Topic
from fencegate.ledger.sqlite.codec import columns, id_of, key_of, record_of

SCANNED = 1000
PAST_OBSERVED = OBSERVED[:-1] + chr(ord(OBSERVED[-1]) + 1)  # the least text behind all of them


def _statements() -> dict[str, str]:
    text = files(__package__).joinpath("statements.sql").read_text()
    named = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(named[::2], named[1::2], strict=True))


SQL = _statements()


class SqliteRows:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.changed: set[Topic] = set()

    def entity(self, id: EntityId) -> Entity | None:
        row = self._one("entity", (id.domain, id.name))
        return Entity(id, row[0], row[1], row[2], bool(row[3])) if row else None

    def put_entity(self, entity: Entity) -> None:
        self._db.execute(
            SQL["put_entity"],
            (
                entity.id.domain,
                entity.id.name,
                entity.high_water,
                entity.holder,
                entity.accepted_at,
                entity.frozen,
            ),
        )

    def record(self, id: RecordId) -> Record | None:
        row = self._one("record", key_of(id))
        return record_of(row) if row else None

    def put_record(self, record: Record) -> None:
        self._db.execute(SQL["put_record"], columns(record))

    def drop_record(self, id: RecordId) -> None:
        self._db.execute(SQL["drop_record"], key_of(id))

    def others(
        self, entity: EntityId, below: int, but: RecordId, now: Instant
    ) -> tuple[Other, ...]:
        upstream, caller, key = key_of(but)
        where = {
            **_on(entity, below, now),
            "upstream": upstream,
            "caller": caller,
            "key": key,
        }
        found: list[Other] = []
        if not self._one("any_below", where):
            return ()
        if row := self._one("open_below", where):
            found.append(Other(row[0], Open(row[1], bool(row[2]), row[3])))
        if row := self._one("unknown_below", where):
            found.append(Other(row[0], Unknown()))
        return tuple(found)

    def lapsed(self, entity: EntityId, below: int, now: Instant) -> Sequence[Record]:
        rows = self._db.execute(SQL["lapsed"], _on(entity, below, now)).fetchall()
        return [record_of(row) for row in rows]

    def open_records(
        self, entity: EntityId, below: int | None, now: Instant, limit: int
    ) -> tuple[Record, ...]:
        where = {**_on(entity, below, now), "limit": limit}
        return tuple(record_of(row) for row in self._db.execute(SQL["open_records"], where))

    def count_open(self, entity: EntityId, below: int | None, now: Instant) -> int:
        row = self._one("count_open", _on(entity, below, now))
        return int(row[0]) if row else 0

    def intent(self, entity: Entity, intent: bytes) -> Intent | None:
        where = (entity.id.domain, entity.id.name, intent, entity.high_water)
        row = self._one("intent", where)
        return Intent(id_of(*row[:3]), row[3]) if row else None

    def put_intent(self, entity: Entity, intent: bytes, names: Intent) -> None:
        self._db.execute(
            SQL["put_intent"],
            (
                entity.id.domain,
                entity.id.name,
                intent,
                entity.high_water,
                *key_of(names.key),
                names.since,
            ),
        )

    def leave_index(self, record: RecordId) -> None:
        self._db.execute(SQL["leave_index"], key_of(record))

    def empty_index(self, entity: EntityId) -> None:
        self._db.execute(SQL["empty_index"], (entity.domain, entity.name))

    def due(self, now: Instant, limit: int) -> Sequence[Record]:
        return [record_of(row) for row in self._db.execute(SQL["due"], (now, limit))]

    def latest(self) -> Instant:
        row = self._one("latest", ())
        return int(row[0]) if row else 0

    def saw(self, now: Instant) -> None:
        self._db.execute(SQL["saw"], (now, now))

    def identities(self) -> Identities:
        found: dict[str, dict[str, str]] = {}
        for upstream, item, reading in self._db.execute(SQL["identities"]):
            found.setdefault(upstream, {})[item] = reading
        return found

    def put_identities(self, wanted: Identities) -> None:
        self._db.execute(SQL["drop_identities"])
        rows = ((name, *item) for name, items in wanted.items() for item in items.items())
        self._db.executemany(SQL["add_identity"], rows)

    def count_live(self, upstream: str, now: Instant) -> int:
        row = self._one("count_live", {"upstream": upstream, "now": now})
        return int(row[0]) if row else 0

    def take_over(self) -> int:
        where = {"observed": OBSERVED, "past_observed": PAST_OBSERVED}
        raised = self._db.execute(SQL["take_over"], where).rowcount
        self._db.execute(SQL["forget_observed"], where)
        return raised

    def add_journal(self, row: JournalRow) -> None:
        self._db.execute(
            SQL["add_journal"],
            (
                row.at,
                row.kind,
                row.code,
                row.entity.domain,
                row.entity.name,
                *key_of(row.record),
                row.fence,
                row.high_water,
                row.holder,
                row.attempt,
                row.other_key,
                row.apart,
            ),
        )

    def add_audit(self, row: AuditRow) -> None:
        values = (row.at, row.actor, row.act, row.subject, row.reason, row.result)
        self._db.execute(SQL["add_audit"], values)

    # --- lists -----------------------------------------------------------------------------

    def list(self, filter: Filter, after: RecordId | None, now: Instant, limit: int) -> Page:
        """A page of records as they are now. The state is known only after aging, so a page may
        end early, with a cursor, where few of many records have it."""
        cursor = key_of(after) if after else ("", "", "")
        where = dict(zip(("upstream", "caller", "key"), cursor, strict=True))
        rows = self._db.execute(SQL["list"], {**where, **_in(filter), "limit": SCANNED}).fetchall()
        found: list[Record] = []
        last: RecordId | None = None
        for row in rows:
            if len(found) == limit:
                return Page(tuple(found), last)
            record = aged_record(record_of(row), now)
            last = id_of(*row[:3])
            if record and (filter.state is None or word_of(record.state) == filter.state):
                found.append(record)
        return Page(tuple(found), last if len(rows) == SCANNED else None)

    def journal(self, after: int, limit: int) -> tuple[JournalRow, ...]:
        found = self._db.execute(SQL["journal"], (after, limit))
        return tuple(_journal_of(row) for row in found)

    def audit(self, after: int, limit: int) -> tuple[AuditRow, ...]:
        return tuple(AuditRow(*row) for row in self._db.execute(SQL["audit"], (after, limit)))

    def _one(self, name: str, where: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._db.execute(SQL[name], where).fetchone()
        return row


def _on(entity: EntityId, below: int | None, now: Instant) -> dict[str, Any]:
    return {
        "domain": entity.domain,
        "entity": entity.name,
        "below": below,
        "now": now,
    }


def _in(filter: Filter) -> dict[str, Any]:
    return {
        "in_upstream": filter.upstream,
        "in_domain": filter.entity.domain if filter.entity else None,
        "in_entity": filter.entity.name if filter.entity else None,
        "in_key": filter.key,
    }


def _journal_of(row: tuple[Any, ...]) -> JournalRow:
    number, at, kind, code, domain, entity, upstream, caller, key = row[:9]
    record = id_of(upstream, caller, key)
    return JournalRow(number, at, kind, code, EntityId(domain, entity), record, *row[9:])
