"""Kill points, derived from source: every step at which a process may die or be stopped.

A point stands before each statement, and one behind the last of a block from which control goes
on. Its name is the function and the statement in normal form, so that it stays the same until
the step itself is changed. The same walk that names the points puts a call of the hook there.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

HOOK = "__at_kill_point__"


@dataclass(frozen=True, slots=True)
class Place:
    """A module with kill points: in these functions, or (None) in every one."""

    module: str
    only: frozenset[str] | None = None

    @property
    def source(self) -> str:
        """Without importing it: the package above it is all that is imported."""
        spec = find_spec(self.module)
        if spec is None or spec.origin is None:
            raise LookupError(f"{self.module} has no source")
        return Path(spec.origin).read_text(encoding="utf-8")


PLACES = (
    Place("fencegate.gateway.exchange"),
    Place("fencegate.gateway.upstream.leg", frozenset({"Leg.forward"})),
)


def all_points() -> dict[str, list[str]]:
    """The points of every function of every place, in the order of the source."""
    points: dict[str, list[str]] = {}
    for place in PLACES:
        points |= points_in(place.source, place.only)
    return points


def point_before(statement: str) -> str:
    """The point before the one statement that begins like this."""
    points = [point for points in all_points().values() for point in points]
    found = [point for point in points if f':before "{statement}' in point]
    if len(found) != 1:
        raise LookupError(f"{len(found)} kill points are before {statement!r}, expected one")
    return found[0]


def points_in(source: str, only: frozenset[str] | None = None) -> dict[str, list[str]]:
    """The points of each function, in the order of the source."""
    return weave(ast.parse(source), only)


def weave(tree: ast.Module, only: frozenset[str] | None = None) -> dict[str, list[str]]:
    """Put a call `HOOK(name)` at each point of the tree; answers the names by function."""
    points = {}
    for name, function in _functions(tree, ""):
        if only is None or name in only:
            weaver = _Weaver(name)
            function.body = weaver.body(function.body)
            points[name] = weaver.names
    ast.fix_missing_locations(tree)
    return points


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(node: ast.Module | ast.ClassDef, above: str) -> list[tuple[str, _Function]]:
    """Functions and methods by qualified name; a function within a function is part of it."""
    found: list[tuple[str, _Function]] = []
    for inner in node.body:
        if isinstance(inner, _Function):
            found.append((above + inner.name, inner))
        elif isinstance(inner, ast.ClassDef):
            found += _functions(inner, f"{above}{inner.name}.")
    return found


@dataclass(slots=True)
class _Weaver:
    function: str
    names: list[str] = field(default_factory=list)

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """A function's: its docstring is no step."""
        first = statements[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return [first, *self.block(statements[1:])]
        return self.block(statements)

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        if not statements or _is_never_entered(statements):
            return statements
        woven: list[ast.stmt] = []
        for statement in statements:
            hook = self._hook("before", statement)
            self._weave(statement)
            woven += [hook, statement]
        if goes_on(statements[-1]):
            woven.append(self._hook("behind", statements[-1]))
        return woven

    def _weave(self, node: ast.AST) -> None:
        """All blocks of a statement: bodies, branches, cases, handlers."""
        for name, value in ast.iter_fields(node):
            if not isinstance(value, list) or not value:
                continue
            if isinstance(value[0], ast.stmt):
                setattr(node, name, self.block(value))
            elif isinstance(value[0], (ast.match_case, ast.ExceptHandler)):
                for inner in value:
                    self._weave(inner)

    def _hook(self, where: str, statement: ast.stmt) -> ast.stmt:
        name = self._name(where, statement)
        call = ast.Call(ast.Name(HOOK, ast.Load()), [ast.Constant(name)], [])
        return ast.copy_location(ast.Expr(call), statement)

    def _name(self, where: str, statement: ast.stmt) -> str:
        plain = name = f'{self.function}:{where} "{_header(statement)}"'
        number = 1
        while name in self.names:
            number += 1
            name = f"{plain} #{number}"
        self.names.append(name)
        return name


def _header(statement: ast.stmt) -> str:
    """The statement in normal form, without the blocks in it or the hooks in those."""
    return ast.unparse(statement).partition("\n")[0].removesuffix(":")


def goes_on(statement: ast.stmt) -> bool:
    """May control come out at the end of this statement? In doubt yes."""
    match statement:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return False
        case ast.Expr():
            return not _is_never(statement)
        case ast.If():
            return _block_goes_on(statement.body) or _block_goes_on(statement.orelse)
        case ast.With() | ast.AsyncWith():
            return _block_goes_on(statement.body)
        case ast.While(test=ast.Constant(value=True)):
            return any(_breaks(inner) for inner in statement.body)
        case ast.Match():
            whole = any(_takes_all(case) for case in statement.cases)
            return not whole or any(_block_goes_on(case.body) for case in statement.cases)
        case ast.Try():
            ends = [statement.orelse or statement.body, *(h.body for h in statement.handlers)]
            return _block_goes_on(statement.finalbody) and any(map(_block_goes_on, ends))
        case _:
            return True


def _block_goes_on(statements: list[ast.stmt]) -> bool:
    return not statements or goes_on(statements[-1])


def _takes_all(case: ast.match_case) -> bool:
    pattern = case.pattern
    return case.guard is None and isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _breaks(node: ast.AST) -> bool:
    """A `break` of this loop: that of a loop within is another's."""
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        return any(_breaks(inner) for inner in node.orelse)
    return isinstance(node, ast.Break) or any(map(_breaks, ast.iter_child_nodes(node)))


def _is_never(statement: ast.stmt) -> bool:
    """`assert_never(...)`: the type checker has proved that control does not come here."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == "assert_never"
    )


def _is_never_entered(statements: list[ast.stmt]) -> bool:
    return _is_never(statements[0])
