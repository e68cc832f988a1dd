"""What of a policy file must not be shown, because it may be a secret.

Found line by line and without YAML, since a file that is broken is shown too. Where this cannot
be sure it hides more: a value that need not have been hidden costs a glance into the file.

Hidden is every value under `headers`, `token_sha256`, `fence_secret`, `tls.key`, under any key
that is named like a secret or like a header, and what stands in a URL before its `@` and after
its `?`. References, `${NAME}`, stay readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Span = tuple[int, int]  # from and to, within a line
Loc = tuple[str | int, ...]


def secrets_in(lines: Sequence[str]) -> list[list[Span]]:
    """What to hide in each line: spans in their order, none within another."""
    masking = _Masking()
    return [_joined([*masking.line(line), *_in_urls(line), *_in_riddles(line)]) for line in lines]


def is_secret(loc: Loc) -> bool:
    """Whether the value at `loc` may be one."""
    names = [step for step in loc if isinstance(step, str)]
    return any(_hides(name, names[:i]) for i, name in enumerate(names))


def without_secrets(text: str, written: object = None) -> str:
    """A message without the logins of URLs, and without any quoted part of `written`."""
    for start, end in reversed(_joined(list(_in_urls(text)))):
        text = f"{text[:start]}***{text[end:]}"
    for secret in _texts(written):
        if len(secret) > _SHORT:
            text = text.replace(secret, "***")
        for quoted in _QUOTED.findall(text):
            if len(quoted[1]) > _SHORT and quoted[1] in secret:
                text = text.replace("".join((*quoted, quoted[0])), f"{quoted[0]}***{quoted[0]}")
    return text


_SHORT = 3  # characters, which are part of any word
_QUOTED = re.compile(r"(['\"`])([^'\"`]+)\1")


def _texts(written: object) -> Iterator[str]:
    match written:
        case str() if written:
            yield from (t for t in _REFERENCE.split(written) if t and not _SCHEME.fullmatch(t))
        case list():
            for item in written:
                yield from _texts(item)
        case dict():
            for item in written.values():
                yield from _texts(item)
        case int() if not isinstance(written, bool):
            yield str(written)


# --- names ---------------------------------------------------------------------------------

_NAMED_SO = re.compile(
    "secret|token|passw|credential|auth|bearer|hmac|cookie|api[-_]?key|private[-_]?key",
    re.IGNORECASE,
)
# A header that has lost its way out of `headers`; settings have no capitals and no dashes.
_LIKE_A_HEADER = re.compile("(?=.*[A-Z]).*-|x-")


def _hides(name: str, above: Sequence[str]) -> bool:
    if name.lower() in ("headers", "header"):
        return "fingerprint" not in above  # which has names only
    if name == "key":
        return "tls" in above
    return bool(_NAMED_SO.search(name) or _LIKE_A_HEADER.match(name))


# --- lines ---------------------------------------------------------------------------------

_REFERENCE = re.compile(r"\$\{[^{}\s\"']*\}")
_LEAD = re.compile(r"[\s\ufeff]*(?:-\s+)*")
_KEY = re.compile(r"(['\"]?)([A-Za-z_][\w.-]*)\1\s*:")
_HEADER_KEY = re.compile(r"(['\"]?)[\w!#$%&*+.^|~-]+\1\s*:|[^:#{}\[\],]+:(?=\s|$)")
_TAB = 8  # a tab never ends a block that is hidden
_LONGEST = 4096  # a longer line is not looked into, and hidden like all that follows it


@dataclass(slots=True)
class _Block:
    """The lines under a key. `keys`: they are a table whose keys may be shown; `child` is where
    those stand. `names`: a list in it has no secrets."""

    column: int
    keys: bool
    names: bool
    child: int | None = None


@dataclass(slots=True)
class _Masking:
    """Goes through the lines; knows under which key a line stands, and which secret value has
    not ended with its line: in a quote, or `depth` brackets deep."""

    above: list[tuple[int, str]] = field(default_factory=list)
    block: _Block | None = None
    keys: bool = False
    depth: int = 0
    quote: str = ""

    def line(self, line: str) -> list[Span]:
        found: list[Span] = []
        at = 0
        if len(line) > _LONGEST:
            self.depth += 1
            return [(_indent(line), len(line))]
        if self.depth or self.quote:
            at = self._value(line, 0, found, flow=False)
        elif self.block and self._is_within(line, self.block):
            self._within(line, self.block, found)
            return found
        self._search(line, at, found)
        return found

    def _is_within(self, line: str, block: _Block) -> bool:
        text, column = line.strip(), _indent(line)
        if not text or column > block.column:
            return True
        if column == block.column and (text == "-" or text.startswith("- ")):
            return True
        if not text.startswith("#"):
            self.block = None
        return False

    def _within(self, line: str, block: _Block, found: list[Span]) -> None:
        lead = _LEAD.match(line)
        at = lead.end() if lead else 0
        if at == len(line):
            return
        if block.names and "-" in line[:at] and ":" not in line:
            return
        self.keys = block.keys
        block.child = at if block.child is None else block.child
        # What is indented deeper than the keys continues a value.
        key = _HEADER_KEY.match(line, at) if block.keys and at <= block.child else None
        self._value(line, key.end() if key else at, found, flow=False)

    def _search(self, line: str, at: int, found: list[Span]) -> None:
        """Looks for keys in a line that is no secret as a whole."""
        lead = _LEAD.match(line)
        first = lead.end() if lead and not at else -1
        above = self._above(line, first)
        same_line: list[tuple[int, str]] = []
        while key := _KEY.search(line, at):
            at, name = key.end(), key[2]
            opens = key.start() == first or line[: key.start()].rstrip()[-1:] in ("{", ",", "[")
            if not opens and line[at : at + 1].strip():
                continue  # `a:b` within a text
            held = [n for end, n in same_line if _is_open(line[end : key.start()])]
            same_line.append((at, name))
            if key.start() == first:
                self.above = [*above, (first, name)]
            names = [n for _, n in above] + held
            value = line[at:].lstrip()
            lists_names = "fingerprint" in names and name == "headers"
            if not _hides(name, names) and not (lists_names and value[:1] != "["):
                continue
            self.keys = name.lower() in ("headers", "header")
            if key.start() == first:
                self.block = _Block(first, self.keys, lists_names)
            at = self._value(line, at, found, flow=_is_open(line[: key.start()]))

    def _above(self, line: str, first: int) -> list[tuple[int, str]]:
        return [(column, name) for column, name in self.above if column < first]

    def _value(self, line: str, at: int, found: list[Span], *, flow: bool) -> int:
        """Hides a value that begins, or goes on, at `at`; returns where it ends."""
        start = at
        while at < len(line):
            c, fresh = line[at], not line[start:at].strip()
            if self.quote:
                at = self._to_quote(line, at)
            elif reference := _REFERENCE.match(line, at):
                at = reference.end()
            elif fresh and c in "'\"":
                self.quote, at = c, at + 1
            elif self._ends(c, flow=flow):
                found += _pieces(line, start, at)
                return at
            elif (fresh and c in "{[") or (self.depth and c in "}],"):
                found += _pieces(line, start, at)
                self.depth += (c in "{[") - (c in "}]")
                at = start = at + 1
            elif fresh and self.depth and self.keys and (key := _HEADER_KEY.match(line, at)):
                at = start = key.end()
            else:
                at += 1
        found += _pieces(line, start, at)
        return at

    def _ends(self, c: str, *, flow: bool) -> bool:
        return flow and not self.depth and c in "}],"

    def _to_quote(self, line: str, at: int) -> int:
        """Behind the quote that closes, or the end of the line."""
        while at < len(line):
            if line[at] == "\\" and self.quote == '"':
                at += 2
            elif line[at] != self.quote:
                at += 1
            elif self.quote == "'" and line[at + 1 : at + 2] == "'":
                at += 2
            else:
                self.quote = ""
                return at + 1
        return len(line)


def _indent(line: str) -> int:
    lead = line[: len(line) - len(line.lstrip())]
    return len(lead.replace("\t", " " * _TAB))


def _is_open(text: str) -> bool:
    """Whether a bracket of it is still open."""
    return sum(c in "{[" for c in text) > sum(c in "}]" for c in text)


def _pieces(line: str, start: int, end: int) -> Iterator[Span]:
    """A value without the references in it, and without space and quotes at its ends."""
    at = start
    for reference in _REFERENCE.finditer(line, start, end):
        yield from _trimmed(line, at, reference.start())
        at = reference.end()
    yield from _trimmed(line, at, end)


# The word before a credential is none.
_SCHEME = re.compile(r"[ \t\"']*(?:bearer|basic|token|digest)[ \t]+", re.IGNORECASE)


def _trimmed(line: str, start: int, end: int) -> Iterator[Span]:
    text = line[start:end]
    if _SCHEME.fullmatch(text):
        return
    start += len(text) - len(text.lstrip(" \t\"'"))
    end -= len(text) - len(text.rstrip(" \t\"'"))
    if start < end:
        yield start, end


# --- URLs ----------------------------------------------------------------------------------

_LOGIN = (re.compile(r"://(\S*)@"), re.compile(r"://([^#]*)@"))
_QUERY = re.compile(r"://[^\s?]*\?([^\"'`]+)")


def _in_urls(text: str) -> Iterator[Span]:
    for pattern in (*_LOGIN, _QUERY):
        for found in pattern.finditer(text):
            if _REFERENCE.sub("", found[1]).strip(":"):
                yield found.span(1)


# Keys in YAML's long form and names with escapes: what they say cannot be told line by line.
_RIDDLE = re.compile(r"""[\s\ufeff]*(?:-\s+)*[?:](?=\s|$)|[^"]*"[^"]*\\[xuUN]""")


def _in_riddles(line: str) -> Iterator[Span]:
    if _RIDDLE.match(line) and (text := line.strip()):
        start = line.index(text)
        yield start, start + len(text)


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
