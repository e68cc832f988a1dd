"""Which bodies, queries and media types are the same, and which only look alike."""

from __future__ import annotations

import json
from collections import defaultdict
from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencegate.core.bodies import Ambiguous, canonical_body, canonical_query, framed, media_type

JSON = b"application/json"
FORM = b"application/x-www-form-urlencoded"
MULTIPART = b"multipart/form-data; boundary=B"


def canonical(
    body: bytes,
    content_type: bytes | None,
    *,
    ignore: tuple[str, ...] = (),
    json: tuple[str, ...] = (),
    form: tuple[str, ...] = (),
) -> bytes:
    seen = canonical_body(body, content_type, ignore=ignore, taken_json=json, taken_form=form)
    assert isinstance(seen, bytes)
    return seen


def query(raw: bytes | None, *taken: str) -> bytes:
    return canonical_query(raw, taken=taken)


# --- JSON ----------------------------------------------------------------------------------


def test_member_order_and_spacing_of_json_are_ignored() -> None:
    one = canonical(b'{"a":1,"b":{"x":[1,2],"y":null}}', JSON)
    assert one == canonical(b' {"b": {"y":null,\n"x":[1, 2]}, "a":1}', JSON)


@pytest.mark.parametrize(
    "other",
    [
        b'{"a":1,"b":{"x":[2,1],"y":null}}',
        b'{"a":"1","b":{"x":[1,2],"y":null}}',
        b'{"a":1.0,"b":{"x":[1,2],"y":null}}',
        b'{"a":1,"b":{"x":[1,2]}}',
        b'{"a":1,"b":{"x":[1,2],"y":null},"c":null}',
    ],
)
def test_array_order_text_for_number_and_null_for_missing_differ(other: bytes) -> None:
    assert canonical(b'{"a":1,"b":{"x":[1,2],"y":null}}', JSON) != canonical(other, JSON)


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"Application/JSON",
        b"application/json; charset=utf-8",
        b'application/json;charset="UTF-8"',
        b"application/json; profile=x",
        b"application/vnd.api+json",
        b"application/problem+json; charset=utf-8",
    ],
)
def test_json_is_known_by_its_media_type(content_type: bytes) -> None:
    assert canonical(b'{"a":1}', content_type) == canonical(b'{ "a":1 }', content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        b"",
        b"text/plain",
        b"text/json",
        b"application/x-ndjson",
        b"application/json; charset=utf-16",
        b"application/json; charset=latin1",
        b"application/json; charset=utf-8; charset=utf-16",
        b"application/json, text/plain",
        b"application/json; x",
        b"application json",
    ],
)
def test_what_is_not_surely_json_is_compared_byte_by_byte(content_type: bytes | None) -> None:
    assert canonical(b'{"a":1}', content_type) == framed(b"bytes", b'{"a":1}')


@pytest.mark.parametrize("body", [b"", b"{", b'{"a":NaN}', b'\xef\xbb\xbf{"a":1}', b'{"a":"\xff"}'])
def test_broken_json_is_compared_byte_by_byte(body: bytes) -> None:
    assert canonical(body, JSON, ignore=("/a",)) == framed(b"bytes", body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"amount":1,"amount":2}', "stands twice"),
        (b'{"amount":1,"\\u0061mount":1}', "stands twice"),
        (b"[" * 129 + b"]" * 129, "too deep"),
        (b"[" * 1_000_000, "too deep"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_json_that_upstreams_may_read_differently_is_ambiguous(body: bytes, why: str) -> None:
    seen = canonical_body(body, JSON, ignore=("/amount",), taken_json=(), taken_form=())
    assert isinstance(seen, Ambiguous)
    assert why in seen.why
    assert "amount" not in seen.why


def test_ignored_and_taken_places_may_differ_or_be_missing() -> None:
    places = {"ignore": ("/meta/trace",), "json": ("/execution_fence",)}
    one = canonical(b'{"execution_fence":41,"a":1,"meta":{"trace":"x"}}', JSON, **places)
    assert one == canonical(b'{"execution_fence":42,"a":1,"meta":{}}', JSON, **places)
    assert one == canonical(b'{"a":1,"meta":{"trace":null}}', JSON, **places)
    assert one != canonical(b'{"execution_fence":42,"a":2,"meta":{}}', JSON, **places)
    assert one != canonical(b'{"execution_fence":42,"a":1}', JSON, **places)


# --- queries and forms ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"to=alice&cur=eur", b"cur=eur&to=alice"),
        (b"a=1&b=2&a=3", b"b=2&a=1&a=3"),
        (b"m[x]=1&m[y]=2", b"m[y]=2&m[x]=1"),
        (b"e[]=1&e[]=2&n=3", b"n=3&e[]=1&e[]=2"),
        (b"&a=1", b"a=1&"),
    ],
)
def test_order_of_parameters_is_ignored(one: bytes, other: bytes) -> None:
    assert query(one) == query(other)
    assert canonical(one, FORM) == canonical(other, FORM)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"a=1&a=2", b"a=2&a=1"),
        (b"a=1&%61=2", b"%61=2&a=1"),
        (b"a+b=1&a%20b=2", b"a%20b=2&a+b=1"),
        (b"e[]=1&e%5B%5D=2", b"e%5B%5D=2&e[]=1"),
        (b"a=1&A=2", b"A=2&a=1"),
        (b"a.b=1&a_b=2", b"a_b=2&a.b=1"),
        (b"l[][x]=1&l[][x]=2&l[][y]=3", b"l[][x]=1&l[][y]=3&l[][x]=2"),
        (b"a=1;b=2&b=3", b"b=3&a=1;b=2"),
        (b"=1&=2", b"=2&=1"),
    ],
)
def test_order_within_one_name_is_kept_however_an_upstream_spells_it(
    one: bytes, other: bytes
) -> None:
    assert query(one) != query(other)
    assert canonical(one, FORM) != canonical(other, FORM)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"to=alice", b"to=mallory"),
        (b"to=alice", b"to=alice&dry=1"),
        (b"a", b"a="),
        (b"a=", b"a=="),
        (b"a=1", b"a=1&"),
        (b"a=1&b=2", b"a=1&&b=2"),
        (b"", b"&"),
        (b"a=%20", b"a=+"),
        (b"a=+", b"a=%2B"),
        (b"a=%2b", b"a=%2B"),
        (b"a=1", b"%61=1"),
        (b"a=1&b=2", b"a=1%26b=2"),
        (b"a=1&b=2", b"a=1&b=2&b=2"),
        (b"ab=c", b"a=bc"),
    ],
)
def test_parameters_that_are_spelt_differently_differ(one: bytes, other: bytes) -> None:
    assert query(one) != query(other)
    assert canonical(one, FORM) != canonical(other, FORM)


def test_no_query_and_an_empty_query_differ() -> None:
    assert query(None) != query(b"")


def test_taken_parameter_does_not_count() -> None:
    assert query(b"fence=41&a=1", "fence") == query(b"a=1&%66ence=42", "fence") == query(b"a=1")
    assert query(b"fence=41", "fence") == query(None)
    assert query(b"fence=41&a=1", "fence") != query(b"fence=41&a=2", "fence")
    assert canonical(b"fence=1&a=1", FORM, form=("fence",)) == canonical(b"a=1", FORM)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"fence=1&fence=2&a=1", b"fence=1&fence=3&a=1"),
        (b"Fence=1&a=1", b"Fence=2&a=1"),
        (b"fence=1;a=1", b"fence=1;a=2"),
    ],
)
def test_taken_parameter_that_is_not_surely_the_one_read_still_counts(
    one: bytes, other: bytes
) -> None:
    assert query(one, "fence") != query(other, "fence")


def test_form_in_another_charset_is_compared_byte_by_byte() -> None:
    content_type = FORM + b"; charset=utf-16"
    assert canonical(b"b=1&a=2", content_type) == framed(b"bytes", b"b=1&a=2")


def values_by_name(raw: bytes) -> dict[str, list[bytes]]:
    seen: dict[str, list[bytes]] = defaultdict(list)
    for piece in raw.split(b"&"):
        seen[unquote_plus(piece.partition(b"=")[0].decode("latin-1"), "latin-1")].append(piece)
    return seen


raw_queries = st.lists(st.sampled_from([b"a", b"%61", b"b", b"+", b"&", b"=", b"1"]), max_size=12)


@given(raw_queries.map(b"".join), raw_queries.map(b"".join))
def test_queries_are_one_exactly_if_each_name_has_the_same_pieces_in_order(
    one: bytes, other: bytes
) -> None:
    assert (query(one) == query(other)) == (values_by_name(one) == values_by_name(other))


@given(
    st.lists(st.sampled_from([b"a=1", b"b=2", b"c", b"d=%20"]), unique=True).flatmap(
        lambda pieces: st.tuples(st.just(pieces), st.permutations(pieces))
    )
)
def test_permuting_parameters_of_different_names_never_counts(
    pair: tuple[list[bytes], list[bytes]],
) -> None:
    assert query(b"&".join(pair[0])) == query(b"&".join(pair[1]))


# --- media types ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content_type", "seen"),
    [
        (None, b""),
        (b"Application/JSON", b"application/json"),
        (b" text/plain ; charset=UTF-8 ", b"text/plain;charset=utf-8"),
        (b'text/plain;Charset="utf-8"', b"text/plain;charset=utf-8"),
        (b"text/plain; format=flowed", b"text/plain"),
        (b"text/plain; format=flowed; charset=utf-8;", b"text/plain;charset=utf-8"),
        (b'multipart/form-data; boundary="x;charset=y"', b"multipart/form-data"),
        (b"application/vnd.api+json", b"application/vnd.api+json"),
    ],
)
def test_media_type_is_type_and_charset_in_lower_case(
    content_type: bytes | None, seen: bytes
) -> None:
    assert media_type(content_type) == seen


@pytest.mark.parametrize(
    "content_type",
    [
        b"",
        b"JSON",
        b"Text/",
        b"/Plain",
        b"Text/Plain, Text/Html",
        b"Text/Plain; charset",
        b"Text/Plain; charset=",
        b'Text/Plain; charset="a',
        b'Text/Plain; charset="a;b"',
        b'Text/Plain; charset=""',
        b"Text/Plain; charset=a; charset=b",
        b"Text/Plain; charset = utf-8",
        b"Text/Plain\x00",
        b"Text/Plain charset=utf-8",
        b"Text/Plain;" + b"a" * 500,
    ],
)
def test_what_is_no_media_type_stands_as_it_came(content_type: bytes) -> None:
    assert media_type(content_type) == content_type


@given(st.text('aT/;=" \\charset,', max_size=30).map(str.encode))
def test_a_media_type_is_its_own_media_type(content_type: bytes) -> None:
    assert media_type(media_type(content_type)) == media_type(content_type)


# --- multipart forms -----------------------------------------------------------------------


def part(content: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join((*lines, b"", content))


def multipart(*parts: bytes, boundary: bytes = b"B") -> bytes:
    opened = b"".join(b"--" + boundary + b"\r\n" + each + b"\r\n" for each in parts)
    return opened + b"--" + boundary + b"--\r\n"


NAME_A = b'Content-Disposition: form-data; name="a"'
NAME_B = b'Content-Disposition: form-data; name="b"'
FILE_A = b'Content-Disposition: form-data; name="a"; filename="f.txt"'
PLAIN = b"Content-Type: text/plain"
TWO_PARTS = multipart(part(b"1", NAME_A), part(b"2", NAME_B))


@pytest.mark.parametrize("boundary", [b"B", b"----x42", b"a'b", b"x" * 70])
def test_the_boundary_does_not_count(boundary: bytes) -> None:
    body = multipart(part(b"1", NAME_A), part(b"\r\n\x00", FILE_A, PLAIN), boundary=boundary)
    seen = canonical(body, b'multipart/form-data; boundary="' + boundary + b'"')
    other = multipart(part(b"1", NAME_A), part(b"\r\n\x00", FILE_A, PLAIN), boundary=b"other")
    assert seen == canonical(other, b"Multipart/Form-Data; charset=utf-8; Boundary=other")


@pytest.mark.parametrize(
    "lines",
    [
        (b'content-disposition:form-data;name="a"; filename="f.txt"', PLAIN),
        (b"Content-Disposition: Form-Data; filename=f.txt; name=a ", PLAIN),
        (PLAIN, FILE_A),
    ],
)
def test_spelling_of_a_parts_head_does_not_count(lines: tuple[bytes, ...]) -> None:
    one = multipart(part(b"1", FILE_A, PLAIN))
    assert canonical(one, MULTIPART) == canonical(multipart(part(b"1", *lines)), MULTIPART)


def test_last_line_break_after_the_close_does_not_count() -> None:
    assert canonical(TWO_PARTS, MULTIPART) == canonical(TWO_PARTS[:-2], MULTIPART)


DISTINCT_FORMS = [
    multipart(),
    multipart(part(b"1", NAME_A)),
    multipart(part(b"2", NAME_A)),
    multipart(part(b"1\r\n", NAME_A)),
    multipart(part(b"", NAME_A)),
    multipart(part(b"1", NAME_B)),
    multipart(part(b"1", NAME_A, PLAIN)),
    multipart(part(b"1", FILE_A)),
    multipart(part(b"1", FILE_A, PLAIN)),
    multipart(part(b"1", FILE_A, b"Content-Type: text/html")),
    multipart(part(b"1", FILE_A + b"; filename*=UTF-8''f.txt")),
    multipart(part(b"1", NAME_A + b"; filename*=UTF-8''f.txt")),
    multipart(part(b"1", NAME_A + b'; filename=""')),
    multipart(part(b"1", NAME_A, b"Content-Transfer-Encoding: base64")),
    multipart(part(b"1", NAME_A, b"X: text/plain")),
    multipart(part(b"1", NAME_A), part(b"2", NAME_A)),
    multipart(part(b"2", NAME_A), part(b"1", NAME_A)),
    TWO_PARTS,
    multipart(part(b"2", NAME_B), part(b"1", NAME_A)),
]


def test_parts_count_in_order_by_name_file_name_type_and_bytes() -> None:
    seen = {canonical(body, MULTIPART) for body in DISTINCT_FORMS}
    assert len(seen) == len(DISTINCT_FORMS)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--B",
        b"--B--x",
        b"preamble\r\n" + TWO_PARTS,
        b"\r\n" + TWO_PARTS,
        TWO_PARTS + b"epilogue",
        TWO_PARTS + TWO_PARTS,
        TWO_PARTS.replace(b"\r\n", b"\n"),
        TWO_PARTS.replace(b"--B\r\n", b"--B \r\n"),
        TWO_PARTS.replace(b"--B\r\n", b"--BB\r\n"),
        TWO_PARTS[:-4],
        multipart(part(b"1", b'Content-Disposition: form-data; filename="f"')),
        multipart(part(b"1", b'Content-Disposition: attachment; name="a"')),
        multipart(part(b"1", NAME_A + b'; name="b"')),
        multipart(part(b"1", NAME_A + b"; size=3")),
        multipart(part(b"1", NAME_A, NAME_B)),
        multipart(part(b"1", NAME_A, PLAIN, PLAIN)),
        multipart(part(b"1", PLAIN)),
        multipart(part(b"1", NAME_A, b" folded: x")),
        multipart(part(b"1", NAME_A, b"X : y")),
        multipart(part(b"1", NAME_A, b"X: \x00")),
        multipart(part(b"1", NAME_A, b"X: a\nb")),
        multipart(part(b"1", b'Content-Disposition: form-data; name="a')),
        multipart(part(b"1")),
        multipart(b"no head"),
    ],
)
def test_what_is_not_strictly_multipart_is_compared_with_its_boundary(body: bytes) -> None:
    seen = canonical(body, MULTIPART)
    assert seen == framed(b"multipart bytes", MULTIPART, body)
    assert seen != canonical(body, b"multipart/form-data; boundary=C")


@pytest.mark.parametrize(
    "parameters", [b"", b'; boundary=""', b'; boundary="B "', b"; boundary=B|"]
)
def test_multipart_without_a_legal_boundary_is_compared_byte_by_byte(parameters: bytes) -> None:
    content_type = b"multipart/form-data" + parameters
    assert canonical(TWO_PARTS, content_type) == framed(b"multipart bytes", content_type, TWO_PARTS)


def test_taken_field_of_a_multipart_form_does_not_count_if_it_is_the_only_one() -> None:
    def seen(*parts: bytes) -> bytes:
        return canonical(multipart(*parts), MULTIPART, form=("a",))

    other = part(b"x", NAME_B)
    assert seen(part(b"1", NAME_A), other) == seen(other, part(b"2", NAME_A)) == seen(other)
    assert seen(part(b"1", FILE_A), other) != seen(part(b"2", FILE_A), other)
    twice = part(b"1", NAME_A)
    assert seen(twice, part(b"1", NAME_A), other) != seen(twice, part(b"2", NAME_A), other)


def test_a_long_head_of_spaces_is_read_in_linear_work() -> None:
    head = b"X:" + b" " * 300_000 + b"\x00"
    body = multipart(part(b"1", NAME_A, head))
    assert canonical(body, MULTIPART) == framed(b"multipart bytes", MULTIPART, body)


boundaries = st.sampled_from([b"B", b"CC", b"d-9"])
contents = st.sampled_from([b"", b"1", b"\r\n", b"--", b"\r\n--", b"\r\n\r\n", b"\xff"])
heads = st.sampled_from([(NAME_A,), (NAME_B,), (FILE_A,), (FILE_A, PLAIN)])
forms = st.lists(st.tuples(heads, contents), max_size=3)


@given(forms, forms, boundaries, boundaries)
def test_multipart_forms_are_one_exactly_if_their_parts_are(
    one: list[tuple[tuple[bytes, ...], bytes]],
    other: list[tuple[tuple[bytes, ...], bytes]],
    first: bytes,
    second: bytes,
) -> None:
    seen = [
        canonical(
            multipart(*(part(content, *lines) for lines, content in form), boundary=boundary),
            b"multipart/form-data; boundary=" + boundary,
        )
        for form, boundary in ((one, first), (other, second))
    ]
    assert (seen[0] == seen[1]) == (one == other)


# --- all kinds -----------------------------------------------------------------------------

TYPES = [None, b"text/plain", JSON, FORM, MULTIPART, b"multipart/form-data", b"application/a+json"]


@pytest.mark.parametrize("body", [b"{}", b"a=1", b"", TWO_PARTS])
def test_kinds_never_share_a_result(body: bytes) -> None:
    as_form = canonical(body, FORM)
    assert as_form not in {canonical(body, each) for each in TYPES if each != FORM}
    assert canonical(b"{}", JSON) != canonical(b"{}", b"text/plain")


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bodies_of_no_known_kind_are_one_exactly_if_their_bytes_are(
    one: bytes, other: bytes
) -> None:
    assert (canonical(one, None) == canonical(other, None)) == (one == other)


@given(st.lists(st.binary(max_size=9), max_size=4), st.lists(st.binary(max_size=9), max_size=4))
def test_framing_never_joins_two_sequences(one: list[bytes], other: list[bytes]) -> None:
    assert (framed(*one) == framed(*other)) == (one == other)


@given(
    st.binary(max_size=60) | st.text('{}[]":,a1\\&=+%;\r\n-B', max_size=40).map(str.encode),
    st.sampled_from(TYPES) | st.binary(max_size=40),
)
def test_any_body_of_any_type_is_compared_or_ambiguous_without_a_crash(
    body: bytes, content_type: bytes | None
) -> None:
    seen = canonical_body(
        body, content_type, ignore=("/a",), taken_json=("/b",), taken_form=("a", "\u00e9")
    )
    again = canonical_body(
        body, content_type, ignore=("/a",), taken_json=("/b",), taken_form=("a", "\u00e9")
    )
    assert seen == again
    if isinstance(seen, Ambiguous):
        with pytest.raises(ValueError, match="twice"):
            json.loads(body, object_pairs_hook=refuse_repeats)


def refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)
