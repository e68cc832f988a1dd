"""The schema says yes to what `check` says yes to, and no to what its shape refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from fencegate.policy.schema import FILES, schema_of

POLICIES = Path(__file__).parents[2] / "policies"
STARTER = Path(__file__).parents[2] / "fencegate" / "policy" / "starter"


def errors(file: Path | str, kind: str) -> list[str]:
    """What an editor would say that reads YAML 1.2, in which `off` is a word."""
    text = file.read_text() if isinstance(file, Path) else file
    loader = yaml.SafeLoader(text)
    loader.yaml_implicit_resolvers = {
        key: [(tag, regexp) for tag, regexp in found if not tag.endswith("bool")]
        for key, found in loader.yaml_implicit_resolvers.items()
    }
    values: Any = loader.get_data()
    validator = Draft202012Validator(schema_of(kind))
    return [error.message for error in validator.iter_errors(values)]


@pytest.mark.parametrize("kind", FILES)
def test_it_is_a_schema_and_describes_every_key(kind: str) -> None:
    schema = schema_of(kind)
    Draft202012Validator.check_schema(schema)
    tables = [schema, *schema.get("$defs", {}).values()]
    keys = [key for table in tables for key in table.get("properties", {}).values()]
    assert keys
    assert all("description" in key and "examples" in key for key in keys)
    assert all(table["additionalProperties"] is False for table in tables if "properties" in table)


@pytest.mark.parametrize(
    "file",
    [*sorted(POLICIES.glob("*.yaml")), *sorted(STARTER.glob("*.yaml"))],
    ids=lambda f: f.name,
)
def test_every_example_is_right(file: Path) -> None:
    assert errors(file, "gateway" if file.stem == "gateway" else "upstream") == []


UPSTREAM = "upstream: {name: a, mount: /a, url: 'http://a'"


@pytest.mark.parametrize(
    "text",
    [
        "routes: []",
        UPSTREAM + ", timout: 30s}",
        UPSTREAM + ", timeout: 30}",
        UPSTREAM + ", timeout: 30sec}",
        UPSTREAM + ", on_unknown: resent}",
        UPSTREAM + ", guard: half}",
        UPSTREAM + ", body_limit: 1MB}",
        UPSTREAM + ", refused_statuses: [700]}",
        UPSTREAM + ", entity: []}",
        UPSTREAM + "}\nroutes: [{entity: a}]",
    ],
)
def test_what_has_not_its_shape_is_refused(text: str) -> None:
    assert errors(text, "upstream")
