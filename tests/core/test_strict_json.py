"""Nothing of a document is lost in reading, and each document has one spelling."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencegate.core.strict_json import (
    MAX_DEPTH,
    Duplicate,
    Json,
    Missing,
    NotJson,
    Number,
    TooDeep,
    canonical,
    parse,
    pointer,
    without,
)


def document(text: str) -> Json:
    value = parse(text.encode())
    assert not isinstance(value, NotJson | Duplicate | TooDeep)
    return value


texts = st.text(st.sampled_from('aA1,:"\\[{\u00e9\ud83d\ude00\U0001f600'), max_size=4)
numbers = st.sampled_from(["0", "-0", "1", "1.0", "1e0", "1E0", "10", "-7", "0.1"]).map(Number)
documents: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | texts | numbers,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


# --- reading -------------------------------------------------------------------------------


def test_numbers_keep_their_text_and_are_never_converted() -> None:
    written = ["1", "1.0", "1e0", "-0", "18446744073709551616", "0.1", "9" * 5_000]
    seen = document("[" + ",".join(written) + "]")
    assert seen == [Number(text) for text in written]
    assert isinstance(seen, list)
    assert {type(number) for number in seen} == {Number}


def test_a_number_never_equals_a_text() -> None:
    number, text = Number("42"), "42"
    assert number == Number("42")
    assert number != Number("42.0")
    assert number != text
    assert text != number
    assert (number == text, text == number) == (False, False)
    assert repr(number) == "Number(42)"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{} {}",
        b"{'a':1}",
        b"[1,]",
        b'{"a":1,}',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"01",
        b"+1",
        b"1.",
        b".5",
        b"0x1",
        b"True",
        b'"a\nb"',
        b'"\\x41"',
        b'"\\u12"',
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        "{}".encode("utf-16"),
        "{}".encode("utf-16-le"),
        b"// no\n{}",
        b"\x0b{}",
        b"\xc2\xa0{}",
    ],
)
def test_what_is_not_one_strict_json_text_in_utf8_is_not_json(body: bytes) -> None:
    assert parse(body) == NotJson()


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'{"a":1,"\\u0061":2}',
        b'[{"x":{"a":1,"b":2,"a":3}}]',
    ],
)
def test_member_name_that_stands_twice_is_found_at_any_depth(body: bytes) -> None:
    assert parse(body) == Duplicate()


def test_equal_names_in_different_objects_are_no_duplicates() -> None:
    assert document('{"a":{"a":1},"b":[{"a":1},{"a":1}]}') is not None


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("core", ["1", "[]", "{}"])
def test_depth_ends_exactly_at_the_limit(opening: str, closing: str, core: str) -> None:
    levels = MAX_DEPTH if core == "1" else MAX_DEPTH - 1
    deepest = opening * levels + core + closing * levels
    assert canonical(document(deepest)) == deepest.encode()
    among_others = "[[],[]," + deepest[len(opening) : len(deepest) - len(closing)] + ",[],[]]"
    assert canonical(document(among_others)) == among_others.encode()
    deeper = opening * (levels + 1) + core + closing * (levels + 1)
    assert parse(deeper.encode()) == TooDeep()


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b"[" * 5_000 + b"]" * 5_000, b'{"a":' * 9_999])
def test_endless_nesting_is_an_answer_and_no_crash(body: bytes) -> None:
    assert parse(body) == TooDeep()


def test_many_brackets_that_do_not_nest_are_not_too_deep() -> None:
    assert document("[" + ",".join(["[{}]"] * 500) + "]") == [[{}]] * 500
    assert document('"' + "[" * 500 + '"') == "[" * 500


@given(st.binary(max_size=60) | st.text('[]{}":,\\u0d8e1-. tfn', max_size=30).map(str.encode))
def test_any_bytes_are_read_or_refused_without_a_crash(body: bytes) -> None:
    value = parse(body)
    if not isinstance(value, NotJson | Duplicate | TooDeep):
        assert canonical(value)
        json.loads(body)  # raises where we are looser than everybody else


# --- places --------------------------------------------------------------------------------

RFC6901 = {"foo": ["bar", "baz"], "": "e", "a/b": "s", "m~n": "t", " ": "b", "~1": "u", "0": "z"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", RFC6901),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/foo/1", "baz"),
        ("/", "e"),
        ("/a~1b", "s"),
        ("/m~0n", "t"),
        ("/ ", "b"),
        ("/~01", "u"),
        ("/0", "z"),
        ("/foo/2", Missing()),
        ("/foo/-", Missing()),
        ("/foo/00", Missing()),
        ("/foo/01", Missing()),
        ("/foo/-1", Missing()),
        ("/foo/+1", Missing()),
        ("/foo/\u0661", Missing()),
        ("/foo/" + "9" * 5_000, Missing()),
        ("/foo/0/0", Missing()),
        ("/bar", Missing()),
        ("/foo/", Missing()),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_pointer_finds_what_rfc6901_says(path: str, found: Json | Missing) -> None:
    assert pointer(document(json.dumps(RFC6901)), path) == found


def test_null_is_found_and_is_not_missing() -> None:
    assert pointer(document('{"a":null}'), "/a") is None


@pytest.mark.parametrize("path", ["a", "a/b", "/~", "/~2", "/a~", "#/a"])
def test_what_is_no_pointer_is_an_error_of_the_policy(path: str) -> None:
    with pytest.raises(ValueError, match="is not a JSON pointer"):
        pointer({}, path)
    with pytest.raises(ValueError, match="is not a JSON pointer"):
        without({}, [path])


@pytest.mark.parametrize(
    ("text", "paths", "left"),
    [
        ('{"a":1,"b":2}', ["/a"], '{"b":2}'),
        ('{"a":{"b":1,"c":2}}', ["/a/b"], '{"a":{"c":2}}'),
        ('{"a":1}', ["/b", "/a/b", "/x/y/z"], '{"a":1}'),
        ('{"a":{"b":1},"c":2}', ["/a", "/a/b"], '{"c":2}'),
        ('{"a":{"b":1},"c":2}', ["/a/b", "/a"], '{"c":2}'),
        ('{"a":{"b":1,"c":2}}', ["/a/b", "/a/c"], '{"a":{}}'),
        ("[10,11,12,13]", ["/0", "/2"], "[11,13]"),
        ("[10,11,12,13]", ["/2", "/0"], "[11,13]"),
        ('[{"a":1},{"a":1}]', ["/1/a", "/9/a"], '[{"a":1},{}]'),
        ('{"0":1,"1":2}', ["/0"], '{"1":2}'),
        ('{"a":{}}', ["/a"], "{}"),
        ('{"a~/b":1}', ["/a~0~1b"], "{}"),
        ("1", ["/a"], "1"),
        ('{"a":1}', [], '{"a":1}'),
    ],
)
def test_places_are_removed_as_the_document_came(text: str, paths: list[str], left: str) -> None:
    value = document(text)
    assert canonical(without(value, paths)) == left.encode()
    assert value == document(text), "the document itself was changed"


def test_the_whole_document_cannot_be_removed() -> None:
    with pytest.raises(ValueError, match="whole document"):
        without({}, ["/a", ""])


# --- one spelling --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        (' { "b" : [ 1 , 2 ] , "a" : null } ', '{"a":null,"b":[1,2]}'),
        ('{"a":1.0,"b":-0,"c":1E+2}', '{"a":1.0,"b":-0,"c":1E+2}'),
        (r'"\u0041\/\u00e9"', '"A/\u00e9"'),
        ("[true,false,null]", "[true,false,null]"),
    ],
)
def test_spelling_drops_spacing_and_order_and_keeps_number_text(text: str, spelling: str) -> None:
    assert canonical(document(text)) == spelling.encode()


DISTINCT = [
    '{"a":"1"}',
    '{"a":1}',
    '{"a":1.0}',
    '{"a":1e0}',
    '{"a":true}',
    '{"a":"true"}',
    '{"a":false}',
    '{"a":null}',
    '{"a":"null"}',
    '{"a":""}',
    '{"a":[]}',
    '{"a":{}}',
    '{"a":[1]}',
    '{"a":[1,2]}',
    '{"a":[2,1]}',
    '{"a":[[1],2]}',
    '{"a":"1,2"}',
    "{}",
    "[]",
    '{"":1}',
    '{"A":1}',
    r'{"a":"\ud800"}',
    r'{"a":"\udc00"}',
    r'{"a":"\ud83d\ude00"}',
    r'{"a":"\ufffd"}',
    r'{"a":"\\ud800"}',
    '{"a":"\u00e9"}',
    '{"a":"e\u0301"}',
]


def test_different_documents_have_different_spellings() -> None:
    spellings = {canonical(document(text)) for text in DISTINCT}
    assert len(spellings) == len(DISTINCT)


def test_names_that_differ_in_case_alone_keep_their_written_order() -> None:
    first, second = document('{"amount":1,"Amount":2}'), document('{"Amount":2,"amount":1}')
    assert canonical(first) != canonical(second)


def shuffled(value: Any, draw: st.DrawFn) -> Any:
    if isinstance(value, Mapping):
        names = draw(st.permutations(list(value)))
        return {name: shuffled(value[name], draw) for name in names}
    return [shuffled(inner, draw) for inner in value] if isinstance(value, list) else value


@st.composite
def reordered(draw: st.DrawFn) -> tuple[Json, Json]:
    plain_names = st.text("abxyz\u00e9", max_size=4)
    inner: st.SearchStrategy[Json] = st.recursive(
        texts | numbers,
        lambda deeper: st.dictionaries(plain_names, deeper) | st.lists(deeper, max_size=3),
        max_leaves=15,
    )
    value = draw(inner)
    return value, shuffled(value, draw)


@given(reordered())
def test_permuting_members_never_changes_the_spelling(pair: tuple[Json, Json]) -> None:
    value, other = pair
    assert canonical(value) == canonical(other)


@given(documents, documents)
def test_documents_share_a_spelling_only_if_they_are_equal(one: Json, other: Json) -> None:
    assert canonical(one) != canonical(other) or one == other


def joined(value: Json) -> bool:
    """Whether every text is as `parse` would give it: surrogate pairs are one character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") == value
    if isinstance(value, dict):
        return all(joined(name) and joined(inner) for name, inner in value.items())
    return not isinstance(value, list) or all(map(joined, value))


def as_json(value: Json) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(name)} :{as_json(inner)}" for name, inner in value.items())
        return "{ " + " , ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(map(as_json, value)) + " ]"
    return json.dumps(value)


@given(documents.filter(joined))
def test_reading_loses_nothing_of_a_document(value: Json) -> None:
    assert document(as_json(value)) == value
