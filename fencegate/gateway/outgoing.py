"""What goes upstream: the request as it came, without what was meant for us, and with its key
where and how the upstream wants it."""

from __future__ import annotations

from hashlib import sha256

from fencegate.core.bodies import framed
from fencegate.core.outcomes import Headers
from fencegate.core.reading import read_key
from fencegate.gateway.callers import Shown
from fencegate.gateway.protected import KEY, PROOF
from fencegate.policy import Upstream

KEY_NAME = b"Idempotency-Key"


def forwarded_headers(
    headers: Headers, upstream: Upstream, shown: Shown, key: str | None, *, made: bool
) -> Headers:
    """The headers for the upstream. `made`: the key is not as it stands in Idempotency-Key."""
    plain = tuple(h for h in shown.without_token(headers) if h[0].lower() != PROOF)
    received = [value for name, value in plain if name.lower() == KEY]
    name = upstream.key_header or KEY_NAME
    if shown.caller is None:
        as_received = not made and name.lower() == KEY
        if key is None or upstream.key_header is None or as_received:
            return plain
        return _with(plain, name, _as_string(key), without={name.lower()})
    if key is None and not received:
        return plain
    if upstream.key_header is None and not received:
        return plain
    text = b",".join(received) if key is None else key.encode()
    return _with(plain, name, key_of_caller(shown.caller, text), without={KEY, name.lower()})


def key_of_caller(caller: str, key: bytes) -> bytes:
    """What an upstream knows a caller's key by: two callers never meet in its memory."""
    return sha256(framed(b"fencegate key 1", caller.encode(), key)).hexdigest().encode()


def _with(headers: Headers, name: bytes, value: bytes, *, without: set[bytes]) -> Headers:
    kept = tuple(header for header in headers if header[0].lower() not in without)
    return (*kept, (name, value))


def _as_string(key: str) -> bytes:
    """A key as an RFC 8941 string, where it cannot be sent raw."""
    if isinstance(read_key([key.encode()]), str):
        return key.encode()
    return b'"' + key.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'
