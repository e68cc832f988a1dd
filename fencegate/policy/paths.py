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
    empty where the path ends in a slash.

    `encoded_slash`: what a segment has that a receiver may take for two, to be allowed or refused
    by the route.
    """

    raw: tuple[bytes, ...]
    texts: tuple[str, ...]
    encoded_slash: Malformed | None = None


def read_path(path: bytes) -> Path | Malformed:
    """The one reading of a raw path that begins with a slash, or what it has that allows more.

    Slashes that are encoded do not split; whether they may be there is for the route to say.
    """
    raw = tuple(path[1:].split(b"/"))
    if _PLAIN.fullmatch(path):
        return Path(raw, tuple(path[1:].decode().split("/")))
    texts = []
    for number, segment in enumerate(raw, start=1):
        text = _read_segment(segment, last=number == len(raw))
        if isinstance(text, Malformed):
            return text
        texts.append(text)
    slashes = any("/" in text for text in texts)
    return Path(raw, tuple(texts), _ENCODED_SLASH if slashes else None)


_ENCODED_SLASH = Malformed("`/` in a segment; name it otherwise")

# Most paths: nothing to decode, no segment that begins with a dot, an empty one only at the end.
_PLAIN = re.compile(rb"(?:/[A-Za-z0-9_~:@=,-][A-Za-z0-9_~:@=,.-]*)+/?")


def guess_path(path: bytes) -> Path:
    """Some reading of any path, for routes that guard nothing and send the bytes as they came."""
    raw = tuple(path[1:].split(b"/"))
    return Path(raw, tuple(unquote_to_bytes(part).decode("utf-8", "replace") for part in raw))


# What some servers take for the end of a segment, of the path or of the text.
_SPLITTING = frozenset("\\;?#")


def _read_segment(raw: bytes, *, last: bool) -> str | Malformed:
    if not raw:
        return "" if last else Malformed("an empty segment; send each slash once")
    text = decode_segment(raw)
    if isinstance(text, Malformed):
        return Malformed(f"a segment that is {text.expected}")
    parts = text.split("/")
    if not {".", ".."}.isdisjoint(parts):
        return Malformed("a dot segment; send the path that it leads to")
    if "" in parts:  # made by %2F at an end of the segment, or by two of them
        return Malformed("an empty segment; send each slash once")
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

    `rest`: one or more segments may follow, which is what `**` says; `{name...}` captures them.
    """

    text: str
    methods: frozenset[str] | None
    parts: tuple[str | Capture, ...]
    rest: bool
    but: frozenset[str] = frozenset()
    rest_name: str | None = None

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    @property
    def names(self) -> frozenset[str]:
        captured = {part.name for part in self.parts if isinstance(part, Capture)}
        return frozenset(captured | ({self.rest_name} if self.rest_name else set()))

    def takes(self, method: str) -> bool:
        """In any case, because a server might; who serves GET serves HEAD by the same code."""
        if self.methods is None:
            return method not in self.but
        name = method.upper()
        return name in self.methods or (name == "HEAD" and "GET" in self.methods)

    def covers(self, other: Pattern) -> bool:
        """Does it take every request that the other one takes?"""
        return self._covers_methods(other) and self._covers_paths(other)

    def meets(self, other: Pattern) -> bool:
        """Is there a request that both may take?"""
        short, long = sorted((self, other), key=lambda pattern: len(pattern.parts))
        if len(short.parts) < len(long.parts) and not short.rest:
            return False
        if len(short.parts) == len(long.parts) and short.rest is not long.rest:
            return False
        pairs = zip(short.parts, long.parts, strict=False)
        return self._meets_methods(other) and all(_meet(one, two) for one, two in pairs)

    def _covers_methods(self, other: Pattern) -> bool:
        if self.methods is None:
            if other.methods is None:
                return self.but <= other.but
            return not self.but & other.methods
        return other.methods is not None and all(self.takes(name) for name in other.methods)

    def _meets_methods(self, other: Pattern) -> bool:
        if self.methods is not None:
            return any(other.takes(name) for name in self.methods)
        return other.methods is None or any(self.takes(name) for name in other.methods)

    def _covers_paths(self, other: Pattern) -> bool:
        mine, theirs = len(self.parts), len(other.parts)
        if not self.rest and (other.rest or mine != theirs):
            return False
        if self.rest and theirs < mine + (not other.rest):
            return False
        return all(_cover(one, two) for one, two in zip(self.parts, other.parts, strict=False))

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
        if self.rest_name is not None:
            captures[self.rest_name] = b"/".join(path.raw[count:])
        return captures


def _cover(one: str | Capture, other: str | Capture) -> bool:
    """A capture takes every segment but the empty one behind a last slash."""
    return other != "" if isinstance(one, Capture) else one == other


def _meet(one: str | Capture, other: str | Capture) -> bool:
    return _cover(one, other) or _cover(other, one)


def parse_pattern(written: str) -> Pattern:
    """Read `POST /v1/charges/{charge}/capture`; ValueError says what is wrong with it."""
    methods, space, path = written.partition(" ")
    if not space or " " in path:
        raise ValueError("a match is a method, one space and a path")
    if not path.startswith("/"):
        raise ValueError(f"the path `{path}` must begin with /")
    segments = path[1:].split("/")
    named = _REST.fullmatch(segments[-1])
    rest = segments[-1] == "**" or named is not None
    parts = tuple(_part(segment) for segment in segments[: len(segments) - rest])
    if "" in parts[: len(parts) - (not rest)]:
        raise ValueError(f"the path `{path}` has an empty segment")
    names = [part.name for part in parts if isinstance(part, Capture)]
    names += [named[1]] if named else []
    if len(set(names)) < len(names):
        raise ValueError(f"the path `{path}` captures one name twice")
    return Pattern(written, _methods(methods), parts, rest, rest_name=named[1] if named else None)


_METHOD = re.compile(r"[A-Z][A-Z0-9-]*")
_REST = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\.\.\.\}")
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
        raise ValueError(
            f"`{segment}`: write {{name}} for one segment, and at the end ** or {{name...}} for"
            " the rest"
        )
    if "{" in segment or "}" in segment:
        raise ValueError(
            f"`{segment}`: a capture is a whole segment, {{name}}, or at the end {{name...}}"
        )
    if "%" in segment:
        raise ValueError(f"`{segment}`: write the segment as it reads when decoded")
    match _read_segment(segment.encode(), last=True):
        case Malformed(expected=expected):
            raise ValueError(f"`{segment}` could never match, for it has {expected}")
        case text:
            return text
