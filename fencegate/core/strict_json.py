"""JSON read so that nothing is lost: number text stays, a repeated member is found, depth ends.

`parse` is stricter than RFC 8259 asks (UTF-8 without a byte order mark, no NaN) and looser in
nothing, so that what it reads is what every other reader of the bytes reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from typing import NoReturn, TypeAlias

MAX_DEPTH = 128  # fixed, so that one body gets one answer on every interpreter and call stack


class Number(str):
    """The text of a number as it was written: `1`, `1.0` and `1e0` are three numbers.

    It never equals a plain text, so that 42 and "42" stay apart wherever they are compared.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return f"Number({self!s})"


Json: TypeAlias = "bool | str | Number | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class NotJson:
    """The bytes are not one JSON text in UTF-8."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A member name stands twice in one object: readers differ on which one counts."""


@dataclass(frozen=True, slots=True)
class TooDeep:
    """Nested more than `MAX_DEPTH` deep."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The document has no such place."""


# --- reading -------------------------------------------------------------------------------


class _Repeated(Exception):
    pass


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Repeated
    return members


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_decode = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=Number, parse_float=Number, parse_constant=_no_constant
).decode


def parse(body: bytes) -> Json | NotJson | Duplicate | TooDeep:
    """The document that the bytes spell (RFC 8259); members keep their written order."""
    try:
        value: Json = _decode(body.decode("utf-8"))
    except _Repeated:
        return Duplicate()
    except RecursionError:
        return TooDeep()
    except ValueError:
        return NotJson()
    # So few brackets cannot nest too deep: the walk is for large bodies only.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _too_deep(value):
        return TooDeep()
    return value


def _too_deep(value: Json) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _containers_in(outer)]
        if not level:
            return False
    return True


def _containers_in(value: Json) -> list[Json]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [inner for inner in inside if isinstance(inner, dict | list)]


# --- places --------------------------------------------------------------------------------

_POINTER = re.compile(r"(?:/(?:[^/~]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


@lru_cache(maxsize=1024)  # pointers come from policies, never from callers
def steps(path: str) -> tuple[str, ...]:
    """The steps of a JSON pointer (RFC 6901 section 3); ValueError if it is none."""
    if not _POINTER.fullmatch(path):
        raise ValueError(f"{path!r} is not a JSON pointer; write it like /a/b/0")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])


def pointer(value: Json, path: str) -> Json | Missing:
    """What stands at a place (RFC 6901 section 4), or `Missing`."""
    for step in steps(path):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return Missing()
    return value


_Tree: TypeAlias = "dict[str, _Tree]"  # an empty tree says: remove what stands here


def without(value: Json, paths: Iterable[str]) -> Json:
    """A copy that lacks these places; all are counted in the document as it came.

    A missing place is no error. The whole document cannot be removed: ValueError.
    """
    tree = _removals(tuple(paths))
    return _pruned(value, tree) if tree else value


@lru_cache(maxsize=256)
def _removals(paths: tuple[str, ...]) -> _Tree:
    root: _Tree = {}
    for route in sorted(map(steps, paths), key=len, reverse=True):
        if not route:
            raise ValueError("the whole document cannot be removed; point at a place in it")
        tree = root
        for step in route[:-1]:
            tree = tree.setdefault(step, {})
        tree[route[-1]] = {}  # shortest last: removing a place removes all below it
    return root


def _pruned(value: Json, tree: _Tree) -> Json:
    if isinstance(value, dict):
        return {
            name: _pruned(inner, tree[name]) if name in tree else inner
            for name, inner in value.items()
            if tree.get(name) != {}
        }
    if isinstance(value, list):
        return [
            _pruned(inner, tree[str(index)]) if str(index) in tree else inner
            for index, inner in enumerate(value)
            if tree.get(str(index)) != {}
        ]
    return value


# --- one spelling --------------------------------------------------------------------------


def canonical(value: Json) -> bytes:
    """One spelling per document: no spacing, members by name, numbers as written.

    Different documents have different spellings. Names that differ in case alone keep their
    written order, because some upstreams (Go's encoding/json) match names without case and let
    the last one win. `value` comes from `parse`, which bounds its depth.
    """
    # A lone surrogate is legal in JSON; it keeps a spelling of its own instead of a crash.
    return _spelled(value).encode("utf-8", "surrogatepass")


def compact(value: Json) -> bytes:
    """The document without spacing, its members in the order they came, numbers as written.

    ValueError (UnicodeEncodeError) for a lone surrogate, which has no place in UTF-8.
    """
    return _spelled(value, as_written=True).encode("utf-8")


def _spelled(value: Json, *, as_written: bool = False) -> str:
    if isinstance(value, Number):
        return value
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        names = list(value) if as_written else sorted(value, key=str.casefold)
        members = [
            encode_basestring(name) + ":" + _spelled(value[name], as_written=as_written)
            for name in names
        ]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_spelled(inner, as_written=as_written) for inner in value]) + "]"
    if value is None:
        return "null"
    return "true" if value else "false"
