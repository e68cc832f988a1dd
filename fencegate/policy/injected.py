"""What is filled in from outside: `${NAME}` from the environment, `${file:/path}` from a file.

What comes from outside is a secret: no message and no repr shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fencegate.policy.values import OURS, TOKEN

_REFERENCE = re.compile(r"\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SHORTEST_SECRET = 16  # characters; what is shorter can be guessed


class Unset(ValueError):
    """A reference that cannot be filled in. `at` is where in the text it begins."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.at = at


@dataclass(frozen=True, slots=True)
class Outside:
    """The environment and the files. `pretend`: what is not there is taken to be there, so that
    policies can be checked where their secrets are not."""

    environ: Mapping[str, str] = field(repr=False)
    pretend: bool = False
    _read: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def afresh(self) -> Outside:
        """The same, with every file still to be read: once, however many settings name it."""
        return Outside(self.environ, self.pretend)

    def fill(self, written: str) -> str:
        """The text with its references filled in. Raises `Unset`."""
        return _REFERENCE.sub(self._value, written)

    def _value(self, reference: re.Match[str]) -> str:
        name, at = reference[1], reference.start()
        if not reference[0].endswith("}"):
            raise Unset("`${` begins a reference and is not closed: ${NAME}, ${file:/path}", at)
        if name.startswith("file:"):
            return self._file(name.removeprefix("file:"), at)
        if not _VARIABLE.fullmatch(name):
            raise Unset("a variable is ${NAME}, of letters, digits and _, or ${file:/path}", at)
        if value := self.environ.get(name):
            return value
        if self.pretend:
            return _PRETENDED
        state = "empty" if name in self.environ else "not set"
        raise Unset(f"the environment variable {name} is {state}", at)

    def _file(self, path: str, at: int) -> str:
        if path not in self._read:
            self._read[path] = self._contents(path, at)
        return self._read[path]

    def _contents(self, path: str, at: int) -> str:
        if not path.startswith("/"):
            raise Unset(f"`{path}`: write the whole path of the file, from /", at)
        try:
            value = Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise Unset(f"the file {path} is not UTF-8 text", at) from None
        except OSError as error:
            if self.pretend:
                return _PRETENDED
            raise Unset(f"the file {path} cannot be read: {error.strerror}", at) from None
        if not value:
            raise Unset(f"the file {path} is empty", at)
        return value


_PRETENDED = "x" * SHORTEST_SECRET


def wrong_name(name: str) -> str | None:
    """What is wrong with the name of a header that is set; None if nothing is."""
    if not TOKEN.fullmatch(name):
        return f"`{name}` is no name of a header"
    if name.lower() in OURS or name.lower().startswith("fencegate-"):
        return f"`{name}` cannot be set here: the gateway writes or reads it itself"
    return None


def fill_header(name: str, written: str, outside: Outside) -> tuple[bytes, bytes]:
    """A header line with its value filled in; ValueError says what is wrong, never the value."""
    value = outside.fill(written)
    if not re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value):
        raise ValueError(
            f"the value of `{name}` must be printable ASCII, not empty and without space at its"
            f" ends{_advice(written)}"
        )
    return name.encode(), value.encode()


def fill_secret(written: str, outside: Outside) -> bytes:
    """A secret of at least 16 characters, which must not stand in the file itself."""
    if not _REFERENCE.search(written):
        raise ValueError("a secret does not stand in a policy; name it: ${NAME} or ${file:/path}")
    secret = outside.fill(written).encode()
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"the secret is shorter than {SHORTEST_SECRET} bytes")
    return secret


def _advice(written: str) -> str:
    return "; look for a line break in what is filled in" if "${" in written else ""
