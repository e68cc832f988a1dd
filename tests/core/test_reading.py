"""What is read as a fence, a key, an entity and a path segment, and what is refused as none."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencegate.core.reading import (
    MAX_FENCE,
    Malformed,
    decode_segment,
    fence_of_text,
    key_of_text,
    read_fence,
    read_key,
    spell_entity,
)

# --- fences --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "fence"),
    [
        (b"1", 1),
        (b"42", 42),
        (b" \t42 ", 42),
        (b"9007199254740993", 9007199254740993),
        (b"9223372036854775807", MAX_FENCE),
    ],
)
def test_plain_decimal_number_is_a_fence(value: bytes, fence: int) -> None:
    assert read_fence([value]) == fence


def test_no_line_is_no_fence_and_no_error() -> None:
    assert read_fence([]) is None


@pytest.mark.parametrize(
    "value",
    [
        b"+42",
        b"-1",
        b"042",
        b"4_2",
        b"42.0",
        b"4e1",
        b"0x2a",
        b"",
        b" ",
        b'"42"',
        b"42;x",
        b"42, 41",
        b"4 2",
        b"0",
        b"00",
        b"42\n",
        b"\x0b42",
        b"42\x00",
        b"\xa042",
        "\u0664\u0662".encode(),
        b"\xb2",
        b"9223372036854775808",
        b"18446744073709551616",
        b"1" + b"0" * 399,
        b"9" * 5_000,
        b"9" * 10_000_000,
    ],
    ids=lambda value: repr(value[:24]),
)
def test_anything_but_one_plain_decimal_number_in_range_is_malformed(value: bytes) -> None:
    assert isinstance(read_fence([value]), Malformed)


@pytest.mark.parametrize("lines", [[b"5", b"9"], [b"5", b"5"], [b"", b"5"]])
def test_fence_sent_on_two_lines_is_malformed_even_if_equal(lines: list[bytes]) -> None:
    assert read_fence(lines) == Malformed("sent more than once; send it once")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"", "empty"),
        (b"42, 41", "a list"),
        (b"042", "written with a leading zero"),
        (b"0", "zero"),
        (b"9223372036854775808", "too large"),
        (b"-777", "not made of digits only"),
    ],
)
def test_malformed_fence_says_its_kind_and_what_to_send(value: bytes, kind: str) -> None:
    expected = f"{kind}; send a decimal number from 1 to 9223372036854775807"
    assert read_fence([value]) == Malformed(expected)


@pytest.mark.parametrize(
    "text", [" 42", "42 ", "\u0664\u0662", "4\u0662", "4\u00b2", "\uff14\uff12", ""]
)
def test_fence_text_of_another_source_is_not_trimmed_or_converted(text: str) -> None:
    assert isinstance(fence_of_text(text), Malformed)


@given(st.integers(1, MAX_FENCE))
def test_every_fence_in_range_is_read_exactly(fence: int) -> None:
    assert read_fence([str(fence).encode()]) == fence


@given(st.text() | st.from_regex(r"[+-]?[0-9_.eE]{0,25}", fullmatch=True))
def test_a_fence_has_exactly_one_spelling(text: str) -> None:
    fence = fence_of_text(text)
    assert isinstance(fence, Malformed) or str(fence) == text


# --- keys ----------------------------------------------------------------------------------

ODD_KEY = ("payment:8812/{capture}" * 12)[:255]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"k1", "k1"),
        (b'"k1"', "k1"),
        (b' \t"k1" ', "k1"),
        (b"k", "k"),
        (b"k" * 255, "k" * 255),
        (b'"' + b"k" * 255 + b'"', "k" * 255),
        (ODD_KEY.encode(), ODD_KEY),
        (b"!#$%&'()*+-./:;<=>?@[]^_`{|}~", "!#$%&'()*+-./:;<=>?@[]^_`{|}~"),
        (b'"a b"', "a b"),
        (b'" a"', " a"),
        (b'"a,b"', "a,b"),
        (rb'"a\"b\\c"', r'a"b\c'),
        (rb'"\\\""', '\\"'),
        (b'"' + rb"\\" * 255 + b'"', "\\" * 255),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_raw_text_and_quoted_string_are_read_as_one_key(value: bytes, key: str) -> None:
    assert read_key([value]) == key


def test_no_line_is_no_key_and_no_error() -> None:
    assert read_key([]) is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"   ",
        b"\t",
        b'""',
        b'"   "',
        b"k" * 256,
        b"k" * 100_000,
        b'"' + b"k" * 256 + b'"',
        b"k1, k2",
        b"k1,k2",
        b'"k1", "k2"',
        b"k 1",
        b'k"1',
        b"k\\1",
        b'"k1',
        b'k1"',
        b'"',
        b'"k"1"',
        b'"k1";p=1',
        b'"k1" x',
        rb'"k\1"',
        rb'"k1\"',
        b"k\x001",
        b'"k\t1"',
        b"k\x7f",
        b"k\n",
        b"cl\xe9",
        "cl\u00e9".encode(),
        b'"\xff"',
    ],
    ids=lambda value: repr(value[:24]),
)
def test_blank_endless_odd_or_listed_key_is_malformed(value: bytes) -> None:
    assert isinstance(read_key([value]), Malformed)


@pytest.mark.parametrize("lines", [[b"k1", b"k2"], [b"k1", b"k1"], [b"k1", b""]])
def test_key_sent_on_two_lines_is_malformed(lines: list[bytes]) -> None:
    assert read_key(lines) == Malformed("sent more than once; send it once")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"", "empty;"),
        (b'""', "empty;"),
        (b'"  "', "blank;"),
        (b"k1, k2", "a list or a text with a comma;"),
        (b"k" * 256, "too long;"),
        (b"\xff", "not printable ASCII;"),
        (b'"k1', "not one complete quoted string"),
        (b"k 1", "a text with a space, quote or backslash;"),
    ],
)
def test_malformed_key_says_its_kind(value: bytes, kind: str) -> None:
    seen = read_key([value])
    assert isinstance(seen, Malformed)
    assert seen.expected.startswith(kind)
    assert "send 1 to 255 printable ASCII characters" in seen.expected


def test_key_text_of_another_source_is_read_by_the_same_rule_untrimmed() -> None:
    assert key_of_text("k1") == key_of_text('"k1"') == "k1"
    assert isinstance(key_of_text(" k1"), Malformed)
    assert isinstance(key_of_text("k1 k2"), Malformed)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=255))
def test_every_printable_text_that_is_not_blank_is_a_key_when_quoted(text: str) -> None:
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    seen = read_key([quoted.encode()])
    assert seen == text if text.strip() else isinstance(seen, Malformed)


@given(st.lists(st.binary(max_size=300), max_size=3))
def test_any_bytes_are_read_or_refused_without_a_crash(lines: list[bytes]) -> None:
    key = read_key(lines)
    if isinstance(key, str):
        assert 1 <= len(key) <= 255
        assert key.isascii()
        assert key.isprintable()
    assert isinstance(read_fence(lines), int | Malformed | None)


@given(st.from_regex(r"9[0-9]{20,40}|\"secret[a-z]+|secret [a-z]+,", fullmatch=True))
def test_what_is_malformed_is_described_without_its_value(text: str) -> None:
    for seen in (fence_of_text(text), key_of_text(text)):
        if isinstance(seen, Malformed):
            assert "secret" not in seen.expected
            assert text not in seen.expected


# --- entities ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("invoice:8812", "invoice:8812"),
        ("Invoice:8812", "Invoice:8812"),
        ("caf\u00e9", "caf\u00e9"),
        ("cafe\u0301", "caf\u00e9"),
        ("\u212b", "\u00c5"),
        ("a b", "a b"),
        ("\u4e2d\u6587", "\u4e2d\u6587"),
        ("x" * 256, "x" * 256),
        ("\u00e9" * 128, "\u00e9" * 128),
        ("e\u0301" * 128, "\u00e9" * 128),
        ("\U0001f600", "\U0001f600"),
        ("\u0378", "\u0378"),
    ],
    ids=lambda value: ascii(value[:24]),
)
def test_equivalent_texts_are_one_spelling_and_case_is_kept(value: str, name: str) -> None:
    assert spell_entity(value) == name


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        " a",
        "a ",
        "a\u00a0",
        "\u3000a",
        "a\x00",
        "a\tb",
        "a\nb",
        "a\x7f",
        "a\x85b",
        "a\u200bb",
        "a\u00adb",
        "\ufeffa",
        "a\u202eb",
        "a\u2028b",
        "a\u2029b",
        "a\ud800",
        "\u0301a",
        "\u0338a",
        "x" * 257,
        "\u00e9" * 129,
        "e\u0301" * 129,
        "e" + "\u0301" * 5_000,
        "x" * 1_000_000,
    ],
    ids=lambda value: ascii(value[:24]),
)
def test_what_cannot_be_one_spelling_is_refused(value: str) -> None:
    assert isinstance(spell_entity(value), Malformed)


def test_length_counts_in_the_composed_form() -> None:
    longest = normalize("NFD", "\u1f82" * 85)
    assert len(longest) == 340
    assert spell_entity(longest) == "\u1f82" * 85


@given(st.text(max_size=300))
def test_a_spelling_is_its_own_spelling_and_that_of_every_equivalent_text(value: str) -> None:
    name = spell_entity(value)
    if isinstance(name, str):
        assert spell_entity(name) == name
        assert spell_entity(normalize("NFD", value)) == name
        assert 1 <= len(name.encode()) <= 256


@given(st.text(min_size=1, max_size=20), st.sampled_from(["=", "<", ">", ":", "a"]))
def test_a_value_never_melts_into_the_literal_before_it(value: str, literal: str) -> None:
    name = spell_entity(value)
    if isinstance(name, str) and not "\u1160" <= name[0] <= "\u11ff":
        assert normalize("NFC", literal + name) == literal + name


# --- paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"88", "88"),
        (b"%38%38", "88"),
        (b"a%2Fb", "a/b"),
        (b"a%2fb", "a/b"),
        (b"%2541", "%41"),
        (b"a+b", "a+b"),
        (b"caf%C3%A9", "caf\u00e9"),
        ("caf\u00e9".encode(), "caf\u00e9"),
        (b"%00", "\x00"),
        (b"", ""),
    ],
)
def test_segment_is_decoded_exactly_once(raw: bytes, text: str) -> None:
    assert decode_segment(raw) == text


@pytest.mark.parametrize(
    "raw",
    [
        b"%",
        b"a%",
        b"%4",
        b"%4g",
        b"%%41",
        b"%u0041",
        b"% 41",
        b"%+1",
        b"%FF",
        b"\xff",
        b"%C3",
        b"%C0%AF",
        b"%ED%A0%80",
    ],
)
def test_broken_escape_or_other_than_utf8_is_malformed(raw: bytes) -> None:
    assert isinstance(decode_segment(raw), Malformed)


@given(st.binary(max_size=100))
def test_any_segment_is_decoded_or_refused_without_a_crash(raw: bytes) -> None:
    text = decode_segment(raw)
    if b"%" not in raw and isinstance(text, str):
        assert text.encode() == raw
