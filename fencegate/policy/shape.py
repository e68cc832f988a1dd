"""From a document to its model: what is wrong becomes problems with their places, and what is
right is used, so that one slip of the hand does not hide what else there is to say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar, get_args

from pydantic import ValidationError

from fencegate.policy.codes import Code
from fencegate.policy.documents import Document, Loc, Problem, kind_of
from fencegate.policy.masking import is_secret
from fencegate.policy.model import (
    GatewayFile,
    GatewaySection,
    RouteSection,
    RouteSettings,
    Section,
    UpstreamFile,
    UpstreamSection,
)

F = TypeVar("F", bound=Section, covariant=True)
M = TypeVar("M", bound=Section)


@dataclass(frozen=True, slots=True)
class Fitted(Generic[F]):
    """A file that has its model's shape, as far as it could be read.

    What was wrong is not in it; it is `spoilt`. `unread`: there is a file, and nothing of it
    could be read.
    """

    document: Document
    model: F
    unread: bool = False

    @classmethod
    def nothing(cls, model: F, *, unread: bool = False) -> Fitted[F]:  # type: ignore[misc]
        """What holds without a file."""
        return cls(Document("gateway.yaml", values={}), model, unread)

    def spoilt(self, loc: Loc) -> bool:
        """Whether something was stated at `loc` that could not be used."""
        above = (loc[:i] for i in range(len(loc) + 1))
        return self.unread or any(step in self.document.spoilt for step in above)

    def problem(
        self,
        loc: Loc,
        wrong: str,
        *,
        example: str | None = None,
        code: Code = Code.WRONG_VALUE,
        hint: str = "",
        at_key: bool = False,
    ) -> Problem:
        """A problem with the value at `loc`, or with its key; an empty example is none."""
        shown = example_of(type(self.model), loc) if example is None else example
        return self.document.problem(loc, wrong, shown, code=code, hint=hint, at_key=at_key)

    def problem_within(
        self, loc: Loc, wrong: str, at: int, *, code: Code = Code.WRONG_VALUE, hint: str = ""
    ) -> Problem:
        """A problem with a part of the text at `loc`, the one that begins at character `at`."""
        shown = example_of(type(self.model), loc)
        return self.document.problem(loc, wrong, shown, code=code, hint=hint, at=at)


def fit(document: Document, model: type[M]) -> tuple[Fitted[M] | None, list[Problem]]:
    """The document as the model says it, without what is wrong in it, and all that is wrong.

    None where nothing is left: something that must be there is missing or wrong.
    """
    problems: list[Problem] | None = None
    left = document
    while True:
        try:
            return Fitted(left, model.model_validate(left.values)), problems or []
        except ValidationError as error:
            faults = [_fault(detail, left, model) for detail in error.errors()]
        if problems is None:  # what comes to light later is lacking only because we took it out
            taken = document.spoilt.union(*(fault.meant for fault in faults))
            problems = [fault.problem for fault in faults if fault.loc not in taken]
        lost = {loc for fault in faults for loc in (*fault.lost, *fault.meant)}
        if () in lost:
            return None, problems
        left = left.without(lost)


def example_of(model: type[Section], loc: Loc) -> str:
    """The example of the deepest key on the way to `loc` that the model knows."""
    example = "upstream:\n  name: payments"
    section: type[Section] | None = model
    for key in (step for step in loc if isinstance(step, str)):
        fields = _fields(section) if section else {}
        if key not in fields:
            break
        example, section = str((fields[key].examples or [example])[0]), _section_in(fields[key])
    return example


# --- what is wrong -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fault:
    """`lost` is what cannot be used because of it; `meant` is what is not there, for the same
    reason, so that nobody says that it is missing."""

    loc: Loc
    problem: Problem
    lost: Sequence[Loc]
    meant: Sequence[Loc] = ()


def _fault(detail: Any, document: Document, model: type[Section]) -> _Fault:
    kind, loc = detail["type"], _written_at(detail["loc"], document)
    if kind == "extra_forbidden":
        return _unknown_key(document, model, loc)
    if kind == "missing":
        missing = (*loc, detail["loc"][-1])
        wrong = f"`{missing[-1]}` is missing"
        example = example_of(model, missing)
        said = document.problem(missing, wrong, example, code=Code.MISSING_KEY)
        return _Fault(missing, said, [loc])
    wrong, hint = _wrong_value(detail, document, loc)
    said = document.problem(loc, f"{_name(loc)}{wrong}", example_of(model, loc), hint=hint)
    return _Fault(loc, said, [loc])


def _written_at(loc: Loc, document: Document) -> Loc:
    """The place in the file: without what pydantic adds for the choices of a union."""
    at: Loc = ()
    held: Any = document.values
    for step in loc:
        there = step in held if isinstance(held, dict) else isinstance(held, list)
        if there and (isinstance(held, dict) or isinstance(step, int)):
            at, held = (*at, step), held[step]
    return at


def _wrong_value(detail: Any, document: Document, loc: Loc) -> tuple[str, str]:
    """What is wrong, to be read after the name of the key, and what may have been meant."""
    written = document.written(loc)
    read = "a text" if isinstance(written, str) and is_secret(loc) else kind_of(written)
    match detail["type"]:
        case "value_error":
            return _split(f": {detail['ctx']['error']}")
        case "literal_error":
            words = re.findall("'([^']*)'", detail["ctx"]["expected"])
            near = get_close_matches(str(written), words, n=1)
            meant = f"did you mean `{near[0]}`?" if near else ""
            return f" must be {' or '.join(words)}, not {read}", meant
        case "string_type" if not isinstance(written, dict | list):
            return " must be a text; put it in quotes", ""
        case kind:
            wrong = f" must be {_KINDS.get(kind, detail['msg'])}, not {read}"
            return wrong, _glued(written)


def _split(said: str) -> tuple[str, str]:
    """A reader's words, and what it believes was meant."""
    wrong, meant, word = said.rpartition("; did you mean ")
    return (wrong, f"did you mean {word}") if meant else (said, "")


_KINDS = {
    "model_type": "a table of keys and values",
    "model_attributes_type": "a table of keys and values",
    "dict_type": "a table of keys and values",
    "list_type": "a list",
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
}


def _glued(written: Any) -> str:
    """`name:payments` is one text, which nobody means where a table is expected."""
    glued = isinstance(written, str) and re.match("[A-Za-z_]+:[^/ ]", written)
    return "is a space missing after the colon?" if glued else ""


def _name(loc: Loc) -> str:
    """The key; of an item in a list its number, counted from 1, and the list's key."""
    if loc and isinstance(loc[-1], int):
        return f"item {loc[-1] + 1} of {_name(loc[:-1])}"
    return f"`{loc[-1]}`" if loc else "the file"


# --- unknown keys --------------------------------------------------------------------------


def _unknown_key(document: Document, model: type[Section], loc: Loc) -> _Fault:
    *above, key = loc
    known = _fields(_section_at(model, tuple(above)))
    near = _meant(str(key), list(known))
    meant: list[Loc] = []
    hint, example = f"known are {', '.join(sorted(known))}", example_of(model, loc)
    if near:
        meant = [(*above, near)] if document.written((*above, near)) is None else []
        hint, example = f"did you mean `{near}`?", example_of(model, (*above, near))
    elif home := next((home for home in _HOMES if key in _fields(_HOMES[home])), None):
        hint, example = f"it belongs in {home}", example_of(_HOMES[home], (key,))
    elif "headers" in known and _LIKE_A_HEADER.fullmatch(str(key)):
        hint, example = "a header belongs in `headers`", example_of(UpstreamSection, ("headers",))
    wrong = f"`{key}` is no key here"
    code = Code.UNKNOWN_KEY
    said = document.problem(loc, wrong, example, code=code, hint=hint, at_key=True)
    return _Fault(loc, said, [loc], meant)


def _meant(key: str, known: Sequence[str]) -> str | None:
    plain = key.lower().replace("-", "_")
    if near := get_close_matches(plain, known, n=1, cutoff=0.7):
        return near[0]
    return next((word for word in _OTHER_WORDS.get(plain, ()) if word in known), None)


_LIKE_A_HEADER = re.compile("[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)*")
# What other tools call it.
_OTHER_WORDS = {
    "backend": ("url", "upstream"),
    "base_url": ("url",),
    "endpoint": ("url",),
    "header": ("headers",),
    "host": ("url",),
    "idempotency_key": ("key",),
    "method": ("match",),
    "path": ("match", "mount"),
    "prefix": ("mount",),
    "resource": ("entity",),
    "retries": ("resend_limit",),
    "target": ("url",),
    "token": ("token_sha256",),
    "tokens": ("token_sha256",),
    "ttl": ("retention",),
    "type": ("kind",),
    "uri": ("url",),
}
# Where a key belongs that was written somewhere else.
_HOMES: dict[str, type[Section]] = {
    "gateway.yaml": GatewayFile,
    "`gateway`": GatewaySection,
    "`defaults`": RouteSettings,
    "`upstream`": UpstreamSection,
    "`routes`": RouteSection,
    "the file of an upstream": UpstreamFile,
}


# --- walking the model ---------------------------------------------------------------------


def _fields(section: type[Section]) -> dict[str, Any]:
    """The fields of a section, by the name under which they are written."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def _section_at(model: type[Section], loc: Loc) -> type[Section]:
    """The section that holds the keys at `loc`."""
    for step in loc:
        if isinstance(step, str) and (field := _fields(model).get(step)):
            model = _section_in(field) or model
    return model


def _section_in(field: Any) -> type[Section] | None:
    return _section_of(field.annotation)


def _section_of(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _section_of(arg))), None)
