"""From a document to its model: every key that is wrong becomes a problem with its place."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from fencegate.policy.documents import Document, Loc, Problem
from fencegate.policy.model import (
    GatewayFile,
    GatewaySection,
    RouteSection,
    RouteSettings,
    Section,
    UpstreamFile,
    UpstreamSection,
)

F = TypeVar("F", bound=Section)


def fit(document: Document, model: type[F]) -> tuple[F | None, list[Problem]]:
    """The document as the model says it, or every place where it says otherwise."""
    try:
        return model.model_validate(document.values), []
    except ValidationError as error:
        details = [d for d in error.errors() if d["loc"] not in document.spoilt]
        return None, [_problem(detail, document, model) for detail in details]


def example_of(model: type[Section], loc: Loc) -> str:
    """The example of the deepest key on the way to `loc` that the model knows."""
    example = "upstream:\n  name: payments"
    section: type[Section] | None = model
    for key in (step for step in loc if isinstance(step, str)):
        if section is None or key not in section.model_fields:
            break
        field = section.model_fields[key]
        example, section = str((field.examples or [example])[0]), _section_in(field.annotation)
    return example


def _problem(detail: Any, document: Document, model: type[Section]) -> Problem:
    loc = detail["loc"]
    match detail["type"]:
        case "extra_forbidden":
            return _unknown_key(document, model, loc)
        case "missing":
            wrong = f"`{loc[-1]}` is missing"
        case "value_error":
            wrong = f"{_name(loc)}: {detail['ctx']['error']}"
        case "literal_error":
            wrong = f"{_name(loc)} must be {detail['ctx']['expected']}"
        case kind:
            wrong = f"{_name(loc)} must be {_KINDS.get(kind, detail['msg'])}"
    return Problem(document.place(loc), wrong, example_of(model, loc))


_KINDS = {
    "model_type": "a table of keys and values",
    "dict_type": "a table of keys and values",
    "list_type": "a list",
    "string_type": "a text; put it in quotes",
}


def _name(loc: Loc) -> str:
    """The key; of an item in a list its number, counted from 1, and the list's key."""
    if loc and isinstance(loc[-1], int):
        return f"item {loc[-1] + 1} of {_name(loc[:-1])}"
    return f"`{loc[-1]}`" if loc else "the file"


def _unknown_key(document: Document, model: type[Section], loc: Loc) -> Problem:
    *above, key = loc
    known = _section_at(model, tuple(above)).model_fields
    near = get_close_matches(str(key), known, n=1)
    if near:
        wrong = f"`{key}` is no key here; did you mean `{near[0]}`?"
        return Problem(document.place(loc), wrong, example_of(model, (*above, near[0])))
    for home, section in _HOMES.items():
        if key in section.model_fields:
            wrong = f"`{key}` is no key here; it belongs in {home}"
            return Problem(document.place(loc), wrong, example_of(section, (key,)))
    wrong = f"`{key}` is no key here; known are {', '.join(known)}"
    return Problem(document.place(loc), wrong, example_of(model, loc))


# --- walking the model ---------------------------------------------------------------------


def _section_at(model: type[Section], loc: Loc) -> type[Section]:
    """The section that holds the keys at `loc`."""
    for step in loc:
        if isinstance(step, str):
            model = _section_in(model.model_fields[step].annotation) or model
    return model


def _section_in(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _section_in(arg))), None)


# Where a key belongs that was written somewhere else.
_HOMES: dict[str, type[Section]] = {
    "gateway.yaml": GatewayFile,
    "`gateway`": GatewaySection,
    "`defaults`": RouteSettings,
    "`upstream`": UpstreamSection,
    "`routes`": RouteSection,
    "the file of an upstream": UpstreamFile,
}
