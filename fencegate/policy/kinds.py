"""The kinds of values in policy files: how each is read, and how a JSON Schema says it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from itertools import combinations
from typing import Annotated, Any, Literal, TypeVar

from pydantic import PlainValidator, WithJsonSchema

from fencegate.core.model import FenceLead, Micros
from fencegate.policy import values
from fencegate.policy.domains import FromHeader, read_domain
from fencegate.policy.paths import Pattern, parse_pattern
from fencegate.policy.templates import (
    Reading,
    Template,
    entity_template,
    fence_template,
    key_template,
    never_agree,
)
from fencegate.policy.units import DURATION_UNITS, SIZE_UNITS, duration, size, span
from fencegate.policy.values import Url

T = TypeVar("T")
W = TypeVar("W", bound=StrEnum)


def text(read: Callable[[str], T]) -> PlainValidator:
    """A text, read by `read`."""

    def validate(written: object) -> T:
        if isinstance(written, str):
            return read(written)
        raise ValueError("must be a text; put it in quotes")

    return PlainValidator(validate)


def word(*words: W) -> PlainValidator:
    """One of these words."""
    return PlainValidator(lambda written: values.one_of(written, words))


def words(kind: type[StrEnum]) -> WithJsonSchema:
    return WithJsonSchema({"enum": [str(word) for word in kind]})


def reading(compile: Callable[[str], Template]) -> PlainValidator:
    """One template, or a list of at least one."""

    def validate(written: object) -> Reading:
        listed = written if isinstance(written, list) else [written]
        if not listed:
            raise ValueError("the list is empty; name at least one place")
        texts = [item for item in listed if isinstance(item, str)]
        if len(texts) < len(listed):
            raise ValueError("must be a text; put it in quotes")
        templates = tuple(compile(item) for item in texts)
        for one, other in combinations(templates, 2):
            if never_agree(one, other):
                raise ValueError(
                    f"`{one.text}` and `{other.text}` can never agree: a list names several places"
                    " of one value"
                )
        return Reading(templates)

    return PlainValidator(validate)


def or_off(schema: dict[str, Any]) -> None:
    """What the schema of `callers` says too."""
    listed = {name: schema.pop(name) for name in ("type", "items") if name in schema}
    schema["anyOf"] = [{"const": "off"}, listed]


def callers_or_off(written: object) -> object:
    """A list of callers; `off` reads as an empty one, which cannot be written."""
    if written == "off":
        return []
    if isinstance(written, list) and not written:
        raise ValueError("the list is empty, and nobody could call; name callers, or write `off`")
    if not isinstance(written, list):
        raise ValueError("must be a list of callers, or `off`")
    return written


_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_LEAD = f"^(off|clock\\+[0-9]+({'|'.join(DURATION_UNITS)}))$"
_STATUS = {
    "anyOf": [
        {"type": "integer", "minimum": 200, "maximum": 599},
        {"type": "string", "pattern": "^[2-5]xx$"},
    ]
}
_DURATION = WithJsonSchema(
    {"type": "string", "pattern": f"^[0-9]{{1,18}}({'|'.join(DURATION_UNITS)})$"}
)
_READING = WithJsonSchema(
    {"oneOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]},
)
_AS_TEXT = WithJsonSchema(_TEXT)

Duration = Annotated[Micros, PlainValidator(duration), _DURATION]
Span = Annotated[Micros, PlainValidator(span), _DURATION]
Size = Annotated[
    int,
    PlainValidator(size),
    WithJsonSchema({"type": "string", "pattern": f"^[0-9]{{1,18}}({'|'.join(SIZE_UNITS)})$"}),
]
Count = Annotated[
    int,
    PlainValidator(values.read_count),
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": values.MOST}),
]
Calls = Annotated[
    int,
    PlainValidator(values.read_calls),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": values.MOST}),
]
Lead = Annotated[
    FenceLead | Literal["off"],
    PlainValidator(values.read_lead),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _LEAD}]}
    ),
]
EntityReading = Annotated[Reading | None, reading(entity_template), _READING]
KeyReading = Annotated[Reading | None, reading(key_template), _READING]
FenceReading = Annotated[Reading | None, reading(fence_template), _READING]
Place = Annotated[Template, text(values.read_target), _AS_TEXT]
Domain = Annotated[str | FromHeader, text(read_domain), _AS_TEXT]
Match = Annotated[Pattern, text(parse_pattern), WithJsonSchema({"type": "string", "pattern": " /"})]
Name = Annotated[
    str, text(values.read_name), WithJsonSchema({"type": "string", "pattern": values.NAME})
]
Mount = Annotated[str, text(values.read_mount), WithJsonSchema({"type": "string", "pattern": "^/"})]
Address = Annotated[
    Url, text(values.read_url), WithJsonSchema({"type": "string", "pattern": "^https?://"})
]
Header = Annotated[str, text(values.read_header_name), _AS_TEXT]
KeyHeader = Annotated[str | None, text(values.read_key_header), _AS_TEXT]
File = Annotated[str | None, text(values.read_file), _AS_TEXT]
Pointer = Annotated[
    str, text(values.read_pointer), WithJsonSchema({"type": "string", "pattern": "^/"})
]
Digest = Annotated[
    bytes, text(values.read_digest), WithJsonSchema({"type": "string", "pattern": "^[0-9a-f]{64}$"})
]
Status = Annotated[frozenset[int], PlainValidator(values.read_status), WithJsonSchema(_STATUS)]
RefusedStatus = Annotated[
    frozenset[int], PlainValidator(values.read_refused_status), WithJsonSchema(_STATUS)
]
OneStatus = Annotated[
    int,
    PlainValidator(values.read_one_status),
    WithJsonSchema({"type": "integer", "minimum": 200, "maximum": 599}),
]
JsonValue = Annotated[
    str,
    PlainValidator(values.read_json_value),
    WithJsonSchema({"type": ["string", "integer", "boolean"]}),
]
