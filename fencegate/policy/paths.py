"""Paths: their one reading, and the patterns of routes.

A path is split at its slashes before anything is decoded, and each segment is decoded once.
Where servers disagree on what a path names (dot segments, empty segments, `;`, a slash that is
encoded, ...) there is no one reading, and a guarded call must not be guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import category, normalize
from urllib.parse import unquote_to_bytes

from fencegate.core.reading import Malformed, decode_segment

# --- the reading of a path -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Path:
    """The segments after the first slash: as they came, and decoded once. The last one is
    empty where the path ends in a slash."""

    raw: tuple[bytes, ...]
    texts: tuple[str, ...]


def read_path(path: bytes) -> Path | Malformed:
    """The one reading of a raw path that begins with a slash, or what it has that allows more."""
    raw = tuple(path[1:].split(b"/"))
    if _PLAIN.fullmatch(path):
        return Path(raw, tuple(path[1:].decode().split("/")))
    texts = []
    for number, segment in enumerate(raw, start=1):
        text = _read_segment(segment, last=number == len(raw))
        if isinstance(text, Malformed):
            return text
        texts.append(text)
    return Path(raw, tuple(texts))


# Most paths: nothing to decode, no segment that begins with a dot, an empty one only at the end.
_PLAIN = re.compile(rb"(?:/[A-Za-z0-9_~:@=,-][A-Za-z0-9_~:@=,.-]*)+/?")


def guess_path(path: bytes) -> Path:
    """Some reading of any path, for routes that guard nothing and send the bytes as they came."""
    raw = tuple(path[1:].split(b"/"))
    return Path(raw, tuple(unquote_to_bytes(part).decode("utf-8", "replace") for part in raw))


# What some servers take for the end of a segment, of the path or of the text.
_SPLITTING = frozenset("/\\;?#")


def _read_segment(raw: bytes, *, last: bool) -> str | Malformed:
    if not raw:
        return "" if last else Malformed("an empty segment; send each slash once")
    text = decode_segment(raw)
    if isinstance(text, Malformed):
        return Malformed(f"a segment that is {text.expected}")
    if text in (".", ".."):
        return Malformed("a dot segment; send the path that it leads to")
    if split := _SPLITTING.intersection(text):
        return Malformed(f"`{min(split)}` in a segment; name it otherwise")
    if not text.isprintable() and any(category(c) == "Cc" for c in text):
        return Malformed("a control character in a segment; send plain text")
    return normalize("NFC", text)


# --- patterns ------------------------------------------------------------------------------

READS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Capture:
    """One segment, whatever it holds; `{name}` in the pattern."""

    name: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which methods (None: all `but` some, to the letter) and which paths a route takes.

    `rest`: one or more segments may follow, which is what `**` says.
    """

    text: str
    methods: frozenset[str] | None
    parts: tuple[str | Capture, ...]
    rest: bool
    but: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    @property
    def names(self) -> frozenset[str]:
        return frozenset(part.name for part in self.parts if isinstance(part, Capture))

    def takes(self, method: str) -> bool:
        """In any case, because a server might; who serves GET serves HEAD by the same code."""
        if self.methods is None:
            return method not in self.but
        name = method.upper()
        return name in self.methods or (name == "HEAD" and "GET" in self.methods)

    def match(self, path: Path) -> dict[str, bytes] | None:
        """The captured segments as they came, or None where the path is another."""
        count = len(self.parts)
        if len(path.raw) < count + self.rest or (len(path.raw) > count and not self.rest):
            return None
        captures: dict[str, bytes] = {}
        for part, raw, text in zip(self.parts, path.raw, path.texts, strict=False):
            if isinstance(part, str):
                if part != text:
                    return None
            elif not raw:
                return None
            else:
                captures[part.name] = raw
        return captures


def parse_pattern(written: str) -> Pattern:
    """Read `POST /v1/charges/{charge}/capture`; ValueError says what is wrong with it."""
    methods, space, path = written.partition(" ")
    if not space or " " in path:
        raise ValueError("a match is a method, one space and a path")
    if not path.startswith("/"):
        raise ValueError(f"the path `{path}` must begin with /")
    segments = path[1:].split("/")
    rest = segments[-1] == "**"
    parts = tuple(_part(segment) for segment in segments[: len(segments) - rest])
    if "" in parts[: len(parts) - (not rest)]:
        raise ValueError(f"the path `{path}` has an empty segment")
    names = [part.name for part in parts if isinstance(part, Capture)]
    if len(set(names)) < len(names):
        raise ValueError(f"the path `{path}` captures one name twice")
    return Pattern(written, _methods(methods), parts, rest)


_METHOD = re.compile(r"[A-Z][A-Z0-9-]*")
_CAPTURE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _methods(written: str) -> frozenset[str] | None:
    if written == "*":
        return None
    methods = written.split("|")
    for method in methods:
        if not _METHOD.fullmatch(method):
            raise ValueError(f"`{method}` is no method; write POST, POST|PUT or * for all")
    return frozenset(methods)


def _part(segment: str) -> str | Capture:
    if capture := _CAPTURE.fullmatch(segment):
        return Capture(capture[1])
    if "*" in segment:
        raise ValueError(f"`{segment}`: write {{name}} for one segment, ** at the end for the rest")
    if "{" in segment or "}" in segment:
        raise ValueError(f"`{segment}`: a capture is a whole segment, {{name}}")
    if "%" in segment:
        raise ValueError(f"`{segment}`: write the segment as it reads when decoded")
    match _read_segment(segment.encode(), last=True):
        case Malformed(expected=expected):
            raise ValueError(f"`{segment}` could never match, for it has {expected}")
        case text:
            return text
