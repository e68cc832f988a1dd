"""Templates: what is read out of a request, and what is refused rather than guessed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencegate.core.fingerprint import Request
from fencegate.core.reading import Malformed
from fencegate.policy.sources import Absent, Placeholder, Seen, Source
from fencegate.policy.templates import (
    Reading,
    Template,
    entity_template,
    fence_template,
    key_template,
    never_agree,
)

JSON = (b"Content-Type", b"application/json")
FORM = b"application/x-www-form-urlencoded"
OTHER = "sent under another spelling of its name; send it as the route has it"


def request(target: bytes = b"/", *headers: tuple[bytes, bytes], body: bytes = b"") -> Request:
    return Request("POST", target, headers, body)


def asking(query: bytes) -> Request:
    return request(b"/charges?" + query)


def holding(body: bytes, content_type: bytes = b"application/json") -> Request:
    return request(b"/", (b"Content-Type", content_type), body=body)


def rendered(
    template: Template, seen: Request | None = None, **captures: bytes
) -> str | Malformed | Absent:
    return template.render(Seen(seen or request(), captures))


def entity(text: str, seen: Request | None = None, **captures: bytes) -> str:
    read = rendered(entity_template(text), seen, **captures)
    assert isinstance(read, str), read
    return read


def refusal(template: Template, seen: Request | None = None, **captures: bytes) -> str:
    read = rendered(template, seen, **captures)
    if isinstance(read, Absent):
        return f"{template.text} is missing; send it"
    assert isinstance(read, Malformed), read
    return read.expected


# --- paths ---------------------------------------------------------------------------------


def test_path_value_is_percent_decoded_exactly_once() -> None:
    assert entity("charge:{path.x}", x=b"ch%5F1") == "charge:ch_1"
    assert entity("charge:{path.x}", x=b"ch%255F1") == "charge:ch%5F1"


def test_plus_in_a_path_is_a_plus() -> None:
    assert entity("charge:{path.x}", x=b"a+b") == "charge:a+b"


def test_two_unicode_forms_in_a_path_are_one_entity() -> None:
    assert entity("{path.x}", x=b"caf%C3%A9") == entity("{path.x}", x=b"cafe%CC%81") == "café"


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        (b"88%20", "{path.x} is a name with white space at an end"),
        (b"88%00", "{path.x} is a name with control or invisible characters"),
        (b"%zz", "{path.x} is a % without two hex digits"),
        (b"%ff", "{path.x} is not UTF-8"),
        (b"a" * 257, "{path.x} is too long"),
    ],
)
def test_path_value_that_is_no_one_spelling_is_refused(raw: bytes, wrong: str) -> None:
    assert refusal(entity_template("charge:{path.x}"), x=raw).startswith(wrong)


def test_whole_entity_that_is_too_long_is_refused_though_its_value_is_not() -> None:
    template = entity_template("charge:{path.x}")
    assert refusal(template, x=b"a" * 256).startswith("charge:{path.x} is too long")


# --- queries -------------------------------------------------------------------------------


def test_query_value_is_decoded_once_and_found_by_its_decoded_name() -> None:
    assert entity("{query.invoice}", asking(b"a=1&invoice=88%2F12")) == "88/12"
    assert entity("{query.meta[invoice]}", asking(b"meta%5Binvoice%5D=88")) == "88"


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        (b"", "missing; send it"),
        (b"Invoice=1", OTHER),
        (b"invoice=1&Invoice=2", "sent more than once; send it once"),
        (b"invoice=1&invoice=1", "sent more than once; send it once"),
        (b"invoice=1&inv%6Fice=2", "sent more than once; send it once"),
        (b"invoice=1&a=2;invoice=3", "in a query with `;`; send %3B"),
        (b"invoice=a+b", "written with `+`; send %20 for a space and %2B for a plus sign"),
        (b"invoice=", "empty; name an entity"),
        (b"invoice", "empty; name an entity"),
        (b"invoice=%2", "a % without two hex digits; send %25 for a percent sign"),
    ],
)
def test_query_value_that_is_not_there_exactly_once_is_refused(query: bytes, wrong: str) -> None:
    assert refusal(entity_template("{query.invoice}"), asking(query)) == (
        f"{{query.invoice}} is {wrong}"
    )


# --- headers -------------------------------------------------------------------------------


def test_header_is_found_in_any_case_and_space_around_it_does_not_count() -> None:
    assert entity("i:{header.X-Invoice}", request(b"/", (b"x-INVOICE", b" 88\t"))) == "i:88"


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ([], "missing; send it"),
        ([b"1", b"1"], "sent more than once; send it once"),
        ([b"1, 2"], "a list or a text with a comma; send one value"),
        ([b"\xe9"], "not UTF-8; send UTF-8"),
        ([b""], "empty; name an entity"),
    ],
)
def test_header_that_is_not_there_exactly_once_is_refused(values: list[bytes], wrong: str) -> None:
    seen = request(b"/", *((b"X-Invoice", value) for value in values))
    assert (
        refusal(entity_template("{header.x-invoice}"), seen) == f"{{header.x-invoice}} is {wrong}"
    )


# --- JSON ----------------------------------------------------------------------------------


def test_json_text_and_whole_number_are_one_entity() -> None:
    as_text = entity("invoice:{json./invoice}", holding(b'{"invoice": "8812"}'))
    as_number = entity("invoice:{json./invoice}", holding(b'{"invoice": 8812}'))
    assert as_text == as_number == "invoice:8812"


def test_json_number_beyond_a_double_keeps_its_digits() -> None:
    assert entity("{json./id}", holding(b'{"id": 9007199254740993}')) == "9007199254740993"


def test_json_pointer_leads_into_lists_and_escaped_names() -> None:
    body = b'{"a/b": [{"id": "x"}, {"id": "y"}]}'
    assert entity("{json./a~1b/1/id}", holding(body)) == "y"


def test_json_is_read_under_any_json_media_type() -> None:
    for content_type in (b"Application/JSON; charset=UTF-8", b"application/vnd.api+json"):
        assert entity("{json./id}", holding(b'{"id": "x"}', content_type)) == "x"


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b'{"id": 1.0}', "a number that can be written in several ways; send a text"),
        (b'{"id": 1e3}', "a number that can be written in several ways; send a text"),
        (b'{"id": -0}', "a number that can be written in several ways; send a text"),
        (b'{"id": true}', "neither a text nor a whole number; send one of them"),
        (b'{"id": null}', "missing; send it"),
        (b'{"id": ["x"]}', "neither a text nor a whole number; send one of them"),
        (b'{"id": ""}', "empty; name an entity"),
        (b'{"id": " x"}', "a name with white space at an end; send it without"),
        (b'{"id": "\\ud800"}', "a name with control or invisible characters; send plain text"),
        (b'{"Id": "x"}', OTHER),
        (
            b'{"id": "x", "ID": "y"}',
            "sent more than once, in names that differ in case; send it once",
        ),
        (
            b'{"id": "x", "id": "x"}',
            "in a body where a member name stands twice; send each name once",
        ),
        (
            b'{"id": "x", "a": {"b": 1, "b": 2}}',
            "in a body where a member name stands twice; send each name once",
        ),
        (b'{"id": "x"', "in a body that is not JSON; send one JSON text in UTF-8"),
        (b"[" * 200 + b"]" * 200, "in a body that is nested too deep; send it flatter"),
    ],
)
def test_json_value_that_is_no_one_name_is_refused(body: bytes, wrong: str) -> None:
    assert refusal(entity_template("{json./id}"), holding(body)) == f"{{json./id}} is {wrong}"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [JSON, JSON],
        [(b"Content-Type", b"text/plain")],
        [(b"Content-Type", b"application/json; charset=utf-16")],
    ],
)
def test_body_that_others_may_read_as_no_json_is_not_read(
    headers: list[tuple[bytes, bytes]],
) -> None:
    seen = request(b"/", *headers, body=b'{"id": "x"}')
    assert "does not say it is JSON" in refusal(entity_template("{json./id}"), seen)


# --- several values ------------------------------------------------------------------------


def test_value_that_holds_the_literal_after_it_is_refused() -> None:
    template = entity_template("{path.a}:{path.b}")
    assert rendered(template, a=b"x", b=b"y:z") == "x:y:z"
    assert refusal(template, a=b"x:y", b=b"z").startswith("{path.a} is a text that holds")
    assert refusal(template, a=b"x%3Ay", b=b"z").startswith("{path.a} is a text that holds")


def test_value_that_runs_into_the_literal_after_it_is_refused() -> None:
    template = entity_template("{path.a}--{path.b}")
    assert rendered(template, a=b"1", b=b"-2") == "1---2"
    assert refusal(template, a=b"1-", b=b"2").startswith("{path.a} is a text that holds or runs")


def test_one_value_alone_may_hold_the_literal_after_it() -> None:
    assert entity("{path.a}/draft", a=b"x%2Fdraft") == "x/draft/draft"


VALUES = st.text(alphabet=":-ab\u0301", min_size=1, max_size=4)


@given(
    text=st.sampled_from(["{query.a}:{query.b}", "{query.a}--{query.b}", "{query.a}-:{query.b}-"]),
    one=st.tuples(VALUES, VALUES),
    other=st.tuples(VALUES, VALUES),
)
def test_two_pairs_of_values_never_make_one_entity(
    text: str, one: tuple[str, str], other: tuple[str, str]
) -> None:
    def render(a: str, b: str) -> str | Malformed | Absent:
        query = "a=" + "".join(f"%{byte:02x}" for byte in a.encode())
        query += "&b=" + "".join(f"%{byte:02x}" for byte in b.encode())
        return rendered(entity_template(text), asking(query.encode()))

    first, second = render(*one), render(*other)
    if isinstance(first, str) and isinstance(second, str) and first == second:
        assert [spelt(v) for v in one] == [spelt(v) for v in other]


def spelt(value: str) -> str | Malformed | Absent:
    return rendered(entity_template("{header.v}"), request(b"/", (b"v", value.encode())))


# --- keys ----------------------------------------------------------------------------------


def test_key_is_made_of_values() -> None:
    template = key_template("payment:{path.invoice}:{json./step}")
    assert rendered(template, holding(b'{"step": 3}'), invoice=b"88") == "payment:88:3"


def test_whole_key_reads_both_written_forms_as_one() -> None:
    template = key_template("{header.x-request-id}")
    raw = rendered(template, request(b"/", (b"X-Request-Id", b"k1")))
    quoted = rendered(template, request(b"/", (b"X-Request-Id", b'"k1"')))
    assert raw == quoted == "k1"


def test_values_that_would_quote_a_key_together_are_refused() -> None:
    template = key_template("{json./a}:{json./b}")
    seen = holding(b'{"a": "\\"x", "b": "y\\""}')
    assert "is changed by its values" in refusal(template, seen)


def test_value_that_cannot_stand_in_a_key_is_refused() -> None:
    assert "not printable ASCII" in refusal(key_template("k:{path.x}"), x=b"%C3%A9")
    assert "with a comma" in refusal(key_template("k:{path.x}"), x=b"a,b")


def test_whole_value_of_a_bare_template_is_known_with_its_place() -> None:
    assert key_template("{header.X-Id}").whole == Placeholder(Source.HEADER, "x-id")
    assert key_template("{json./a/b}").whole == Placeholder(Source.JSON, "/a/b")
    assert key_template("k:{json./a}").whole is None
    assert key_template("{path.a}:{path.b}").whole is None


# --- compiling -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{path.a}{path.b}", "has nothing between two placeholders to tell them apart"),
        (
            "x:{mcp.a}",
            "`{mcp.a}`: a value comes from one of path, query, header, json, form, caller",
        ),
        ("x:{caller.a}", "`a` is no place in caller"),
        ("x:{form.}", "`` is no place in form"),
        ("x:{}", "`{}`: a value comes from one of path, query, header, json"),
        ("x:{path}", "`{path}`: `` is no place in path"),
        ("x:{path.a-b}", "`a-b` is no place in path"),
        ("x:{header.a b}", "`a b` is no place in header"),
        ("x:{json.a}", "`a` is no place in json"),
        ("x:{json./~2}", "'/~2' is not a JSON pointer"),
        ("x:{path.a", "has a brace without its other half"),
        ("x:path.a}", "has a brace without its other half"),
        ("", "can only make what is empty"),
        (" x:{path.a}", "can only make what is a name with white space at an end"),
        ("cafe\u0301:{path.a}", "has quotes or characters that would be changed"),
    ],
)
def test_entity_template_that_cannot_be_read_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        entity_template(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("constant", "`constant` has no placeholder, so that all calls would share one key"),
        ("a b:{path.a}", "can only make what is a text with a space"),
        ('"{path.a}"', "has quotes or characters that would be changed"),
    ],
)
def test_key_template_that_makes_no_key_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        key_template(text)


def test_entity_without_placeholder_is_one_entity_for_all() -> None:
    assert entity("ledger") == "ledger"


# --- forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"metadata[invoice]=8812&amount=2", "8812"),
        (b"metadata%5Binvoice%5D=8812", "8812"),
        (b"metadata[invoice]=88+12", "88 12"),
        (b"metadata[invoice]=caf%C3%A9", "caf\u00e9"),
    ],
)
def test_form_field_is_decoded_once_and_found_by_its_decoded_name(body: bytes, value: str) -> None:
    assert entity("{form.metadata[invoice]}", holding(body, FORM)) == value


@pytest.mark.parametrize(
    ("body", "content_type", "wrong"),
    [
        (b"", FORM, "missing; send it"),
        (b"b=1", FORM, "missing; send it"),
        (b"a=1&a=1", FORM, "sent more than once; send it once"),
        (b"a=1&A=2", FORM, "sent more than once; send it once"),
        (b"a=1&a[]=2", FORM, "sent more than once; send it once"),
        (b"A=1", FORM, OTHER),
        (b"a=1;b=2", FORM, "in a form with `;`; send %3B"),
        (b"a=%ff", FORM, "not UTF-8; percent-encode the UTF-8 bytes of the text"),
        (b"a=1", b"text/plain", "in a body that is no form; send its Content-Type"),
        (b"a=1", FORM + b"; charset=latin-1", "in a body that is no form; send its Content-Type"),
    ],
)
def test_form_field_that_is_not_there_once_is_refused(
    body: bytes, content_type: bytes, wrong: str
) -> None:
    seen = holding(body, content_type)
    assert refusal(entity_template("{form.a}"), seen) == f"{{form.a}} is {wrong}"


def test_field_of_a_multipart_form_is_read() -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb c\r\n--x--\r\n'
    assert entity("{form.a}", holding(body, b"multipart/form-data; boundary=x")) == "b c"


# --- callers -------------------------------------------------------------------------------


def test_caller_is_a_value_where_it_is_known() -> None:
    template = entity_template("{caller}:{path.x}")
    assert template.render(Seen(request(), {"x": b"1"}, "billing")) == "billing:1"
    assert template.render(Seen(request(), {"x": b"1"}, None)) == Absent()


# --- fences --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["1", "42", "9223372036854775807"])
def test_fence_in_a_body_is_a_whole_number(number: str) -> None:
    template = fence_template("{json./execution_fence}")
    assert rendered(template, holding(b'{"execution_fence": %s}' % number.encode())) == number


@pytest.mark.parametrize(
    "number", ['"42"', "42.0", "4.2e1", "0", "-1", "18446744073709551616", "true", "[42]"]
)
def test_what_is_no_plain_whole_number_is_no_fence(number: str) -> None:
    template = fence_template("{json./execution_fence}")
    seen = holding(b'{"execution_fence": %s}' % number.encode())
    assert isinstance(rendered(template, seen), Malformed)


@pytest.mark.parametrize("text", ["42", "f:{path.x}", "{path.x}{path.y}", "{caller}", ""])
def test_fence_is_one_value_and_nothing_else(text: str) -> None:
    with pytest.raises(ValueError, match="`"):
        fence_template(text)


# --- several sources -----------------------------------------------------------------------

BOTH = Reading(
    (fence_template("{header.x-execution-fence}"), fence_template("{json./execution_fence}"))
)


def with_fences(header: bytes | None, body: bytes | None) -> Seen:
    lines = [JSON] if header is None else [JSON, (b"X-Execution-Fence", header)]
    text = b"{}" if body is None else b'{"execution_fence": %s}' % body
    return Seen(request(b"/", *lines, body=text), {})


@pytest.mark.parametrize(
    ("header", "body"), [(b"42", b"42"), (b"42", None), (None, b"42"), (b" 42 ", b"42")]
)
def test_sources_that_are_present_agree(header: bytes | None, body: bytes | None) -> None:
    assert BOTH.read(with_fences(header, body)) == "42"


def test_sources_that_disagree_are_refused() -> None:
    read = BOTH.read(with_fences(b"42", b"41"))
    assert isinstance(read, Malformed)
    assert "disagree; send one value" in read.expected
    assert "41" not in read.expected


@pytest.mark.parametrize(("header", "body"), [(b"42", b"4.2e1"), (b"042", b"42")])
def test_one_malformed_source_spoils_the_others(header: bytes, body: bytes) -> None:
    assert isinstance(BOTH.read(with_fences(header, body)), Malformed)


def test_no_source_is_absent() -> None:
    assert BOTH.read(with_fences(None, None)) == Absent()


@pytest.mark.parametrize(
    ("one", "other", "never"),
    [
        ("source:{path.a}", "target:{json./b}", True),
        ("{path.a}:x", "{json./b}:y", True),
        ("item:{path.a}", "item:{json./b}", False),
        ("{path.a}", "item:{json./b}", False),
    ],
)
def test_places_of_two_values_never_agree(one: str, other: str, never: bool) -> None:
    assert never_agree(entity_template(one), entity_template(other)) is never
