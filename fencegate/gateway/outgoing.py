"""What goes upstream: the request as it came, without what was meant for us, and with its key
where and how the upstream wants it."""

from __future__ import annotations

from hashlib import sha256

from fencegate.core.bodies import framed
from fencegate.core.outcomes import Headers
from fencegate.core.reading import read_key
from fencegate.gateway.callers import Shown
from fencegate.gateway.protected import KEY, PROOF, plain
from fencegate.policy import Upstream

KEY_NAME = b"Idempotency-Key"


def forwarded_headers(
    headers: Headers, upstream: Upstream, shown: Shown, key: str | None
) -> Headers:
    """The headers for the upstream; `key` is None where none was asked for.

    An upstream that knows keys gets ours in one spelling, whichever the caller chose. Where callers
    are known nothing goes out under a name of a key but a digest of caller and key: what one caller
    sends can never be what another's key has become.
    """
    kept = tuple(h for h in shown.without_token(headers) if h[0].lower() != PROOF)
    name = upstream.key_header
    if shown.caller is None:
        if key is None or name is None:
            return kept
        return (*_without(kept, {name.lower()}), (name, _as_string(key)))
    names = {KEY, (name or KEY_NAME).lower()}
    spelt = {plain(name) for name in names}
    received = any(plain(field) in spelt for field, _ in kept)
    if key is not None and (name is not None or received):
        digest = key_of_caller(shown.caller, key.encode())
        return (*_without(kept, names), (name or KEY_NAME, digest))
    return tuple(
        (field, key_of_caller(shown.caller, value) if plain(field) in spelt else value)
        for field, value in kept
    )


def key_of_caller(caller: str, key: bytes) -> bytes:
    """What an upstream knows a caller's key by."""
    return sha256(framed(b"fencegate key 1", caller.encode(), key)).hexdigest().encode()


def _without(headers: Headers, names: set[bytes]) -> Headers:
    return tuple(header for header in headers if header[0].lower() not in names)


def _as_string(key: str) -> bytes:
    """A key as an RFC 8941 string, where it cannot be sent raw."""
    if isinstance(read_key([key.encode()]), str):
        return key.encode()
    return b'"' + key.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'
