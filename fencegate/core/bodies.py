"""What of a body, a query and a media type counts when two requests are compared.

Looser than the bytes only where no upstream can tell the difference; whatever does not parse
strictly is compared byte by byte. A result names its kind and frames its pieces by length, so
that no two kinds and no two contents have one result.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from urllib.parse import unquote_to_bytes

from fencegate.core.strict_json import Duplicate, NotJson, TooDeep, canonical, parse, without


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The body cannot be compared, because upstreams may differ on what it says."""

    why: str


_length = Struct(">Q").pack


def framed(*pieces: bytes) -> bytes:
    """The pieces, each after its length: two different sequences never give the same bytes."""
    return b"".join([_length(len(piece)) + piece for piece in pieces])


def canonical_body(
    body: bytes,
    content_type: bytes | None,
    *,
    ignore: tuple[str, ...],
    taken_json: tuple[str, ...],
    taken_form: tuple[str, ...],
) -> bytes | Ambiguous:
    """What two bodies of one media type must share to be the same.

    JSON (RFC 8259, and `+json`): the document without the places that are ignored or taken.
    A form: see `canonical_query`. `multipart/form-data` (RFC 7578): its parts in order. All
    else, and what is not strictly what its type says: the bytes.
    """
    kind = None if content_type is None else _read_media_type(content_type)
    if content_type is None or kind is None:
        return _as_bytes(body)
    if kind.essence == b"multipart/form-data":
        parts = _read_parts(body, kind.parameters.get(b"boundary", b""))
        if parts is None:  # the boundary is needed to know what the bytes say
            return framed(b"multipart bytes", content_type, body)
        return framed(b"multipart", *(part.framed() for part in _untaken(parts, taken_form)))
    if kind.parameters.get(b"charset", b"utf-8").lower() != b"utf-8":
        return _as_bytes(body)
    if kind.essence == b"application/json" or kind.essence.endswith(b"+json"):
        return _canonical_json(body, ignore + taken_json)
    if kind.essence == b"application/x-www-form-urlencoded":
        return framed(b"form", *_ordered_pieces(body, taken_form))
    return _as_bytes(body)


def _as_bytes(body: bytes) -> bytes:
    return framed(b"bytes", body)


def _canonical_json(body: bytes, left_out: tuple[str, ...]) -> bytes | Ambiguous:
    value = parse(body)
    if isinstance(value, NotJson):
        return _as_bytes(body)
    if isinstance(value, Duplicate):
        return Ambiguous("a member name stands twice in one JSON object; send each name once")
    if isinstance(value, TooDeep):
        return Ambiguous("the JSON body is nested too deep to be compared; send it flatter")
    return framed(b"json", canonical(without(value, left_out)))


# --- queries and forms ---------------------------------------------------------------------


def canonical_query(raw: bytes | None, *, taken: tuple[str, ...]) -> bytes:
    """What two queries must share to be the same: the raw pieces, grouped by name.

    `raw` is what follows the first `?`, None where there is none. Pieces are compared as they
    are spelt (`+`, `%20` and `%2B` differ); their order counts within one name, decoded once.
    A taken name is left out if it stands once. A query of taken names only counts as none.
    Where a `;` stands in the raw text, nothing is grouped or left out.
    """
    pieces = [] if raw is None else _ordered_pieces(raw, taken)
    return framed(b"query", *pieces) if pieces else _NO_QUERY


_NO_QUERY = framed(b"no query")


def _ordered_pieces(raw: bytes, taken: tuple[str, ...]) -> list[bytes]:
    pieces = raw.split(b"&")
    if b";" in raw:  # some upstreams split there too: what they see is known only as written
        return pieces
    named = [(_name(piece), piece) for piece in pieces]
    if taken:
        count = Counter(name for name, _ in named)
        once = {name for name in (t.encode() for t in taken) if count[name] == 1}
        named = [(name, piece) for name, piece in named if name not in once]
    named.sort(key=_group)
    return [piece for _, piece in named]


def _name(piece: bytes) -> bytes:
    name = piece.partition(b"=")[0]
    if b"%" in name or b"+" in name:
        return unquote_to_bytes(name.replace(b"+", b" "))
    return name


def _group(named: tuple[bytes, bytes]) -> str:
    # Order shows between more than equal names, wherever some upstream takes them for one.
    return folded_name(named[0])


def folded_name(name: bytes) -> str:
    """What two names of parameters share if some receiver may take them for one: upstreams fold
    case, PHP folds `.` and space into `_`, and `a[][x]`, `a[][y]` fill the elements of one list."""
    name = name.partition(b"[]")[0].replace(b".", b"_").replace(b" ", b"_")
    return name.decode("utf-8", "replace").casefold()


@dataclass(frozen=True, slots=True, repr=False)
class FormFields:
    """Names, decoded, and values of a form in order; `encoded` values are as in a query."""

    pairs: tuple[tuple[bytes, bytes], ...]
    encoded: bool


def form_fields(body: bytes, content_type: bytes) -> FormFields | None:
    """The fields of a form of either media type; None if the body is not strictly one."""
    kind = _read_media_type(content_type)
    if kind is None:
        return None
    if kind.essence == b"multipart/form-data":
        parts = _read_parts(body, kind.parameters.get(b"boundary", b""))
        if parts is None:
            return None
        return FormFields(tuple((part.name, part.content) for part in parts), encoded=False)
    if kind.essence != b"application/x-www-form-urlencoded":
        return None
    if kind.parameters.get(b"charset", b"utf-8").lower() != b"utf-8":
        return None
    pieces = body.split(b"&")
    return FormFields(tuple((_name(p), p.partition(b"=")[2]) for p in pieces), encoded=True)


# --- media types ---------------------------------------------------------------------------

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"'
_HEAD = re.compile(rb"%b(?:/%b)?" % (_TOKEN, _TOKEN))
_PARAMETER = re.compile(rb"[ \t]*;[ \t]*(?:(%b)=(%b|%b))?" % (_TOKEN, _TOKEN, _QUOTED))
_WHOLE_TOKEN = re.compile(_TOKEN)


@dataclass(frozen=True, slots=True)
class _Parametrised:
    """`essence; name=value`: names and essence in lower case, values without their quotes."""

    essence: bytes
    parameters: dict[bytes, bytes]


def media_type(content_type: bytes | None) -> bytes:
    """Type, subtype and charset in lower case (RFC 9110 section 8.3.1); empty for None.

    Other parameters do not count. A value that is no media type stands as it came.
    """
    if content_type is None:
        return b""
    kind = _read_media_type(content_type)
    if kind is None:
        return content_type
    charset = kind.parameters.get(b"charset")
    return kind.essence if charset is None else kind.essence + b";charset=" + charset.lower()


def _read_media_type(raw: bytes) -> _Parametrised | None:
    # Most calls repeat a few short values; a long one is not worth the memory.
    return _read_known(raw) if len(raw) <= 64 else _read_known.__wrapped__(raw)


@lru_cache(maxsize=256)
def _read_known(raw: bytes) -> _Parametrised | None:
    kind = _read_parametrised(raw)
    if kind is None or b"/" not in kind.essence:
        return None
    # A charset that needs its quotes is none; without them it could read as another value.
    if not _WHOLE_TOKEN.fullmatch(kind.parameters.get(b"charset", b"none")):
        return None
    return kind


def _read_parametrised(raw: bytes) -> _Parametrised | None:
    raw = raw.strip(b" \t")
    head = _HEAD.match(raw)
    if head is None:
        return None
    parameters: dict[bytes, bytes] = {}
    at = head.end()
    while at < len(raw):
        found = _PARAMETER.match(raw, at)
        if found is None:
            return None
        at = found.end()
        if found[1] is None:
            continue
        name, value = found[1].lower(), found[2]
        if name in parameters:
            return None
        parameters[name] = value[1:-1] if value[:1] == b'"' else value
    return _Parametrised(head[0].lower(), parameters)


# --- multipart forms -----------------------------------------------------------------------

_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
# Possessive, so that a long run of spaces is walked once.
_FIELD = re.compile(rb"(%b):[ \t]*+([\t \x21-\x7e\x80-\xff]*+)" % _TOKEN)


@dataclass(frozen=True, slots=True)
class _Part:
    """One part; `others` are its header fields besides disposition and type, in order."""

    name: bytes
    file_name: bytes | None
    extended_file_name: bytes | None
    type: bytes | None
    others: tuple[tuple[bytes, bytes], ...]
    content: bytes

    def framed(self) -> bytes:
        optional = (self.file_name, self.extended_file_name, self.type)
        return framed(
            self.name,
            *(b"" if text is None else b"=" + text for text in optional),
            framed(*(framed(*field) for field in self.others)),
            self.content,
        )

    @property
    def is_file(self) -> bool:
        return self.file_name is not None or self.extended_file_name is not None


def _untaken(parts: list[_Part], taken: tuple[str, ...]) -> list[_Part]:
    count = Counter(part.name for part in parts)
    once = {name for name in (t.encode() for t in taken) if count[name] == 1}
    return [part for part in parts if part.is_file or part.name not in once]


def _read_parts(body: bytes, boundary: bytes) -> list[_Part] | None:
    """The parts (RFC 2046 section 5.1.1), None if there is a preamble, an epilogue or doubt."""
    if not _BOUNDARY.fullmatch(boundary):
        return None
    first, *between = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if first or not between or between.pop() not in (b"--", b"--\r\n"):
        return None
    parts: list[_Part] = []
    for raw in between:
        part = _read_part(raw)
        if part is None:
            return None
        parts.append(part)
    return parts


def _read_part(raw: bytes) -> _Part | None:
    head, end, content = raw.partition(b"\r\n\r\n")
    start, *lines = head.split(b"\r\n")
    if start or not end:
        return None
    fields: list[tuple[bytes, bytes]] = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            return None
        fields.append((field[1].lower(), field[2].rstrip(b" \t")))
    return _part_of(fields, content)


def _part_of(fields: list[tuple[bytes, bytes]], content: bytes) -> _Part | None:
    dispositions = [value for name, value in fields if name == b"content-disposition"]
    types = [value for name, value in fields if name == b"content-type"]
    if len(dispositions) != 1 or len(types) > 1:
        return None
    said = _read_parametrised(dispositions[0])
    if said is None or said.essence != b"form-data" or b"name" not in said.parameters:
        return None
    if not said.parameters.keys() <= {b"name", b"filename", b"filename*"}:
        return None
    others = tuple(f for f in fields if f[0] not in (b"content-disposition", b"content-type"))
    return _Part(
        said.parameters[b"name"],
        said.parameters.get(b"filename"),
        said.parameters.get(b"filename*"),
        types[0] if types else None,
        others,
        content,
    )
