"""When a retry is a retry: which changes of a request change which part of its identity."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencegate.core.bodies import Ambiguous
from fencegate.core.fingerprint import PARTS, Fingerprint, Request, Scheme, fingerprint

JSON = (b"Content-Type", b"application/json")
TRANSFER = Request(
    "POST",
    b"/v1/transfers?to=alice&cur=eur",
    ((b"Host", b"api.example"), JSON, (b"Stripe-Version", b"2024-06-20")),
    b'{"amount":100}',
)
SCHEME = Scheme(headers=("Stripe-Version",))


def printed(
    request: Request = TRANSFER, entity: str = "acct:1", scheme: Scheme = SCHEME
) -> Fingerprint:
    seen = fingerprint(request, entity, scheme)
    assert isinstance(seen, Fingerprint)
    return seen


def with_headers(*headers: tuple[bytes, bytes]) -> Request:
    return replace(TRANSFER, headers=headers)


# --- the parts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "entity", "parts"),
    [
        (replace(TRANSFER, method="PUT"), "acct:1", ("method",)),
        (replace(TRANSFER, method="post"), "acct:1", ("method",)),
        (replace(TRANSFER, target=b"/v1/transfer?to=alice&cur=eur"), "acct:1", ("path",)),
        (replace(TRANSFER, target=b"/v1/transfers/?to=alice&cur=eur"), "acct:1", ("path",)),
        (replace(TRANSFER, target=b"/v1/%74ransfers?to=alice&cur=eur"), "acct:1", ("path",)),
        (replace(TRANSFER, target=b"/v1/transfers?to=mallory&cur=eur"), "acct:1", ("query",)),
        (replace(TRANSFER, target=TRANSFER.target + b"&dry=1"), "acct:1", ("query",)),
        (replace(TRANSFER, target=b"/v1/transfers"), "acct:1", ("query",)),
        (TRANSFER, "acct:2", ("entity",)),
        (replace(TRANSFER, body=b'{"amount":101}'), "acct:1", ("body",)),
        (replace(TRANSFER, body=b""), "acct:1", ("body",)),
        (
            replace(TRANSFER, method="PUT", body=b"{}", target=b"/?x"),
            "acct:2",
            ("method", "path", "query", "entity", "body"),
        ),
    ],
)
def test_the_part_that_differs_is_named(
    request_: Request, entity: str, parts: tuple[str, ...]
) -> None:
    assert printed().differs_from(printed(request_, entity)) == parts
    assert printed().digest != printed(request_, entity).digest


@pytest.mark.parametrize(
    "retry",
    [
        TRANSFER,
        replace(TRANSFER, target=b"/v1/transfers?cur=eur&to=alice"),
        replace(TRANSFER, body=b' { "amount" : 100 } '),
        replace(TRANSFER, headers=(*TRANSFER.headers, (b"X-Execution-Fence", b"43"))),
        replace(TRANSFER, headers=(*TRANSFER.headers, (b"Authorization", b"Bearer new"))),
        replace(TRANSFER, headers=tuple((name.upper(), v) for name, v in TRANSFER.headers)),
        replace(TRANSFER, headers=TRANSFER.headers[::-1]),
    ],
)
def test_honest_retry_has_the_same_fingerprint(retry: Request) -> None:
    assert printed().differs_from(printed(retry)) == ()
    assert printed() == printed(retry)
    assert printed().digest == printed(retry).digest


HEADERS_THAT_DIFFER = [
    (),
    ((b"Stripe-Version", b""),),
    ((b"Stripe-Version", b"a"),),
    ((b"Stripe-Version", b"a"), (b"Stripe-Version", b"b")),
    ((b"Stripe-Version", b"b"), (b"Stripe-Version", b"a")),
    ((b"Stripe-Version", b"a, b"),),
    ((b"Stripe-Account", b"a"),),
    ((b"Stripe-Account", b"a"), (b"Stripe-Version", b"a")),
]


def test_listed_headers_count_by_presence_name_and_every_value_in_order() -> None:
    scheme = Scheme(headers=("Stripe-Version", "stripe-account"))
    seen = [printed(with_headers(*each), scheme=scheme) for each in HEADERS_THAT_DIFFER]
    assert len(set(seen)) == len(seen)
    assert seen[0].differs_from(seen[1]) == ("headers",)


TYPES_THAT_DIFFER = [
    (),
    ((b"Content-Type", b""),),
    ((b"Content-Type", b"text/plain"),),
    ((b"Content-Type", b"text/plain; charset=utf-8"),),
    ((b"Content-Type", b"text/plain, text/plain"),),
    ((b"Content-Type", b"text/plain"), (b"Content-Type", b"text/html")),
    ((b"Content-Type", b"text/html"), (b"Content-Type", b"text/plain")),
]


def test_media_type_counts_by_presence_and_by_every_line() -> None:
    seen = [printed(with_headers(*each)) for each in TYPES_THAT_DIFFER]
    assert len(set(seen)) == len(seen)
    assert all(seen[0].differs_from(other) == ("media_type",) for other in seen[1:])


def test_spelling_of_a_media_type_and_its_other_parameters_do_not_count() -> None:
    one = printed(with_headers((b"content-type", b"Text/Plain;charset=UTF-8; format=flowed")))
    assert one == printed(with_headers((b"Content-Type", b'text/plain; charset="utf-8"')))


def test_body_under_two_content_types_is_compared_byte_by_byte() -> None:
    one = replace(with_headers(JSON, JSON), body=b'{"a":1,"b":2}')
    other = replace(one, body=b'{"b":2,"a":1}')
    assert printed(one).differs_from(printed(other)) == ("body",)


def test_target_without_a_query_and_with_an_empty_one_differ() -> None:
    one, other = (printed(replace(TRANSFER, target=target)) for target in (b"/x", b"/x?"))
    assert one.differs_from(other) == ("query",)


def test_ambiguous_body_has_no_fingerprint() -> None:
    request = replace(TRANSFER, body=b'{"amount":1,"amount":1}')
    assert isinstance(fingerprint(request, "acct:1", SCHEME), Ambiguous)


# --- what a route takes --------------------------------------------------------------------


def test_taken_and_ignored_places_do_not_count() -> None:
    scheme = Scheme(
        ignore=("/trace",),
        taken=("json:/execution_fence", "query:key", "path:1"),
    )
    one = Request("POST", b"/charges/k1/capture?key=a&x=1", (JSON,), b'{"execution_fence":1}')
    retry = replace(
        one, target=b"/charges/k2/capture?x=1&key=b", body=b'{"execution_fence":2,"trace":9}'
    )
    assert printed(one, scheme=scheme) == printed(retry, scheme=scheme)
    assert printed(one, scheme=Scheme()).differs_from(printed(retry, scheme=Scheme())) == (
        "path",
        "query",
        "body",
    )


def test_taken_form_field_does_not_count() -> None:
    scheme = Scheme(taken=("form:metadata[fence]",))
    form = ((b"content-type", b"application/x-www-form-urlencoded"),)
    one = Request("POST", b"/charges", form, b"amount=1&metadata[fence]=41")
    retry = replace(one, body=b"metadata%5Bfence%5D=42&amount=1")
    assert printed(one, scheme=scheme) == printed(retry, scheme=scheme)
    other = replace(one, body=b"amount=2&metadata[fence]=41")
    assert printed(one, scheme=scheme).differs_from(printed(other, scheme=scheme)) == ("body",)


PATHS_THAT_DIFFER = [b"/a/x", b"/a", b"/a/x/", b"/a/x/b", b"/a/x/c", b"/b/x", b"/", b"", b"c/a/x"]


def test_taken_segment_leaves_its_place_in_the_path() -> None:
    scheme = Scheme(taken=("path:1",))
    seen = [
        printed(replace(TRANSFER, target=target), scheme=scheme) for target in PATHS_THAT_DIFFER
    ]
    assert len(set(seen)) == len(seen)
    other = printed(replace(TRANSFER, target=b"/a/y/b"), scheme=scheme)
    assert other == seen[PATHS_THAT_DIFFER.index(b"/a/x/b")]


# --- schemes -------------------------------------------------------------------------------


def test_schemes_that_mean_the_same_are_equal() -> None:
    one = Scheme(ignore=("/b", "/a"), headers=("Stripe-Version", "A"), taken=("query:k", "path:0"))
    other = Scheme(
        ignore=("/a", "/b", "/a"),
        headers=("a", "stripe-version", "STRIPE-VERSION"),
        taken=("path:0", "query:k"),
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one.to_text() == other.to_text()


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (Scheme(), '{"version":1}'),
        (
            Scheme(ignore=("/\u00e9",), headers=("Stripe-Account",), taken=("json:/a", "path:0")),
            '{"version":1,"ignore":["/\\u00e9"],"headers":["stripe-account"],'
            '"taken":["json:/a","path:0"]}',
        ),
        (Scheme(version=2, taken=("cookie:x",)), '{"version":2,"taken":["cookie:x"]}'),
    ],
)
def test_scheme_is_kept_as_text_and_read_back(scheme: Scheme, text: str) -> None:
    assert scheme.to_text() == text
    assert Scheme.from_text(text) == scheme


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version":"1"}',
        '{"version":true}',
        '{"version":1,"cookies":[]}',
        '{"version":1,"ignore":"/a"}',
        '{"version":1,"ignore":[1]}',
        '{"version":1,"ignore":["a"]}',
        '{"version":1,"taken":["cookie:x"]}',
    ],
)
def test_text_that_is_no_scheme_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Scheme.from_text(text)


@pytest.mark.parametrize(
    "taken",
    ["", "json", "json:", "json:a", "form:", "query:", "path:", "path:-1", "path:01", "path:x"]
    + ["path:\u0661", "path:999999", "header:x", "Query:x"],
)
def test_place_that_cannot_be_is_an_error_of_the_policy(taken: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Scheme(taken=(taken,))


@pytest.mark.parametrize("ignore", ["", "a", "/~2"])
def test_ignored_place_must_be_a_pointer_into_the_document(ignore: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Scheme(ignore=(ignore,))


def test_unknown_version_is_kept_but_not_computed() -> None:
    newer = Scheme.from_text('{"version":2}')
    with pytest.raises(ValueError, match="version 2 is not known"):
        fingerprint(TRANSFER, "acct:1", newer)


def test_fingerprints_under_different_schemes_are_never_compared() -> None:
    other = printed(scheme=Scheme(ignore=("/trace",)))
    with pytest.raises(ValueError, match="different schemes"):
        printed().differs_from(other)
    assert printed().digest != other.digest


# --- format and looks ----------------------------------------------------------------------


def test_every_part_is_a_digest_of_its_own() -> None:
    empty = printed(Request("", b"", (), b""), "", Scheme())
    assert len(empty.parts) == len(PARTS)
    assert {len(part) for part in empty.parts} == {32}
    assert len(set(empty.parts)) == len(PARTS)


def test_format_of_a_fingerprint_never_changes_within_a_version() -> None:
    scheme = Scheme(
        ignore=("/trace",), headers=("Stripe-Version",), taken=("json:/execution_fence", "path:1")
    )
    request = Request(
        "POST",
        b"/v1/k-17/transfers?to=alice&cur=eur",
        ((b"Content-Type", b"application/json; charset=utf-8"), (b"stripe-version", b"2024")),
        b'{"execution_fence":42,"amount":1.50,"to":["\\u00e9",null]}',
    )
    seen = printed(request, "acct:1", scheme)
    assert dict(zip(PARTS, (part.hex() for part in seen.parts), strict=True)) == GOLDEN_PARTS
    assert seen.digest.hex() == GOLDEN


GOLDEN_PARTS = {
    "method": "43f0bea5cc2478fd6a336e6d1855eb28626d77db112efdffde39b1123af38131",
    "path": "d33cf6a324bc5e936c55dd74343c8103d625b766dfed54ed14ca07df919de714",
    "query": "ca778a393b6ae9d258ec5bee0f397b9adc8c1dc1178c21f9fb0c73ddc0abef97",
    "entity": "2983ce5a7e4fbefb8a4343c99e708fced45a64c0e22960d4190cd911c0a0768c",
    "media_type": "f36aa0bde29f489cc264f23358f2439a8bf07acb2a9786af175679635a28b448",
    "headers": "834f7a421aee4e6ebf901b3f2f4486b735de460789a0e0e893221ca9510e270b",
    "body": "3f3a55007e038313ba3fa3183978e0f6ff801e5fbbc9d190d0d09527aa09417d",
}
GOLDEN = "241f218fb487a2b83ff2816fc56044ee7bd3433eef9f8cd922ab436077b809c7"


def test_looks_show_no_header_value_query_or_body() -> None:
    request = Request("POST", b"/a\xff?secret", ((b"x", b"secret"),), b"secret")
    assert repr(request) == r"Request(POST /a\xff, 1 headers, 6 bytes)"
    seen = printed()
    assert repr(seen) == f"Fingerprint(v1 {seen.digest.hex()[:12]})"


@given(
    st.binary(max_size=30),
    st.lists(st.tuples(st.sampled_from([b"Content-Type", b"x"]), st.binary(max_size=20))),
    st.binary(max_size=30),
)
def test_any_bytes_have_a_fingerprint_that_their_change_changes(
    target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    scheme = Scheme(ignore=("/a",), headers=("x",), taken=("query:a", "path:0", "form:b"))
    request = Request("POST", target, tuple(headers), body)
    assert printed(request, scheme=scheme) == printed(request, scheme=scheme)
    changed = replace(request, body=body + b"!")
    assert "body" in printed(request, scheme=scheme).differs_from(printed(changed, scheme=scheme))
