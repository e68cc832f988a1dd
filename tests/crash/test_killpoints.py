"""Points are derived from source, and the hooks stand where the names say."""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import Any

import pytest

from tests.crash.killpoints import HOOK, points_in, weave

SOURCE = dedent(
    '''
    def way(x):
        """No step."""
        while True:
            with hold(x) as held:
                y = step(held)
            match y:
                case 1:
                    return y
                case 2:
                    y = other(y)
                case _:
                    assert_never(y)
            try:
                x = risky(y)
            except ValueError:
                x = risky(y)
            finally:
                close(x)
            for _ in range(2):
                if x:
                    continue
                else:
                    break
    '''
)


def test_a_point_stands_before_each_statement_and_behind_a_block_that_goes_on() -> None:
    assert points_in(SOURCE)["way"] == [
        'way:before "while True"',
        'way:before "with hold(x) as held"',
        'way:before "y = step(held)"',
        'way:behind "y = step(held)"',
        'way:before "match y"',
        'way:before "return y"',
        'way:before "y = other(y)"',
        'way:behind "y = other(y)"',
        'way:before "try"',
        'way:before "x = risky(y)"',
        'way:behind "x = risky(y)"',
        'way:before "x = risky(y)" #2',
        'way:behind "x = risky(y)" #2',
        'way:before "close(x)"',
        'way:behind "close(x)"',
        'way:before "for _ in range(2)"',
        'way:before "if x"',
        'way:before "continue"',
        'way:before "break"',
        'way:behind "for _ in range(2)"',
    ]


def test_a_loop_without_a_break_has_nothing_behind_it() -> None:
    source = "def way():\n    while True:\n        step()\n"
    assert 'way:behind "while True"' not in points_in(source)["way"]
    source = "def way():\n    while True:\n        if step():\n            break\n"
    assert 'way:behind "while True"' in points_in(source)["way"]


def test_methods_and_chosen_functions_have_their_own_points() -> None:
    source = "class Leg:\n    def forward(self): go()\n    def close(self): stop()\ndef f(): go()\n"
    assert points_in(source, frozenset({"Leg.forward"})) == {
        "Leg.forward": ['Leg.forward:before "go()"', 'Leg.forward:behind "go()"']
    }
    assert list(points_in(source)) == ["Leg.forward", "Leg.close", "f"]


@pytest.mark.parametrize(("given", "word"), [(0, "no"), (1, "yes")])
def test_the_hook_is_called_at_each_point_on_the_way(given: int, word: str) -> None:
    source = "def f(x):\n    if x:\n        said('yes')\n    else:\n        said('no')\n"
    tree = ast.parse(source)
    (names,) = weave(tree).values()
    passed: list[str] = []
    space: dict[str, Any] = {HOOK: passed.append, "said": passed.append}
    exec(compile(tree, "way", "exec"), space)
    space["f"](given)
    assert passed == [
        'f:before "if x"',
        f"f:before \"said('{word}')\"",
        word,
        f"f:behind \"said('{word}')\"",
        'f:behind "if x"',
    ]
    assert set(passed) - {word} <= set(names)
