"""The intent of a call: the same effect asked for under the same fence, whatever its key."""

from __future__ import annotations

from hashlib import sha256

from fencegate.core.model import Call


def intent_of(call: Call) -> bytes:
    """SHA-256 over domain, entity, fence, upstream, caller and fingerprint, length-framed."""
    fields = (
        call.entity.domain.encode(),
        call.entity.name.encode(),
        str(call.fence).encode(),
        call.upstream.encode(),
        b"" if call.caller is None else b"=" + call.caller.encode(),
        call.prints[0].digest,
    )
    framed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return sha256(b"fencegate intent 1" + framed).digest()
