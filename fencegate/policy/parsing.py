"""From text to nodes, in one pass; what is no YAML is said by `faults.py`.

libyaml parses ten times as fast, and says less of what is wrong. So it reads what is right; a
file in which it finds a fault is read once more by PyYAML's own parser, whose words and places
are the ones that are explained. Nothing that is said depends on which of them is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from fencegate.policy.faults import NotYaml, explained

DEEPEST = 32  # tables and lists within one another; policies need six
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Spot:
    """A line and a column, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """`plain`: it stands without quotes. `tag` is what began with `!`."""

    spot: Spot
    text: str
    plain: bool
    tag: str | None


@dataclass(frozen=True, slots=True)
class Items:
    spot: Spot
    items: tuple[Node, ...]
    tag: str | None


@dataclass(frozen=True, slots=True)
class Table:
    """Keys may be anything, and may stand twice. `flow`: in braces."""

    spot: Spot
    pairs: tuple[tuple[Node, Node], ...]
    flow: bool
    tag: str | None


@dataclass(frozen=True, slots=True)
class Alias:
    """Only refers to another place."""

    spot: Spot


Node = Scalar | Items | Table | Alias


def read_nodes(text: str) -> Node | None:
    """The nodes of a text, None where it is empty. Raises `NotYaml`."""
    if refused := _REFUSED.search(text):
        wrong = f"YAML does not allow the character U+{ord(refused[0]):04X} here; remove it"
        raise NotYaml(*_end_of(text[: refused.start()]), wrong)
    try:
        # Of tabs the two have different opinions.
        return compose(text, yaml.SafeLoader if "\t" in text else FAST)
    except yaml.YAMLError:
        pass
    try:
        return compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise explained(error, text) from error


# PyYAML's parsers say of these only that they are there.
_REFUSED = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _end_of(text: str) -> tuple[int, int]:
    """Where the text ends: line and column, from 1."""
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", text)
    return len(lines), len(lines[-1]) + 1


# --- composing -----------------------------------------------------------------------------

Events = Iterator[Any]  # of PyYAML


def compose(text: str, loader: Any) -> Node | None:
    """The nodes as this loader of PyYAML parses them. Raises its errors, and `NotYaml`."""
    events: Events = yaml.parse(text, Loader=loader)
    whole: Node | None = None
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _at(_spot(event), "a second document begins here; a file has one")
            whole = _node(next(events), events, 0)
    return whole


def _node(event: Any, events: Events, depth: int) -> Node:
    """The node that begins with the event. Anchors are nothing without aliases to them."""
    spot = _spot(event)
    if depth > DEEPEST:
        raise _at(spot, f"this is more than {DEEPEST} tables and lists deep")
    match event:
        case yaml.ScalarEvent():
            return Scalar(spot, event.value, _is_plain(event), _tag(event))
        case yaml.SequenceStartEvent():
            items = [_node(inner, events, depth + 1) for inner in _until_end(events)]
            return Items(spot, tuple(items), _tag(event))
        case yaml.MappingStartEvent():
            pairs = [
                (_node(inner, events, depth + 1), _node(next(events), events, depth + 1))
                for inner in _until_end(events)
            ]
            return Table(spot, tuple(pairs), bool(event.flow_style), _tag(event))
    return Alias(spot)


def _until_end(events: Events) -> Events:
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            return
        yield event


def _is_plain(event: Any) -> bool:
    return not event.style  # one parser says None, the other an empty text


def _tag(event: Any) -> str | None:
    return None if event.tag in _HARMLESS else str(event.tag)


# What a value is anyway.
_HARMLESS = {f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str")} | {None}


def _spot(event: Any) -> Spot:
    return Spot(event.start_mark.line + 1, event.start_mark.column + 1)


def _at(spot: Spot, wrong: str) -> NotYaml:
    return NotYaml(spot.line, spot.column, wrong)
