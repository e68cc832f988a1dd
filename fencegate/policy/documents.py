"""A policy file as plain values, each with the places where its key and the value itself stand.

Read by fewer rules than YAML has, because the missing ones are traps: `off` and `no` are words,
`1:30` and `010` are no other numbers than they look, a key stands once, every key has a value,
and nothing is pulled in by reference.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

from fencegate.policy.codes import Code
from fencegate.policy.faults import QUOTED, NotYaml
from fencegate.policy.frames import Source
from fencegate.policy.masking import Loc, is_secret, without_secrets
from fencegate.policy.parsing import Alias, Items, Node, Scalar, Table, read_nodes
from fencegate.policy.problems import Place, PolicyError, Problem, as_json, render

__all__ = [
    "Document",
    "Loc",
    "Place",
    "PolicyError",
    "Problem",
    "as_json",
    "read_document",
    "render",
]


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """The values of one file, the place of each key, and the place of each value.

    `spoilt` are those that could not be read; None stands in their place.
    """

    file: str
    values: dict[str, Any]
    places: dict[Loc, Place] = field(default_factory=dict)
    spoilt: frozenset[Loc] = frozenset()
    value_places: dict[Loc, Place] = field(default_factory=dict)
    source: Source = field(default_factory=Source)

    def __repr__(self) -> str:
        return f"Document({self.file})"

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the file as they are, with the secrets in them."""
        return self.source.lines

    def place(self, loc: Loc = ()) -> Place:
        """The place of the key at `loc` (of the value, in a list), or of the nearest above it."""
        while loc and loc not in self.places:
            loc = loc[:-1]
        return self.places.get(loc, Place(self.file))

    def value_place(self, loc: Loc = (), at: int = 0) -> Place:
        """The place of the value at `loc`, or of the key that should hold it.

        `at` is a character within the value's text; where the text is not in the file as it
        reads (folded, with escapes), the place is that of the whole value.
        """
        whole = self.value_places.get(loc) or self.place(loc)
        written = self.written(loc)
        if not at or not isinstance(written, str) or not self.source.holds(whole.line):
            return whole
        line = self.lines[whole.line - 1]
        start = whole.column - 1
        start += line[start : start + 1] in ("'", '"')
        if line[start : start + len(written)] != written:
            return whole
        return Place(self.file, whole.line, start + at + 1)

    def written(self, loc: Loc) -> Any:
        """The value at `loc`, None if there is none."""
        value: Any = self.values
        for step in loc:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def problem(
        self,
        loc: Loc,
        wrong: str,
        example: str,
        *,
        code: Code = Code.WRONG_VALUE,
        hint: str = "",
        at_key: bool = False,
        at: int = 0,
    ) -> Problem:
        """A problem with the value at `loc`, or with its key; no secret of the file is in it.

        `at` is where in the value's text the problem is. What is quoted in `wrong` is looked for
        in the value if that is not said.
        """
        written = self.written(loc)
        place = (
            self.place(loc) if at_key else self.value_place(loc, at or _part(wrong, written, loc))
        )
        said = _shortened(without_secrets(wrong, written if is_secret(loc) else None))
        line, caret = self.source.shown(place.line, place.column)
        if line is not None and is_secret(loc):
            line = without_secrets(line, written)
        return Problem(place, said, example, code, hint, line, caret)

    def without(self, lost: Set[Loc]) -> Document:
        """The document as if these were not there; in lists what follows moves up. Keys among
        them count as spoilt."""
        moved: dict[Loc, Loc] = {}
        values = _kept(self.values, (), (), lost, moved)
        keys = {loc for loc in lost if isinstance(loc[-1], str)} | self.spoilt
        return Document(
            self.file,
            values,
            {moved[loc]: place for loc, place in self.places.items() if loc in moved},
            frozenset((*moved[loc[:-1]], loc[-1]) for loc in keys if loc[:-1] in moved),
            {moved[loc]: place for loc, place in self.value_places.items() if loc in moved},
            self.source,
        )


def _kept(value: Any, old: Loc, new: Loc, lost: Set[Loc], moved: dict[Loc, Loc]) -> Any:
    moved[old] = new
    if isinstance(value, dict):
        kept = {key: held for key, held in value.items() if (*old, key) not in lost}
        return {k: _kept(held, (*old, k), (*new, k), lost, moved) for k, held in kept.items()}
    if isinstance(value, list):
        items = [(i, held) for i, held in enumerate(value) if (*old, i) not in lost]
        return [_kept(held, (*old, i), (*new, n), lost, moved) for n, (i, held) in enumerate(items)]
    return value


def _part(wrong: str, written: object, loc: Loc) -> int:
    """Where in the value the first thing stands that the message quotes, besides the key."""
    for quoted in re.findall("`([^`]+)`", wrong):
        if loc and quoted != loc[-1]:
            return max(0, written.find(quoted)) if isinstance(written, str) else 0
    return 0


_LONGEST = 60  # of a quoted value in a message; the frame shows where it stands


def _shortened(wrong: str) -> str:
    return re.sub(f"(`[^`]{{{_LONGEST}}})[^`]+`", "\\1…`", wrong)


def read_document(path: Path, file: str) -> tuple[Document | None, list[Problem]]:
    """Read the file at `path`, called `file` in messages; None where nothing could be read."""
    try:
        written = path.read_bytes()
    except OSError as error:
        return None, [_unreadable(Place(file), f"the file cannot be read: {error.strerror}")]
    try:
        text = written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return None, [_not_utf8(file, written, error)]
    reading = _Reading(file, Source(text))
    try:
        values = reading.whole(text)
    except NotYaml as error:
        return None, [reading.fault(error)]
    if not isinstance(values, dict):
        return None, reading.problems or [_no_table(file, reading.source, values)]
    return reading.document(values), reading.problems


# --- files that are no documents -----------------------------------------------------------

_FILE = "upstream:\n  name: payments\n  mount: /payments\n  url: https://api.payments.example"


def _unreadable(place: Place, wrong: str, source: Source | None = None) -> Problem:
    shown, caret = source.shown(place.line, place.column) if source else (None, 1)
    return Problem(place, wrong, _FILE, Code.FILE_UNREADABLE, "", shown, caret)


def _not_utf8(file: str, written: bytes, error: UnicodeDecodeError) -> Problem:
    if written.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _unreadable(Place(file), "the file is UTF-16, not UTF-8 text; save it as UTF-8")
    before = written[: error.start].decode("utf-8-sig")
    wrong = f"the file is not UTF-8 text: this is the byte 0x{written[error.start]:02X}"
    place = Place(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
    return _unreadable(place, wrong, Source(written.decode("utf-8-sig", "replace")))


def _no_table(file: str, source: Source, values: Any) -> Problem:
    kind = "a text" if isinstance(values, str) else kind_of(values)
    what = "it is empty" if values is None else f"it is {kind}"
    wrong = f"the file is not a table of keys and values: {what}"
    return _unreadable(Place(file), wrong, None if values is None else source)


def kind_of(value: Any) -> str:
    """What kind of value this is, as it reads to who wrote it."""
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case int():
            return f"the number `{value}`"
        case dict():
            return "a table"
        case list():
            return "a list"
        case "":
            return "an empty text"
    return f"the text `{value}`"


# --- from text to values -------------------------------------------------------------------


class _Reading:
    """Makes values of nodes; notes where they stand and what is wrong with them."""

    def __init__(self, file: str, source: Source) -> None:
        self.file = file
        self.source = source
        self.places: dict[Loc, Place] = {}
        self.value_places: dict[Loc, Place] = {}
        self.spoilt: set[Loc] = set()
        self.problems: list[Problem] = []

    def whole(self, text: str) -> Any:
        """All values of the file. Raises `NotYaml`."""
        node = read_nodes(text)
        return None if node is None else self._value(node, ())

    def document(self, values: dict[str, Any]) -> Document:
        spoilt = frozenset(self.spoilt)
        return Document(self.file, values, self.places, spoilt, self.value_places, self.source)

    def fault(self, error: NotYaml) -> Problem:
        place = Place(self.file, error.line, error.column)
        line, caret = self.source.shown(place.line, place.column)
        return Problem(place, error.wrong, error.example, Code.NOT_YAML, "", line, caret)

    def _value(self, node: Node, loc: Loc) -> Any:
        self.value_places[loc] = self._place_of(node)
        self.places.setdefault(loc, self.value_places[loc])
        match node:
            case Alias():
                wrong = "`*` refers to another place; write the value out"
                return self._spoilt(loc, wrong, _STARRED)
            case Scalar() if not _is_text(node.text):
                return self._spoilt(loc, _NO_TEXT, QUOTED)
            case _ if node.tag is not None:
                return self._spoilt(loc, _NO_TAGS, _TAGGED)
            case Table() if _is_template(node):
                return self._spoilt(loc, "a value that begins with { must be quoted", QUOTED)
            case Table():
                return {key: self._value(held, (*loc, key)) for key, held in self._pairs(node, loc)}
            case Items():
                return [self._value(held, (*loc, i)) for i, held in enumerate(node.items)]
            case Scalar() if not node.plain:
                return node.text
            case Scalar() if node.text in ("", "~", "null"):
                return self._nothing(loc)
            case Scalar():
                return _plain(node.text)
            case _:
                assert_never(node)

    def _nothing(self, loc: Loc) -> None:
        if not loc:
            return
        hidden = is_secret(loc[:-1]) and not re.fullmatch("[A-Za-z0-9-]+", str(loc[-1]))
        name = "this key" if hidden else f"`{loc[-1]}`"
        if isinstance(loc[-1], int):
            name, self.places[loc] = f"item {loc[-1] + 1} of `{loc[-2]}`", self.value_places[loc]
        key = "name" if hidden else next(step for step in reversed(loc) if isinstance(step, str))
        self._spoilt(loc, f"{name} has no value; give it one, or leave it out", f"{key}: ...", True)

    def _pairs(self, table: Table, loc: Loc) -> Iterator[tuple[str, Node]]:
        for key_node, held in table.pairs:
            place = self._place_of(key_node)
            if not isinstance(key_node, Scalar) or key_node.tag is not None:
                self._wrong(place, "a key must be a word", _FILE)
                continue
            key = key_node.text
            if odd := next((c for c in key if not c.isprintable()), None):
                wrong = f"a key must be a word; this one holds the character U+{ord(odd):04X}"
                at = place.column + key.index(odd) * key_node.plain
                self._wrong(Place(self.file, place.line, at), wrong, _FILE)
            elif first := self.places.get((*loc, key)):
                where = f", in lines {first.line} and {place.line}"
                where = f" in line {place.line}" if first.line == place.line else where
                self._wrong(place, f"`{key}` stands twice{where}", f"{key}: ...    # once")
            else:
                self.places[*loc, key] = place
                yield key, held

    def _place_of(self, node: Node) -> Place:
        return Place(self.file, node.spot.line, node.spot.column)

    def _spoilt(self, loc: Loc, what: str, example: str, at_key: bool = False) -> None:
        self.spoilt.add(loc)
        self._wrong((self.places if at_key else self.value_places)[loc], what, example)

    def _wrong(self, place: Place, what: str, example: str) -> None:
        line, caret = self.source.shown(place.line, place.column)
        said = _shortened(without_secrets(what))
        self.problems.append(Problem(place, said, example, Code.YAML_TRAP, "", line, caret))


_NO_TAGS = "a value that begins with ! must be quoted; policies have no tags"
_TAGGED = "entity: '!charges'"
_STARRED = "match: '* /v1/**'    # quoted, it begins with a plain *"


_NO_TEXT = "the value holds half of a character (a lone surrogate), which no text has"


def _is_text(value: str) -> bool:
    """Escapes of YAML can spell what cannot be sent or stored."""
    return not any("\ud800" <= c <= "\udfff" for c in value)


def _is_template(table: Table) -> bool:
    """`key: {header.x}` without quotes, which YAML reads as a table with an empty value."""
    return bool(table.flow and table.pairs) and all(
        isinstance(held, Scalar) and held.plain and not held.text for _, held in table.pairs
    )


def _plain(text: str) -> str | int | bool:
    """A value without quotes: true or false, a whole number, else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?(0|[1-9][0-9]{0,99})", text) else text
