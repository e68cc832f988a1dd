"""Which route wins: the tree against the plain rule, and one pattern against another."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fencegate.policy.matching import Matching
from fencegate.policy.paths import Path, Pattern, parse_pattern, read_path

SEGMENTS = ["a", "b", "{x}"]
METHODS = ["POST", "GET", "POST|PUT", "*"]


def written(parts: list[str], end: list[str]) -> str:
    """Each capture under a name of its own."""
    named = [part.replace("x", f"x{number}") for number, part in enumerate([*parts, *end])]
    return "/" + "/".join(named)


paths = st.builds(
    written,
    st.lists(st.sampled_from(SEGMENTS), max_size=3),
    st.sampled_from([["**"], ["a"], ["{x}"], [""]]),
)
patterns = st.builds(
    lambda method, path: parse_pattern(f"{method} {path}"), st.sampled_from(METHODS), paths
)
requests = st.tuples(
    st.sampled_from(["POST", "GET", "HEAD", "PUT", "DELETE", "post"]),
    st.builds(
        lambda parts, end: "/" + "/".join(parts) + end,
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4),
        st.sampled_from(["", "/"]),
    ),
)


def takes(pattern: Pattern, method: str, path: str) -> bool:
    return pattern.takes(method) and pattern.match(read(path)) is not None


def read(path: str) -> Path:
    found = read_path(path.encode())
    assert isinstance(found, Path)
    return found


@settings(max_examples=1000)
@given(st.lists(patterns, max_size=12), requests)
def test_the_first_route_that_matches_wins(table: list[Pattern], request: tuple[str, str]) -> None:
    method, path = request
    plain = [number for number, pattern in enumerate(table) if takes(pattern, method, path)]
    assert Matching(table).find(method, read(path)) == (plain[0] if plain else None)


@settings(max_examples=1000)
@given(patterns, patterns, requests)
def test_what_covers_takes_all_and_what_does_not_meet_takes_none(
    one: Pattern, other: Pattern, request: tuple[str, str]
) -> None:
    if takes(other, *request):
        assert takes(one, *request) or not one.covers(other)
    if takes(one, *request) and takes(other, *request):
        assert one.meets(other)
        assert other.meets(one)


def covers(one: str, other: str) -> bool:
    return parse_pattern(one).covers(parse_pattern(other))


def test_a_general_pattern_covers_a_special_one_and_not_the_other_way() -> None:
    assert covers("POST /**", "POST /a/b")
    assert covers("* /a/{x}", "POST /a/b")
    assert covers("GET /a", "HEAD /a")
    assert covers("POST /a/**", "POST /a/b/**")
    assert not covers("POST /a/b", "POST /a/{x}")
    assert not covers("POST /a/**", "POST /a")
    assert not covers("POST /a", "PUT|POST /a")
    assert not covers("POST /{x}", "POST /")
