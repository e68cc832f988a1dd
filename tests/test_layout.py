"""The house: who may know whom, what an import brings along, and how long things are."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "fencegate"
FILES = sorted(HOUSE.rglob("*.py"))

# A part and the parts that it may import, besides itself. Layer by layer; neighbours on one layer
# do not know each other.
KNOWS = {
    "core": set[str](),
    "policy": {"core"},
    "ledger": {"core"},
    "lease": {"core"},
    "gateway": {"policy", "ledger", "core"},
    "ops": {"policy", "ledger", "core"},
    "server": {"config", "gateway", "ops", "policy", "ledger", "core"},
    "cli": {"config", "server", "gateway", "ops", "policy", "ledger", "lease", "core"},
    "config": {"core"},
    "__main__": {"cli"},
    "__init__": set[str](),
}
# Core has no clock, no chance, no environment, no wire and no log.
NOT_IN_CORE = {
    "asyncio",
    "datetime",
    "http",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "sys",
    "threading",
    "time",
    "uuid",
}


def part_of(file: Path) -> str:
    """`core` for fencegate/core/model.py, `server` for fencegate/server.py."""
    first = file.relative_to(HOUSE).parts[0]
    return first.removesuffix(".py")


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), str(file))


def imports(file: Path) -> Iterator[str]:
    """The full names of all modules that a file imports, wherever in it."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            yield node.module or ""
            if node.module == "fencegate":
                yield from (f"fencegate.{alias.name}" for alias in node.names)


def of_file(file: Path) -> str:
    return str(file.relative_to(ROOT))


files = pytest.mark.parametrize("file", FILES, ids=of_file)
in_core = pytest.mark.parametrize("file", sorted((HOUSE / "core").rglob("*.py")), ids=of_file)


def test_every_part_has_its_place() -> None:
    parts = {part_of(file) for file in FILES}
    assert parts <= KNOWS.keys()
    assert parts >= {"core", "policy", "ledger", "gateway", "ops", "server", "cli", "config"}


@files
def test_a_part_knows_only_what_lies_below_it(file: Path) -> None:
    part = part_of(file)
    ours = [name.split(".") for name in imports(file) if name.split(".")[0] == "fencegate"]
    known = {name[1] for name in ours if len(name) > 1} - {part, "__version__"}
    assert known <= KNOWS[part]


@in_core
def test_core_is_the_standard_library_and_itself(file: Path) -> None:
    others = {name.split(".")[0] for name in imports(file)} - {"fencegate"}
    assert others <= sys.stdlib_module_names
    assert not others & NOT_IN_CORE


@in_core
def test_core_waits_for_nothing(file: Path) -> None:
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert not [node for node in ast.walk(parsed(file)) if isinstance(node, waits)]


@files
def test_every_module_says_what_it_is(file: Path) -> None:
    assert ast.get_docstring(parsed(file)) or file.read_text() == ""


@files
def test_no_file_is_longer_than_one_idea(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 450


@files
def test_no_function_is_longer_than_a_screen(file: Path) -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    lengths = {
        node.name: lines_of(node) for node in ast.walk(parsed(file)) if isinstance(node, functions)
    }
    assert {name: lines for name, lines in lengths.items() if lines > 60} == {}


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def function(file: str, name: str) -> ast.FunctionDef:
    nodes = ast.walk(parsed(HOUSE / file))
    return next(n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == name)


def test_the_law_is_read_in_one_sitting() -> None:
    admit = function("core/admission.py", "admit")
    settle = function("core/settlement.py", "settle")
    assert lines_of(admit) + lines_of(settle) <= 120


def test_the_commands_bring_no_server_no_parser_and_no_driver_along() -> None:
    heavy = ["uvicorn", "uvloop", "httptools", "pydantic", "yaml", "sqlite3"]
    assert brought_by("fencegate.cli", heavy) == []


def test_a_ledger_brings_no_driver_along_before_one_is_opened() -> None:
    assert brought_by("fencegate.ledger.opening", ["sqlite3", "uvicorn"]) == []


def test_the_law_brings_nothing_along() -> None:
    assert brought_by("fencegate.core.admission", ["asyncio", "socket", "logging"]) == []


def brought_by(module: str, names: list[str]) -> list[str]:
    """Which of these modules are there after an import, in a fresh process."""
    code = f"import sys, {module}; print([n for n in {names!r} if n in sys.modules])"
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    brought: list[str] = ast.literal_eval(told.stdout)
    return brought
