"""The law of reading: what is not exactly one fence, one key or one name is no fence, key or name.

Each reader takes bytes or text from outside and returns the value, or `Malformed`. Nothing is
cut, guessed or converted on the way: two readers of one request must not see two values. The
one exception is an entity's Unicode form, which is made one spelling because callers cannot see
the difference. Work is linear in the input, and no number is computed from a long text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category, normalize
from urllib.parse import unquote_to_bytes

MAX_FENCE = 2**63 - 1  # the largest whole number that every ledger stores exactly
MAX_KEY_CHARS = 255
MAX_ENTITY_BYTES = 256


@dataclass(frozen=True, slots=True)
class Malformed:
    """What was seen, in kind and never in value, and what to send instead."""

    expected: str


# --- fences --------------------------------------------------------------------------------

_FENCE = re.compile(r"[1-9][0-9]{0,18}")
_DIGITS = re.compile(r"[0-9]+")
_SEND_FENCE = f"send a decimal number from 1 to {MAX_FENCE}"


def read_fence(lines: Sequence[bytes]) -> int | Malformed | None:
    """The fence of a header field, given the values of all its lines; None if there is no line.

    One line; white space around the value (RFC 9110 section 5.5) does not count.
    """
    value = _only_line(lines)
    return fence_of_text(value) if isinstance(value, str) else value


def fence_of_text(text: str) -> int | Malformed:
    """The fence that a text spells: 1 .. 2^63-1 in ASCII digits, no sign, no leading zero.

    White space is not trimmed. A caller that reads JSON passes the text of an integer literal.
    """
    if _FENCE.fullmatch(text) and (fence := int(text)) <= MAX_FENCE:
        return fence
    return Malformed(f"{_kind_of_bad_fence(text)}; {_SEND_FENCE}")


def _kind_of_bad_fence(text: str) -> str:
    if not text:
        return "empty"
    if "," in text:
        return "a list"
    if not _DIGITS.fullmatch(text):
        return "not made of digits only"
    if text == "0":
        return "zero"
    if text[0] == "0":
        return "written with a leading zero"
    return "too large"


# --- keys ----------------------------------------------------------------------------------

_RAW_KEY = re.compile(r"[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]{1,255}")
_QUOTED_KEY = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,255})"')
_ESCAPED = re.compile(r'\\(["\\])')
_SEND_KEY = (
    f"send 1 to {MAX_KEY_CHARS} printable ASCII characters without space, comma, quote and"
    " backslash, or one quoted string"
)


def read_key(lines: Sequence[bytes]) -> str | Malformed | None:
    """The idempotency key of a header field, given all its lines; None if there is no line.

    One line, raw or as one RFC 8941 section 3.3.3 string without parameters; see `key_of_text`.
    """
    value = _only_line(lines)
    return key_of_text(value) if isinstance(value, str) else value


def key_of_text(text: str) -> str | Malformed:
    """The key that a text spells; `k1` and `"k1"` are one key.

    A quoted key may hold space, comma, quote and backslash: it is a legal key that has no raw
    form, so who sends it on must quote it. A key of spaces only is refused: clients that fail to
    fill theirs in would all share it. White space around the text is not trimmed.
    """
    if _RAW_KEY.fullmatch(text):
        return text
    quoted = _QUOTED_KEY.fullmatch(text)
    if quoted is None:
        return Malformed(f"{_kind_of_bad_key(text)}; {_SEND_KEY}")
    key = _ESCAPED.sub(r"\1", quoted[1])
    return Malformed(f"blank; {_SEND_KEY}") if key.isspace() else key


def _kind_of_bad_key(text: str) -> str:
    if not text or text == '""':
        return "empty"
    if not (text.isascii() and text.isprintable()):
        return "not printable ASCII"
    if text[0] == '"':
        return "not one complete quoted string of at most 255 characters"
    if "," in text:
        return "a list or a text with a comma"
    if len(text) > MAX_KEY_CHARS:
        return "too long"
    return "a text with a space, quote or backslash"


def _only_line(lines: Sequence[bytes]) -> str | Malformed | None:
    if not lines:
        return None
    if len(lines) > 1:
        return Malformed("sent more than once; send it once")
    # Latin-1 takes every byte; the grammars are ASCII and refuse the rest.
    return lines[0].strip(b" \t").decode("latin-1")


# --- entities ------------------------------------------------------------------------------

# Controls, format characters (invisible), line and paragraph separators, lone surrogates.
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
# No character decomposes to more than four, so no longer text composes to 256 bytes or fewer.
_LONGEST_SPELLING = 4 * MAX_ENTITY_BYTES


def spell_entity(value: str) -> str | Malformed:
    """The one spelling of an entity, or of one value that a template puts into it.

    Unicode NFC (UAX #15); case is kept. Refused: the empty text, control and invisible
    characters, white space at the ends, more than 256 bytes of UTF-8, and a combining mark at
    the start, which would melt into the literal before it when a template is filled in.
    """
    if not value:
        return Malformed("empty; name an entity")
    if len(value) > _LONGEST_SPELLING:
        return _too_long()
    name = value if value.isascii() else normalize("NFC", value)
    if not (name.isascii() and name.isprintable()) and _has_unseen(name):
        return Malformed("a name with control or invisible characters; send plain text")
    if name != name.strip():
        return Malformed("a name with white space at an end; send it without")
    if category(name[0]).startswith("M"):
        return Malformed("a name that begins with a combining mark; begin with a character")
    return name if len(name.encode()) <= MAX_ENTITY_BYTES else _too_long()


def _has_unseen(name: str) -> bool:
    return any(category(character) in _UNSEEN for character in name)


def _too_long() -> Malformed:
    return Malformed(f"too long; send at most {MAX_ENTITY_BYTES} bytes of UTF-8")


# --- domains -------------------------------------------------------------------------------

_DOMAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def domain_of_text(text: str) -> str | Malformed:
    """The name of a fence domain. It has no colon: names that have one are the gateway's own."""
    if _DOMAIN.fullmatch(text):
        return text
    return Malformed("no name; send at most 63 letters, digits, `.`, - and _")


def read_domain(lines: Sequence[bytes]) -> str | Malformed | None:
    """The fence domain of a header field, given all its lines; None if there is no line."""
    value = _only_line(lines)
    return domain_of_text(value) if isinstance(value, str) else value


# --- paths ---------------------------------------------------------------------------------

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def decode_segment(raw: bytes) -> str | Malformed:
    """A path segment percent-decoded exactly once (RFC 3986 section 2.4) and read as UTF-8.

    What the text may hold (slashes, dots, controls) is for the caller to judge.
    """
    if _BROKEN_ESCAPE.search(raw):
        return Malformed("a % without two hex digits; send %25 for a percent sign")
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return Malformed("not UTF-8; percent-encode the UTF-8 bytes of the text")
