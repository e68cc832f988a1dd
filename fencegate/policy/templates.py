"""Templates: how a route reads its entity, or its key, out of a request.

Text with placeholders: `{path.x}`, `{query.x}`, `{header.x}`, `{json./pointer}`. A value has one
reading or none: a parameter, a field line and a JSON member stand once, and escapes are decoded
once. A template of several values can be taken apart in one way only, so that no two requests
share an entity by accident: `{a}:{b}` refuses an `a` that holds a colon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote_to_bytes

from fencegate.core.bodies import media_type
from fencegate.core.fingerprint import Request
from fencegate.core.reading import Malformed, decode_segment, key_of_text, spell_entity
from fencegate.core.strict_json import Duplicate, Missing, NotJson, Number, TooDeep, parse, steps
from fencegate.core.strict_json import pointer as place_in

Captures = Mapping[str, bytes]
Spell = Callable[[str], str | Malformed]


class Source(StrEnum):
    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One value: from which part of the request, and from where in it."""

    source: Source
    name: str

    def __str__(self) -> str:
        return f"{{{self.source}.{self.name}}}"

    def read(self, captures: Captures, request: Request) -> str | Malformed:
        """The value, or what is wrong with it, in words that follow its name."""
        match self.source:
            case Source.PATH:
                return decode_segment(captures[self.name])
            case Source.QUERY:
                return _read_query(self.name, request)
            case Source.HEADER:
                return _read_header(self.name, request)
            case Source.JSON:
                return _read_json(self.name, request)


@dataclass(frozen=True, slots=True, repr=False)
class Template:
    """Compiled once. `literals` is what stands before, between and after the placeholders."""

    text: str
    literals: tuple[str, ...]
    placeholders: tuple[Placeholder, ...]
    spell: Spell

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    @property
    def whole(self) -> Placeholder | None:
        """The one placeholder of a template that is nothing else: its value is read whole."""
        bare = len(self.placeholders) == 1 and self.literals == ("", "")
        return self.placeholders[0] if bare else None

    @property
    def captures(self) -> frozenset[str]:
        """What the route's pattern must capture."""
        return frozenset(hole.name for hole in self.placeholders if hole.source is Source.PATH)

    def render(self, captures: Captures, request: Request) -> str | Malformed:
        """The entity or the key of a request, in its one spelling.

        `captures` holds at least `self.captures`. Malformed is a clause of its own: which value,
        or the whole template, is what.
        """
        filled = self.literals[0]
        for hole, after in zip(self.placeholders, self.literals[1:], strict=True):
            value = hole.read(captures, request)
            if isinstance(value, str) and self.whole is None:
                value = self._fit(value, after)
            if isinstance(value, Malformed):
                return Malformed(f"{hole} is {value.expected}")
            filled += value + after
        read = self.spell(filled)
        if isinstance(read, Malformed):
            return Malformed(f"{self.text} is {read.expected}")
        if read != filled and self.whole is None:
            return Malformed(f"{self.text} is changed by its values; send plain texts")
        return read

    def _fit(self, value: str, after: str) -> str | Malformed:
        """The spelling of a value that is a part, if its end can be told from what follows."""
        spelled = spell_entity(value)
        if isinstance(spelled, Malformed) or not after or len(self.placeholders) == 1:
            return spelled
        # Not just `in`: of `-` and `--` together nobody can say where the value has ended.
        if (spelled + after).index(after) < len(spelled):
            return Malformed(f"a text that holds or runs into the `{after}` after it; send another")
        return spelled


def entity_template(written: str) -> Template:
    """Compile the template of an entity; ValueError says what is wrong with it."""
    return _compile(written, spell_entity)


def key_template(written: str) -> Template:
    """Compile the template of a key; ValueError says what is wrong with it."""
    template = _compile(written, key_of_text)
    if not template.placeholders:
        raise ValueError(f"`{written}` has no placeholder, so that all calls would share one key")
    return template


# --- compiling -----------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NAMES = {
    Source.PATH: re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
    Source.QUERY: re.compile(r"[^\x00-\x1f\x7f]+"),
    Source.HEADER: re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"),
    Source.JSON: re.compile(r"/.*", re.DOTALL),
}


def _compile(written: str, spell: Spell) -> Template:
    pieces = _PLACEHOLDER.split(written)
    literals, inner = tuple(pieces[::2]), pieces[1::2]
    if any("{" in literal or "}" in literal for literal in literals):
        raise ValueError(f"`{written}` has a brace without its other half")
    if "" in literals[1:-1]:
        raise ValueError(f"`{written}` has nothing between two placeholders to tell them apart")
    placeholders = tuple(_placeholder(text) for text in inner)
    sample = "x".join(literals)
    match spell(sample):
        case Malformed(expected=expected):
            raise ValueError(f"`{written}` can only make what is {expected}")
        case read if read != sample:
            raise ValueError(f"`{written}` has quotes or characters that would be changed")
    return Template(written, literals, placeholders, spell)


def _placeholder(inner: str) -> Placeholder:
    word, _, name = inner.partition(".")
    if word not in list(Source):
        raise ValueError(f"`{{{inner}}}`: a value comes from one of {', '.join(Source)}")
    source = Source(word)
    if not _NAMES[source].fullmatch(name):
        raise ValueError(f"`{{{inner}}}`: `{name}` is no place in {source}")
    if source is Source.JSON:
        steps(name)
    return Placeholder(source, name.lower() if source is Source.HEADER else name)


# --- reading values ------------------------------------------------------------------------


def _read_header(name: str, request: Request) -> str | Malformed:
    lines = request.lines(name.encode())
    if len(lines) != 1:
        return _not_once(len(lines))
    if b"," in lines[0]:  # RFC 9110 section 5.3: whoever passed it on may have joined two lines
        return Malformed("a list or a text with a comma; send one value")
    try:
        return lines[0].strip(b" \t").decode("utf-8")
    except UnicodeDecodeError:
        return Malformed("not UTF-8; send UTF-8")


def _read_query(name: str, request: Request) -> str | Malformed:
    query = request.target.partition(b"?")[2]
    if b";" in query:  # some receivers split there too
        return Malformed("in a query with `;`; send %3B")
    pairs = [pair.partition(b"=") for pair in query.split(b"&")]
    values = [value for raw, _, value in pairs if _query_name(raw) == name.encode()]
    if len(values) != 1:
        return _not_once(len(values))
    if b"+" in values[0]:  # a space to those who read the query as a form, a plus to others
        return Malformed("written with `+`; send %20 for a space and %2B for a plus sign")
    return decode_segment(values[0])


def _query_name(raw: bytes) -> bytes:
    return unquote_to_bytes(raw.replace(b"+", b" "))


_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def _read_json(name: str, request: Request) -> str | Malformed:
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
    value = place_in(body, name)
    match value:
        case Missing():
            return _not_once(0)
        case Number() if not _INTEGER.fullmatch(value):
            return Malformed("a number that can be written in several ways; send a text")
        case str():
            return str(value)
        case _:
            return Malformed("neither a text nor a whole number; send one of them")


def _says_json(request: Request) -> bool:
    lines = request.lines(b"content-type")
    if len(lines) != 1:
        return False
    essence, _, charset = media_type(lines[0]).partition(b";charset=")
    is_json = essence == b"application/json" or essence.endswith(b"+json")
    return is_json and charset in (b"", b"utf-8")


def _not_once(count: int) -> Malformed:
    return Malformed("sent more than once; send it once" if count else "missing; send it")
