"""A record as columns, and back."""

from __future__ import annotations

from typing import Any

import orjson

from fencegate.core.aging import due_at
from fencegate.core.fingerprint import Fingerprint, Scheme
from fencegate.core.model import (
    Attempt,
    AttemptId,
    Disowned,
    Done,
    EntityId,
    Expired,
    Freed,
    Open,
    Record,
    RecordId,
    State,
    Unknown,
)
from fencegate.core.outcomes import Answer, Doubt, Evidence, Headers, Unkept

DIGEST = 32


def key_of(id: RecordId) -> tuple[str, str, str]:
    """The columns that find a record. No caller and a caller never share a name: '' is none."""
    return id.upstream, id.caller or "", id.key


def id_of(upstream: str, caller: str, key: str) -> RecordId:
    return RecordId(upstream, caller or None, key)


def columns(record: Record) -> tuple[Any, ...]:
    state = record.state
    answer = _answer_columns(state.answer if isinstance(state, Done) else None)
    return (
        *key_of(record.id),
        record.entity.domain,
        record.entity.name,
        record.fence if record.attempts else None,
        type(state).__name__.lower(),
        due_at(record),
        isinstance(state, Open) and state.listening,
        state.yields_at if isinstance(state, Open) else None,
        record.credential,
        record.fingerprint.scheme.to_text(),
        b"".join(record.fingerprint.parts),
        _dumps([_attempt_out(attempt) for attempt in record.attempts]),
        _dumps([[d.until, _attempt_out(d.attempt)] for d in record.disowned]),
        record.tries,
        record.hold,
        record.retention,
        record.tombstone,
        *answer,
    )


def record_of(row: tuple[Any, ...]) -> Record:
    (upstream, caller, key, domain, entity, state, due, listening, yields_at) = row[:9]
    (credential, scheme, parts, attempts, disowned, tries) = row[9:15]
    hold, retention, tombstone = row[15:18]
    return Record(
        id=id_of(upstream, caller, key),
        credential=credential,
        fingerprint=Fingerprint(Scheme.from_text(scheme), _cut(parts)),
        entity=EntityId(domain, entity),
        attempts=tuple(_attempt_in(item) for item in orjson.loads(attempts)),
        state=_state(state, due, bool(listening), yields_at, tombstone, row[18:]),
        tries=tries,
        hold=hold,
        retention=retention,
        tombstone=tombstone,
        disowned=tuple(Disowned(_attempt_in(a), until) for until, a in orjson.loads(disowned)),
    )


def _state(
    word: str,
    due: int,
    listening: bool,
    yields_at: int | None,
    tombstone: int,
    answer: tuple[Any, ...],
) -> State:
    match word:
        case "open":
            return Open(due, listening, yields_at)
        case "done":
            return Done(_answer_in(*answer), due)
        case "unknown":
            return Unknown()
        case "expired":
            return Expired(due - tombstone)
        case "freed":
            return Freed()
        case _:
            raise ValueError(f"a record's state is {word!r}")


def _cut(parts: bytes) -> tuple[bytes, ...]:
    return tuple(parts[i : i + DIGEST] for i in range(0, len(parts), DIGEST))


def _attempt_out(a: Attempt) -> list[Any]:
    evidence = [a.evidence.doubt.value, a.evidence.status] if a.evidence else None
    return [a.id, a.number, a.fence, a.holder, a.admitted_at, a.doubtful_since, a.ended_at,
            evidence]  # fmt: skip


def _attempt_in(item: list[Any]) -> Attempt:
    id, number, fence, holder, admitted_at, doubtful_since, ended_at, evidence = item
    seen = Evidence(Doubt(evidence[0]), evidence[1]) if evidence else None
    return Attempt(
        AttemptId(id), number, fence, holder, admitted_at, doubtful_since, ended_at, seen
    )


def _answer_columns(answer: Answer | Unkept | None) -> tuple[Any, ...]:
    match answer:
        case None:
            return (None, None, None, None, None)
        case Answer():
            headers = _headers_out(answer.headers)
            return (answer.status, headers, len(answer.body), None, answer.body)
        case Unkept():
            headers = _headers_out(answer.headers)
            return (answer.status, headers, answer.length, answer.digest, None)


def _answer_in(
    status: int | None, headers: str, length: int | None, digest: str | None, body: bytes | None
) -> Answer | Unkept:
    if body is None or status is None:
        return Unkept(status, _headers_in(headers), length, digest)
    return Answer(status, _headers_in(headers), body)


def _headers_out(headers: Headers) -> str:
    return _dumps([[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers])


def _headers_in(text: str) -> Headers:
    pairs = orjson.loads(text)
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs)


def _dumps(value: Any) -> str:
    return orjson.dumps(value).decode()
