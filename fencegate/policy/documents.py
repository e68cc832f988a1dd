"""A policy file as plain values, each with the place where it stands.

Read by fewer rules than YAML has, because the missing ones are traps: `off` and `no` are words,
`1:30` and `010` are no other numbers than they look, a key stands once, every key has a value,
and nothing is pulled in by reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands in a file; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong, where, and what would be right."""

    place: Place
    wrong: str
    example: str

    def __str__(self) -> str:
        shown = self.example.replace("\n", "\n    ")
        return f"{self.place}: {self.wrong}\n  for example:\n    {shown}"


class PolicyError(Exception):
    """Every problem of every policy file, in the order in which they stand."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """The values of one file, and the place of each: that of its key, where it has one.

    `spoilt` are those that could not be read; None stands in their place.
    """

    file: str
    values: dict[str, Any]
    places: dict[Loc, Place]
    spoilt: frozenset[Loc]

    def __repr__(self) -> str:
        return f"Document({self.file})"

    def place(self, loc: Loc = ()) -> Place:
        """The place of the value at `loc`, or of the nearest that holds it."""
        while loc and loc not in self.places:
            loc = loc[:-1]
        return self.places.get(loc, Place(self.file))


def read_document(path: Path, file: str) -> tuple[Document | None, list[Problem]]:
    """Read the file at `path`, called `file` in messages; None where nothing could be read."""
    reading = _Reading(file)
    try:
        values = reading.whole(path.read_text(encoding="utf-8"))
    except OSError as error:
        return None, [Problem(Place(file), f"the file cannot be read: {error.strerror}", _FILE)]
    except UnicodeDecodeError:
        return None, [Problem(Place(file), "the file is not UTF-8 text", _FILE)]
    except yaml.MarkedYAMLError as error:
        wrong = f"the file is not YAML: {error.problem}"
        return None, [Problem(reading.place_of(error.problem_mark), wrong, _QUOTED)]
    except yaml.YAMLError:
        wrong = "the file is not YAML: it holds a character that YAML does not allow"
        return None, [Problem(Place(file), wrong, _FILE)]
    if not isinstance(values, dict):
        no_table = Problem(Place(file), "the file is not a table of keys and values", _FILE)
        return None, reading.problems or [no_table]
    return Document(file, values, reading.places, frozenset(reading.spoilt)), reading.problems


# --- from text to values -------------------------------------------------------------------

_FILE = "upstream:\n  name: payments"
_QUOTED = 'key: "{header.x-request-id}"    # quote a value that begins with { or *'
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str")}


class _Mark(Protocol):
    """PyYAML's position; there are two classes of it, both count from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class _Reading:
    """Makes values of nodes; notes where they stand and what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[Loc, Place] = {}
        self.spoilt: set[Loc] = set()
        self.problems: list[Problem] = []

    def whole(self, text: str) -> Any:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                wrong = "`*` refers to another place; write the value out"
                return self._wrong(self.place_of(event.start_mark), wrong, _QUOTED)
        loader = yaml.SafeLoader(text)
        loader.yaml_implicit_resolvers = {}  # what a plain word means is for `_plain` to say
        node = loader.get_single_node()
        return None if node is None else self._value(node, ())

    def place_of(self, mark: _Mark | None) -> Place:
        return Place(self.file, mark.line + 1, mark.column + 1) if mark else Place(self.file)

    def _value(self, node: yaml.Node, loc: Loc) -> Any:
        self.places.setdefault(loc, self.place_of(node.start_mark))
        match node:
            case _ if node.tag not in _TAGS:
                return self._spoilt(loc, f"`{node.tag}`: policies have no tags", _QUOTED)
            case yaml.MappingNode() if _is_template(node):
                return self._spoilt(loc, "a value that begins with { must be quoted", _QUOTED)
            case yaml.MappingNode():
                return {key: self._value(held, (*loc, key)) for key, held in self._pairs(node, loc)}
            case yaml.SequenceNode():
                return [self._value(held, (*loc, i)) for i, held in enumerate(node.value)]
            case yaml.ScalarNode() if node.style is not None:
                return node.value
            case _ if node.value in ("", "~", "null"):
                name = loc[-1] if loc else "the file"
                wrong = f"`{name}` has no value; give it one, or leave it out"
                return self._spoilt(loc, wrong, f"{name}: ...")
            case _:
                return _plain(node.value)

    def _pairs(self, node: yaml.MappingNode, loc: Loc) -> Iterator[tuple[str, yaml.Node]]:
        for key_node, held in node.value:
            key, place = key_node.value, self.place_of(key_node.start_mark)
            if not isinstance(key, str):
                self._wrong(place, "a key must be a word", _FILE)
            elif first := self.places.get((*loc, key)):
                wrong = f"`{key}` stands twice; the first is in line {first.line}"
                self._wrong(place, wrong, f"{key}: ...    # once")
            else:
                self.places[*loc, key] = place
                yield key, held

    def _spoilt(self, loc: Loc, what: str, example: str) -> None:
        self.spoilt.add(loc)
        self._wrong(self.places[loc], what, example)

    def _wrong(self, place: Place, what: str, example: str) -> None:
        self.problems.append(Problem(place, what, example))


def _is_template(node: yaml.MappingNode) -> bool:
    """`key: {header.x}` without quotes, which YAML reads as a table with an empty value."""
    return bool(node.flow_style and node.value) and all(
        isinstance(held, yaml.ScalarNode) and held.style is None and not held.value
        for _, held in node.value
    )


def _plain(text: str) -> str | int | bool:
    """A value without quotes: true or false, a whole number, else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?(0|[1-9][0-9]{0,99})", text) else text
