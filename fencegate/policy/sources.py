"""Where in a request a value stands, and its one reading.

`{path.x}`, `{query.x}`, `{header.x}`, `{json./pointer}`, `{form.x}` and `{caller}`. A value has one
reading, is absent, or is malformed: a parameter, a field line and a JSON member stand once, also
where a receiver would take two spellings of their name for one; escapes are decoded once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote_to_bytes

from fencegate.core.bodies import FormFields, folded_name, form_fields, media_type
from fencegate.core.fingerprint import Request
from fencegate.core.reading import Malformed, decode_segment
from fencegate.core.strict_json import (
    Duplicate,
    Json,
    Missing,
    NotJson,
    Number,
    TooDeep,
    parse,
    steps,
)
from fencegate.core.strict_json import pointer as place_in


class Source(StrEnum):
    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    JSON = "json"
    FORM = "form"
    CALLER = "caller"


@dataclass(frozen=True, slots=True)
class Absent:
    """The request has no such value."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What values are read from: a request, the segments that its route captured (as they came,
    still encoded), and who makes it (None where no callers are configured)."""

    request: Request
    captures: Mapping[str, bytes]
    caller: str | None = None


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One value: from which part of the request, and from where in it.

    `integer`: in a JSON body only a whole number will do, not a text of digits.
    """

    source: Source
    name: str
    integer: bool = False

    def __str__(self) -> str:
        return "{caller}" if self.source is Source.CALLER else f"{{{self.source}.{self.name}}}"

    def read(self, seen: Seen) -> str | Absent | Malformed:
        """The value, or what is wrong with it, in words that follow its name."""
        match self.source:
            case Source.PATH:
                return decode_segment(seen.captures[self.name])
            case Source.QUERY:
                return _read_query(self.name, seen.request)
            case Source.HEADER:
                return _read_header(self.name, seen.request)
            case Source.JSON:
                return _read_json(self.name, seen.request, integer=self.integer)
            case Source.FORM:
                return _read_form(self.name, seen.request)
            case Source.CALLER:
                return Absent() if seen.caller is None else seen.caller


_NAMES = {
    Source.PATH: re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
    Source.QUERY: re.compile(r"[^\x00-\x1f\x7f]+"),
    Source.HEADER: re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"),
    Source.JSON: re.compile(r"/.*", re.DOTALL),
    Source.FORM: re.compile(r"[^\x00-\x1f\x7f]+"),
    Source.CALLER: re.compile(r""),
}


def placeholder(inner: str, *, integer: bool = False) -> Placeholder:
    """The placeholder of what stands between braces; ValueError says what is wrong with it."""
    word, dot, name = inner.partition(".")
    if word not in list(Source):
        raise ValueError(f"`{{{inner}}}`: a value comes from one of {', '.join(Source)}")
    source = Source(word)
    if not _NAMES[source].fullmatch(name) or bool(dot) is (source is Source.CALLER):
        raise ValueError(f"`{{{inner}}}`: `{name}` is no place in {source}")
    if source is Source.JSON:
        steps(name)
    return Placeholder(source, name.lower() if source is Source.HEADER else name, integer)


# --- headers -------------------------------------------------------------------------------


def _read_header(name: str, request: Request) -> str | Absent | Malformed:
    lines = request.lines(name.encode())
    if len(lines) != 1:
        return _twice() if lines else Absent()
    # RFC 9110 section 5.3: whoever passed it on may have joined two lines. A key in quotes may
    # hold a comma, and is read strictly as a whole.
    if b"," in lines[0] and name != "idempotency-key":
        return Malformed("a list or a text with a comma; send one value")
    try:
        return lines[0].strip(b" \t").decode("utf-8")
    except UnicodeDecodeError:
        return Malformed("not UTF-8; send UTF-8")


# --- queries and forms ---------------------------------------------------------------------


def _read_query(name: str, request: Request) -> str | Absent | Malformed:
    query = request.target.partition(b"?")[2]
    if b";" in query:  # some receivers split there too
        return Malformed("in a query with `;`; send %3B")
    pairs = [pair.partition(b"=") for pair in query.split(b"&")]
    value = _only_value([(_decoded_name(raw), value) for raw, _, value in pairs], name)
    if isinstance(value, bytes) and b"+" in value:  # a space to those who read it as a form
        return Malformed("written with `+`; send %20 for a space and %2B for a plus sign")
    return decode_segment(value) if isinstance(value, bytes) else value


def _read_form(name: str, request: Request) -> str | Absent | Malformed:
    if not request.body:
        return Absent()
    lines = request.lines(b"content-type")
    fields = form_fields(request.body, lines[0]) if len(lines) == 1 else None
    if fields is None:
        return Malformed("in a body that is no form; send its Content-Type")
    value = _only_value(fields.pairs, name)
    if fields.encoded and b";" in request.body:  # some receivers split there too
        return Malformed("in a form with `;`; send %3B")
    return _form_text(value, fields) if isinstance(value, bytes) else value


def _form_text(value: bytes, fields: FormFields) -> str | Malformed:
    if fields.encoded:
        return decode_segment(value.replace(b"+", b" "))
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return Malformed("not UTF-8; send UTF-8")


def _only_value(
    pairs: list[tuple[bytes, bytes]] | tuple[tuple[bytes, bytes], ...], name: str
) -> bytes | Absent | Malformed:
    """The value under a name that stands once, in whatever spelling a receiver would merge."""
    wanted = folded_name(name.encode())
    found = [(seen, value) for seen, value in pairs if folded_name(seen) == wanted]
    if len(found) != 1:
        return _twice() if found else Absent()
    ((seen, value),) = found
    return value if seen == name.encode() else _other_spelling()


def _decoded_name(raw: bytes) -> bytes:
    return unquote_to_bytes(raw.replace(b"+", b" "))


# --- JSON ----------------------------------------------------------------------------------

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def _read_json(name: str, request: Request, *, integer: bool) -> str | Absent | Malformed:
    if not request.body:
        return Absent()
    if not _says_json(request):
        return Malformed("in a body that does not say it is JSON; send its Content-Type")
    body = parse(request.body)
    match body:
        case NotJson():
            return Malformed("in a body that is not JSON; send one JSON text in UTF-8")
        case Duplicate():
            return Malformed("in a body where a member name stands twice; send each name once")
        case TooDeep():
            return Malformed("in a body that is nested too deep; send it flatter")
    for step, names in _alike(body, name):
        if len(names) > 1:
            return Malformed("sent more than once, in names that differ in case; send it once")
        if names and names != [step]:
            return _other_spelling()
    return _scalar(place_in(body, name), integer=integer)


def _scalar(value: Json | Missing, *, integer: bool) -> str | Absent | Malformed:
    match value:
        case Missing() | None:
            return Absent()
        case Number() if not _INTEGER.fullmatch(value):
            return Malformed("a number that can be written in several ways; send a text")
        case Number():
            return str(value)
        case str() if integer:
            return Malformed("a text; send a whole number")
        case str():
            return value
        case _:
            return Malformed("neither a text nor a whole number; send one of them")


def _alike(value: Json, path: str) -> Iterator[tuple[str, list[str]]]:
    """Each step, and the member names that a receiver which does not mind case takes for it."""
    for step in steps(path):
        if isinstance(value, dict):
            yield step, [name for name in value if name.casefold() == step.casefold()]
        inner = place_in(value, "/" + step.replace("~", "~0").replace("/", "~1"))
        if isinstance(inner, Missing):
            return
        value = inner


def _says_json(request: Request) -> bool:
    lines = request.lines(b"content-type")
    if len(lines) != 1:
        return False
    essence, _, charset = media_type(lines[0]).partition(b";charset=")
    is_json = essence == b"application/json" or essence.endswith(b"+json")
    return is_json and charset in (b"", b"utf-8")


def _twice() -> Malformed:
    return Malformed("sent more than once; send it once")


def _other_spelling() -> Malformed:
    return Malformed("sent under another spelling of its name; send it as the route has it")
