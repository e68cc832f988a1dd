"""The identity of a request: what must be the same for a retry to be a retry.

Seven parts, each a digest of its own, so that a refusal can name the parts that differ without
anybody keeping their values. Which places count is the `Scheme`; it is kept with the record,
and a record is compared under the scheme it was made with.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from fencegate.core.bodies import Ambiguous, canonical_body, canonical_query, framed, media_type
from fencegate.core.strict_json import steps

VERSION = 1
PARTS = ("method", "path", "query", "entity", "media_type", "headers", "body")


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """A request as it came: target in origin form, header fields in order, body whole."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def __repr__(self) -> str:
        path = self.target.partition(b"?")[0].decode("ascii", "backslashreplace")
        return f"Request({self.method} {path}, {len(self.headers)} headers, {len(self.body)} bytes)"

    def lines(self, name: bytes) -> list[bytes]:
        """The values of all field lines of a name, which is given in lower case."""
        return [value for field, value in self.headers if field.lower() == name]


# --- schemes -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scheme:
    """What counts. Equal schemes mean the same: each list is kept sorted and without repeats.

    `ignore`: JSON pointers that may differ. `headers`: names that count, case does not.
    `taken`: what a route reads whole as fence, key, holder or proof: `json:/pointer`,
    `form:name`, `query:name`, or `path:INDEX`, the segment counted from 0 after the first slash.
    A header needs no entry. ValueError for a place that cannot be.
    """

    version: int = VERSION
    ignore: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = (name.lower() for name in self.headers)
        object.__setattr__(self, "ignore", tuple(sorted(set(self.ignore))))
        object.__setattr__(self, "headers", tuple(sorted(set(names))))
        object.__setattr__(self, "taken", tuple(sorted(set(self.taken))))
        if self.version == VERSION:  # what another version may say is not known here
            _plan(self)

    def to_text(self) -> str:
        """The scheme as compact JSON in ASCII, one text per scheme; `from_text` takes it back."""
        return _to_text(self)

    @staticmethod
    def from_text(text: str) -> Scheme:
        """The scheme that `to_text` wrote; ValueError for any other text.

        A scheme of an unknown version can be read and kept; `fingerprint` refuses to use it.
        """
        return _from_text(text)


@lru_cache(maxsize=256)
def _to_text(scheme: Scheme) -> str:
    lists = {"ignore": scheme.ignore, "headers": scheme.headers, "taken": scheme.taken}
    said = {name: items for name, items in lists.items() if items}
    return json.dumps({"version": scheme.version, **said}, separators=(",", ":"))


@lru_cache(maxsize=256)
def _from_text(text: str) -> Scheme:
    said = json.loads(text)
    if not isinstance(said, dict) or type(version := said.pop("version", None)) is not int:
        raise ValueError("a scheme is a JSON object with a version")
    if not said.keys() <= {"ignore", "headers", "taken"}:
        raise ValueError("a scheme that a newer program wrote; read it with that program")
    if not all(isinstance(items, list) for items in said.values()):
        raise ValueError("a scheme holds lists of texts")
    if not all(isinstance(item, str) for items in said.values() for item in items):
        raise ValueError("a scheme holds lists of texts")
    return Scheme(version, **{name: tuple(items) for name, items in said.items()})


@dataclass(frozen=True, slots=True)
class _Plan:
    """A scheme sorted by where its places are."""

    headers: tuple[bytes, ...]
    json: tuple[str, ...]
    form: tuple[str, ...]
    query: tuple[str, ...]
    path: frozenset[int]


@lru_cache(maxsize=256)
def _plan(scheme: Scheme) -> _Plan:
    places: dict[str, list[str]] = {"json": [], "form": [], "query": [], "path": []}
    for taken in scheme.taken:
        source, colon, place = taken.partition(":")
        if not (colon and place and source in places):
            raise ValueError(f"{taken!r} is no source; write json:/a, form:a, query:a or path:0")
        places[source].append(place)
    for path in (*scheme.ignore, *places["json"]):
        if not steps(path):
            raise ValueError("the whole body cannot be left out; point at a place in it")
    return _Plan(
        headers=tuple(name.encode("ascii") for name in scheme.headers),
        json=tuple(places["json"]),
        form=tuple(places["form"]),
        query=tuple(places["query"]),
        path=frozenset(_index(place) for place in places["path"]),
    )


_INDEX = re.compile(r"0|[1-9][0-9]{0,4}")


def _index(place: str) -> int:
    if not _INDEX.fullmatch(place):
        raise ValueError(f"path:{place} is no segment; write path:0 for the first")
    return int(place)


# --- fingerprints --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Fingerprint:
    """One SHA-256 digest of 32 bytes per part, in the order of `PARTS`."""

    scheme: Scheme
    parts: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Fingerprint(v{self.scheme.version} {self.digest.hex()[:12]})"

    @property
    def digest(self) -> bytes:
        """32 bytes that stand for version, scheme and all parts."""
        return _digest("whole", framed(self.scheme.to_text().encode(), *self.parts))

    def differs_from(self, other: Fingerprint) -> tuple[str, ...]:
        """The names of the parts that differ; ValueError if the schemes do."""
        if self.scheme != other.scheme:
            raise ValueError("fingerprints under different schemes cannot be compared")
        pairs = zip(PARTS, self.parts, other.parts, strict=True)
        return tuple(name for name, mine, theirs in pairs if mine != theirs)


def fingerprint(request: Request, entity: str, scheme: Scheme) -> Fingerprint | Ambiguous:
    """The identity of a request under a scheme, or why its body has none.

    Entity is in the one spelling of `spell_entity`. ValueError for a version that is not known
    here: a newer program wrote that record, and only a newer program can compare with it.
    """
    if scheme.version != VERSION:
        raise ValueError(f"fingerprint version {scheme.version} is not known; use a newer program")
    plan = _plan(scheme)
    types = request.lines(b"content-type")
    body = canonical_body(
        request.body,
        types[0] if len(types) == 1 else None,
        ignore=scheme.ignore,
        taken_json=plan.json,
        taken_form=plan.form,
    )
    if isinstance(body, Ambiguous):
        return body
    path, mark, query = request.target.partition(b"?")
    parts = (
        _digest("method", request.method.encode()),
        _digest("path", _path(path, plan.path)),
        _digest("query", canonical_query(query if mark else None, taken=plan.query)),
        _digest("entity", entity.encode()),
        _digest("media_type", _media_types(types)),
        _digest("headers", _headers(request, plan.headers)),
        _digest("body", body),
    )
    return Fingerprint(scheme, parts)


_HEADS = {
    part: framed(b"fencegate fingerprint", str(VERSION).encode(), part.encode())
    for part in (*PARTS, "whole")
}


def _digest(part: str, content: bytes) -> bytes:
    # The head is framed and the content is all that follows: no two parts share their bytes.
    return sha256(_HEADS[part] + content).digest()


def _path(path: bytes, taken: frozenset[int]) -> bytes:
    if not taken:
        return path
    # A taken segment leaves its place behind: /a/{key} must not become /a.
    segments = enumerate(path.split(b"/"), start=-1)  # -1: what stands before the first slash
    return framed(*(b"" if index in taken else b"/" + text for index, text in segments))


def _media_types(lines: list[bytes]) -> bytes:
    # Upstreams differ on which of several lines counts, so all count, as they came.
    return framed(media_type(lines[0])) if len(lines) == 1 else framed(*lines)


def _headers(request: Request, names: tuple[bytes, ...]) -> bytes:
    return framed(*(framed(name, *request.lines(name)) for name in names))
