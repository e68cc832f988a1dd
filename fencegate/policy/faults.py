"""What is wrong with a text that is no YAML, in the words of someone who did not write a parser.

PyYAML says where it could not go on, and the mistake is often somewhere before: a quote that was
never closed, a space that is missing a line above. Each rule below looks for one of these, the
most certain first, and points at the mistake. No text of the file is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

QUOTED = 'key: "{header.x-request-id}"    # quote a value that begins with {'
_COLON = "entity: 'charge: of the day'"
_QUOTE = "entity: \"payment's\"    # in single quotes, write '' for one: 'payment''s'"
_INDENTED = "upstream:\n  name: payments\n  mount: /payments"
_LIST = "unknown_statuses: [408, 5xx]"
_TABLE = "fingerprint: {ignore: [/sent_at]}"
_REFERENCE = 'headers: {Authorization: "Bearer ${PAYMENTS_KEY}"}'


class NotYaml(Exception):
    """Where the mistake is, what it is, and what would be right. Lines and columns from 1."""

    def __init__(self, line: int, column: int, wrong: str, example: str = _INDENTED) -> None:
        super().__init__(wrong)
        self.line = line
        self.column = column
        self.wrong = wrong
        self.example = example


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place; both count from 0, as PyYAML does."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class _Fault:
    """What PyYAML says: what it was doing since `opened`, and what it met at `met`."""

    lines: list[str]
    context: str
    problem: str
    opened: _Spot
    met: _Spot

    def line(self, number: int) -> str:
        return self.lines[number] if number < len(self.lines) else ""

    def before(self, number: int) -> int | None:
        """The nearest line before that says something."""
        numbers = range(min(number, len(self.lines)) - 1, -1, -1)
        return next((n for n in numbers if not _SILENT.match(self.lines[n])), None)

    def found(self) -> str:
        """The token that PyYAML met instead of what it expected."""
        named = re.search("(?:found|got) '(.+)'$", self.problem)
        return named[1] if named else ""


_SILENT = re.compile(r"\s*(#|$)")
Rule = Callable[[_Fault], NotYaml | None]


def explained(error: yaml.MarkedYAMLError, text: str) -> NotYaml:
    """The mistake behind an error of PyYAML's own parser."""
    met = error.problem_mark or error.context_mark
    spot = _Spot(met.line, met.column) if met else _Spot(0, 0)
    opened = error.context_mark
    fault = _Fault(
        lines=re.split("\r\n|[\n\r\x85\u2028\u2029]", text),
        context=error.context or "",
        problem=error.problem or "",
        opened=_Spot(opened.line, opened.column) if opened else spot,
        met=spot,
    )
    return next(said for rule in _RULES if (said := rule(fault)))


def _at(spot: _Spot, wrong: str, example: str = _INDENTED) -> NotYaml:
    return NotYaml(spot.line + 1, spot.column + 1, wrong, example)


# --- indentation ---------------------------------------------------------------------------


def _odd_space(fault: _Fault) -> NotYaml | None:
    """A tab, or a space that was copied from a page and is none to YAML."""
    for number, line in enumerate(fault.lines[: fault.met.line + 1]):
        lead = line[: len(line) - len(line.lstrip())]
        for column, c in enumerate(lead):
            if c == "\t" and number == fault.met.line:
                wrong = "a tab indents this line; YAML takes spaces only"
                return _at(_Spot(number, column), wrong)
            if c not in " \t":
                wrong = f"U+{ord(c):04X} indents this line, which only looks like a space"
                return _at(_Spot(number, column), wrong)
    if fault.problem.startswith("found character '\\t'"):
        return _at(fault.met, "a tab stands here; write spaces")
    return None


def _indentation(fault: _Fault) -> NotYaml | None:
    found = fault.found()
    if found in ("-", "<block sequence start>"):
        wrong = "this item of a list is indented like none above it; indent them alike"
        return _at(fault.met, wrong, "routes:\n  - match: GET /**\n    guard: none")
    if found in ("?", "<block mapping start>"):
        if "collection" in fault.context and fault.line(fault.met.line)[:1] != " ":
            return _at(fault.met, "a key cannot stand beside the items of a list")
        wrong = "this line is indented like none above it that it could belong to"
        return _at(fault.met, wrong)
    return None


def _key_out_of_place(fault: _Fault) -> NotYaml | None:
    """A colon where none can be: the line itself has two, or something is off a line above."""
    if not fault.problem.startswith("mapping values are not allowed"):
        return None
    line = fault.line(fault.met.line)
    above = fault.before(fault.met.line)
    if re.search(r":\s", line[: fault.met.column]) or above is None:
        wrong = "`: ` within a value; a value that holds it must be quoted"
        return _at(fault.met, wrong, _COLON)
    if glued := _GLUED.match(fault.line(above)):
        return _no_space(above, glued)
    if ":" not in fault.line(above) and _column(line) == _column(fault.line(above)):
        return _no_colon(_Spot(above, _column(line)))
    if _column(line) > _column(fault.line(above)):
        wrong = f"this line is deeper than line {above + 1}, which has its value already"
        return _at(_Spot(fault.met.line, _column(line)), wrong)
    wrong = "a key cannot stand here; look at how the lines above are indented"
    return _at(_Spot(fault.met.line, _column(line)), wrong)


def _key_without_colon(fault: _Fault) -> NotYaml | None:
    if "could not find expected ':'" not in fault.problem:
        return None
    if glued := _GLUED.match(fault.line(fault.opened.line)):
        return _no_space(fault.opened.line, glued)
    return _no_colon(fault.opened)


_GLUED = re.compile(r"(\s*(?:-\s+)*[A-Za-z_][\w.-]*):(?=[^\s:])(?!//)")


def _no_space(number: int, glued: re.Match[str]) -> NotYaml:
    wrong = "a space is missing after this colon"
    return _at(_Spot(number, glued.end() - 1), wrong, "timeout: 30s")


def _no_colon(spot: _Spot) -> NotYaml:
    return _at(spot, "the colon is missing: a line is `key: value` here", "timeout: 30s")


def _column(line: str) -> int:
    return len(line) - len(line.lstrip())


# --- quotes and brackets -------------------------------------------------------------------


def _template(fault: _Fault) -> NotYaml | None:
    """A template whose brace YAML takes for a table."""
    for number in (fault.met.line, fault.opened.line):
        if brace := _TEMPLATE.search(fault.line(number)):
            wrong = "a value that begins with { must be quoted"
            return _at(_Spot(number, brace.start(1)), wrong, QUOTED)
    return None


_TEMPLATE = re.compile(r"(?:[:,[-]\s+|\[)(\{(?:path|query|header|json|form|mcp|caller)[./}])")


def _open_quote(fault: _Fault) -> NotYaml | None:
    if "quoted scalar" in fault.context and "unexpected" in fault.problem:
        return _at(fault.opened, "the quote that opens here is never closed", _QUOTE)
    return None


def _early_quote(fault: _Fault) -> NotYaml | None:
    """Text after a quote: closed too early, or only by a quote that was to open another."""
    line = fault.line(fault.met.line)
    quote = line[: fault.met.column].rstrip()[-1:]
    if quote not in ("'", '"') or not quote:
        return None
    for number in range(fault.opened.line, fault.met.line):
        if fault.line(number).count(quote) % 2:
            spot = _Spot(number, fault.line(number).rindex(quote))
            wrong = f"the quote that opens here is closed only in line {fault.met.line + 1}"
            return _at(spot, wrong, _QUOTE)
    return _at(fault.met, "the value has ended with the quote before this", _QUOTE)


def _open_bracket(fault: _Fault) -> NotYaml | None:
    if "flow" not in fault.context:
        return None
    if fault.met.line > fault.opened.line or fault.found() == "<stream end>":
        spot = fault.opened
        if fault.line(spot.line)[spot.column : spot.column + 1] not in ("[", "{"):
            spot = next(_unclosed(fault.lines), spot)
        bracket = fault.line(spot.line)[spot.column : spot.column + 1]
        if bracket in ("[", "{"):
            wrong = f"the `{bracket}` that opens here is never closed"
            return _at(spot, wrong, _LIST if bracket == "[" else _TABLE)
    if fault.found() == ":":
        return _at(fault.met, "`: ` within a value; a value that holds it must be quoted", _COLON)
    if fault.found() in ("]", "}"):
        opened = fault.opened
        bracket = fault.line(opened.line)[opened.column]
        wrong = f"`{fault.found()}` cannot close the `{bracket}` of column {opened.column + 1}"
        return _at(fault.met, wrong, _LIST if bracket == "[" else _TABLE)
    if fault.line(fault.met.line)[fault.met.column - 1 : fault.met.column + 1] == "${":
        wrong = "within brackets a value with ${ must be quoted"
        return _at(_Spot(fault.met.line, fault.met.column - 1), wrong, _REFERENCE)
    return _at(fault.met, "a comma is missing before this, or quotes around it", _LIST)


def _unclosed(lines: list[str]) -> Iterator[_Spot]:
    """The last bracket without its other half."""
    stack: list[_Spot] = []
    for number, line in enumerate(lines):
        for column, c in enumerate(re.sub(r"(?:^|\s)#.*", "", line)):
            if c in "[{":
                stack.append(_Spot(number, column))
            elif c in "]}" and stack:
                stack.pop()
    yield from stack[-1:]


def _close_bracket(fault: _Fault) -> NotYaml | None:
    if fault.found() in ("]", "}"):
        return _at(fault.met, f"this `{fault.found()}` closes nothing", _LIST)
    return None


def _escape(fault: _Fault) -> NotYaml | None:
    if fault.problem.startswith("found unknown escape character"):
        spot = _Spot(fault.met.line, fault.met.column - 1)
        wrong = "in double quotes a backslash begins an escape, and this is none"
        return _at(spot, wrong, r"entity: 'charge\day'    # in single quotes it is itself")
    return None


# --- first characters ----------------------------------------------------------------------


def _must_be_quoted(fault: _Fault) -> NotYaml | None:
    """A value that begins with what means something to YAML."""
    for sign, context in (("*", "an alias"), ("&", "an anchor"), ("!", "a tag")):
        if fault.context.endswith(context):
            return _quote(fault.opened, sign)
    if "undefined tag handle" in fault.problem:
        return _quote(fault.met, "!")
    if "scanning a block scalar" in fault.context:
        return _quote(fault.opened, fault.line(fault.opened.line)[fault.opened.column])
    if "cannot start any token" in fault.problem or "the node content" in fault.problem:
        c = fault.line(fault.met.line)[fault.met.column : fault.met.column + 1]
        return _quote(fault.met, c) if c.isprintable() and c else None
    return None


def _quote(spot: _Spot, sign: str) -> NotYaml:
    example = "match: '* /v1/**'" if sign == "*" else f"entity: '{sign}charges'"
    return _at(spot, f"a value that begins with {sign} must be quoted", example)


def _list_behind_key(fault: _Fault) -> NotYaml | None:
    if fault.problem.startswith("sequence entries are not allowed"):
        wrong = "a list begins in the line after its key, or is written [a, b]"
        return _at(fault.met, wrong, _LIST)
    return None


def _percent(fault: _Fault) -> NotYaml | None:
    """A line that begins with it is a directive of YAML, and the rest of the file has to wait."""
    if "directive" not in fault.context and "<document start>" not in fault.problem:
        return None
    number = next((n for n, line in enumerate(fault.lines) if line.startswith("%")), None)
    if number is None:
        return None
    return _at(_Spot(number, 0), "a line cannot begin with %", "# a comment begins with #")


def _too_much(fault: _Fault) -> NotYaml | None:
    """Something where a value has ended, or where a line should begin with a key."""
    if not re.match("expected <block end>|mapping keys", fault.problem):
        return None
    if not fault.line(fault.met.line)[: fault.met.column].strip(" -"):
        return _at(fault.met, "a line `key: value` was expected here", "timeout: 30s")
    return _at(fault.met, "the value has ended before this; quote it if it is part of it", _QUOTE)


def _other(fault: _Fault) -> NotYaml:
    """What PyYAML says itself, without what it repeats of the file."""
    said = re.sub("'[^'<]{2,}'", "it", fault.problem)
    return _at(fault.met, f"this is not YAML: {said}")


_RULES: tuple[Rule, ...] = (
    _odd_space,
    _template,
    _open_quote,
    _escape,
    _early_quote,
    _key_out_of_place,
    _key_without_colon,
    _must_be_quoted,
    _list_behind_key,
    _open_bracket,
    _close_bracket,
    _indentation,
    _percent,
    _too_much,
    _other,
)
