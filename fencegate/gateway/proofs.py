"""Proofs of fences: an issuer that shares a secret with the gateway signs what it hands out.

`X-Execution-Fence-Proof` is the HMAC-SHA256, in hex, of domain, entity and fence, one a line, in
UTF-8: `printf '%s\\n%s\\n%s' "$DOMAIN" "$ENTITY" "$FENCE" | openssl dgst -sha256 -hmac "$SECRET"`.
None of the three can hold a line break.
"""

from __future__ import annotations

import hmac

from fencegate.core.model import EntityId


def proof_of(secret: bytes, entity: EntityId, fence: int) -> str:
    """What the issuer of a fence sends along with it."""
    signed = f"{entity.domain}\n{entity.name}\n{fence}".encode()
    return hmac.new(secret, signed, "sha256").hexdigest()


def proven(secret: bytes | None, lines: list[bytes], entity: EntityId, fence: int) -> bool:
    """Is the fence signed, where it must be? Compared in constant time."""
    if secret is None:
        return True
    if len(lines) != 1:
        return False
    return hmac.compare_digest(
        lines[0].strip(b" \t").lower(), proof_of(secret, entity, fence).encode()
    )
