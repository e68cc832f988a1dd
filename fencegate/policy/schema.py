"""The JSON Schema of policy files, made from the model that reads them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from fencegate.policy.model import GatewayFile, Section, UpstreamFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILES: dict[str, type[Section]] = {"upstream": UpstreamFile, "gateway": GatewayFile}


def schema_of(file: str) -> dict[str, Any]:
    """The schema of `upstream` files or of the `gateway` file.

    What a schema cannot say (templates, contradictions between settings) is left to `check`.
    """
    made = FILES[file].model_json_schema(schema_generator=_AsWritten)
    title = "fencegate: an upstream and its routes" if file == "upstream" else "fencegate: gateway"
    return {"$schema": DIALECT, **made, "title": title}


class _AsWritten(GenerateJsonSchema):
    """What may be written: no null, and no default, which is a read value and not a written one."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
