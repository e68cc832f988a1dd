"""The values that stand in policy files: each reader takes what was written, or raises
ValueError saying what is wrong with it. A value that may be a credential is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from fencegate.core.model import FenceLead
from fencegate.core.reading import MAX_FENCE, Malformed
from fencegate.core.strict_json import steps
from fencegate.policy.paths import read_path
from fencegate.policy.sources import Source
from fencegate.policy.templates import Template, entity_template
from fencegate.policy.units import duration

W = TypeVar("W", bound=StrEnum)

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Url:
    """Where an upstream is. `base_path` ends without a slash."""

    scheme: str
    host: str
    port: int
    base_path: bytes


def read_url(written: str) -> Url:
    if not re.fullmatch(r"[\x21-\x7e]+", written):
        raise ValueError("a URL is printable ASCII without spaces")
    parts = urlsplit(written)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("a URL begins with http:// or https:// and names a host")
    if "@" in parts.netloc:
        raise ValueError("a URL has no user and no password here; set a header instead")
    if "?" in written or "#" in written:
        raise ValueError("a URL has no query and no fragment here")
    base_path = parts.path.rstrip("/")
    if base_path:
        _check_path(base_path)
    port = _port(written)
    return Url(parts.scheme, parts.hostname, port or PORTS[parts.scheme], base_path.encode())


def _port(url: str) -> int | None:
    try:
        port = urlsplit(url).port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("the port of a URL is a number from 1 to 65535")
    return port


def read_mount(written: str) -> str:
    if not re.fullmatch(r"/|(/[A-Za-z0-9._~-]+)+", written):
        raise ValueError(f"`{written}`: a mount is /word, or / for everything")
    if written.split("/")[1] == "_fencegate":
        raise ValueError("`/_fencegate` is the gateway's own")
    _check_path(written)
    return written


def _check_path(written: str) -> None:
    match read_path(written.encode()):
        case Malformed(expected=expected):
            raise ValueError(f"the path has {expected}")


NAME = "^[a-z0-9][a-z0-9_-]{0,62}$"


def read_name(written: str) -> str:
    if not re.fullmatch(NAME, written):
        raise ValueError(f"`{written}`: a name is at most 63 of a-z, 0-9, - and _")
    return written


def shown(written: object) -> str:
    """What was read, as it would be written: a truth in small letters, and of a text that looks
    like another thing that it is one."""
    if isinstance(written, bool):
        return "`true`" if written else "`false`"
    if isinstance(written, str) and re.fullmatch(
        r"0[0-7]+|[0-9]+(:[0-9]+)+|yes|no|on|off", written
    ):
        return f"`{written}` is read as a text, and"
    return f"`{written}`"


def one_of(written: object, words: tuple[W, ...]) -> W:
    """The word that was written; another one is met with the nearest."""
    for word in words:
        if word == written:
            return word
    near = get_close_matches(str(written), words, n=1)
    meant = f"; did you mean `{near[0]}`?" if near else ""
    raise ValueError(f"`{written}` is none of {', '.join(words)}{meant}")


def read_lead(written: object) -> FenceLead | Literal["off"]:
    """`clock+1d`, a number of fences, or `off`."""
    match written:
        case "off":
            return "off"
        case str() if written.startswith("clock+"):
            return FenceLead(duration(written.removeprefix("clock+")), clock=True)
        case int() if 1 <= written <= MAX_FENCE and written is not True:
            return FenceLead(written)
    raise ValueError(
        f"{shown(written)} is no lead: clock+1d, a number from 1 to {MAX_FENCE}, or off"
    )


MOST = 100_000  # more resends, calls at once or connections than any upstream bears


def read_count(written: object) -> int:
    if isinstance(written, int) and not isinstance(written, bool) and 0 <= written <= MOST:
        return written
    raise ValueError(f"{shown(written)} is no number from 0 to {MOST}")


def read_calls(written: object) -> int:
    if isinstance(written, int) and not isinstance(written, bool) and 1 <= written <= MOST:
        return written
    raise ValueError(f"{shown(written)} is no number from 1 to {MOST}")


def read_one_status(written: object) -> int:
    if isinstance(written, int) and not isinstance(written, bool) and 200 <= written <= 599:
        return written
    raise ValueError(f"{shown(written)} is no status from 200 to 599")


def read_status(written: object) -> frozenset[int]:
    """`503`, or `5xx` for all of them."""
    match written:
        case int() if 200 <= written <= 599:
            return frozenset({written})
        case str() if re.fullmatch("[2-5]xx", written):
            first = int(written[0]) * 100
            return frozenset(range(first, first + 100))
    raise ValueError(f"{shown(written)} is no status from 200 to 599, nor 5xx for all of them")


def read_refused_status(written: object) -> frozenset[int]:
    statuses = read_status(written)
    if min(statuses) < 400:
        raise ValueError(f"`{written}` says that work was done; a refusal is 4xx or 5xx")
    return statuses


def read_pointer(written: str) -> str:
    if not steps(written):
        raise ValueError("the whole body cannot be left out; point at a place in it")
    return written


def read_json_value(written: object) -> str:
    """What a JSON value reads as: a text as it is, a number and a truth as JSON spells them."""
    match written:
        case bool():
            return "true" if written else "false"
        case int() | str():
            return str(written)
    raise ValueError("must be a text, a whole number, true or false")


def read_digest(written: str) -> bytes:
    """The SHA-256 digest of a token, in hex; nothing of what was written is shown."""
    if not re.fullmatch(r"[0-9a-f]{64}", written):
        raise ValueError("a token stands here as its SHA-256 digest, 64 of 0-9 and a-f")
    return bytes.fromhex(written)


def read_target(written: str) -> Template:
    """The target of a probe, filled in with parts of the path only."""
    if not written.startswith("/"):
        raise ValueError(f"`{written}` must begin with /")
    template = entity_template(written)
    if any(hole.source is not Source.PATH for hole in template.placeholders):
        raise ValueError(f"`{written}`: a probe knows of a call only its path: {{path.x}}")
    return template


def read_file(written: str) -> str:
    if not written or "\0" in written:
        raise ValueError("must be the path of a file")
    return written


TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# A later holder comes with a higher fence, and its retry must still be the same request.
_CHANGING = {"x-execution-fence", "x-execution-holder"}


def read_header_name(written: str) -> str:
    if not TOKEN.fullmatch(written):
        raise ValueError(f"`{written}` is no name of a header")
    if written.lower() in _CHANGING:
        raise ValueError(f"`{written}` differs between the tries of one call; it cannot count")
    return written.lower()


def read_key_header(written: str) -> str:
    if not TOKEN.fullmatch(written):
        raise ValueError(f"`{written}` is no name of a header")
    if written.lower() in OURS - {"idempotency-key"} or written.lower().startswith("fencegate-"):
        raise ValueError(f"`{written}` has another meaning; name the header for the key")
    return written


# Set by whoever writes the message, or read by the gateway itself.
OURS = frozenset({
    "connection", "content-length", "expect", "host", "http2-settings", "idempotency-key",
    "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    "x-execution-fence", "x-execution-fence-proof", "x-execution-holder", "x-fence-domain",
})  # fmt: skip
