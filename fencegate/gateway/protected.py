"""The names that decide about a call. Each is sent once, under its one spelling, or not at all.

A receiver behind us may read `X_Execution_Fence` as `X-Execution-Fence`, and a hop may drop what
`Connection` lists: both would let one request mean two things (RFC 9110 section 17.10).
"""

from __future__ import annotations

from functools import lru_cache

from fencegate.core.outcomes import Headers
from fencegate.gateway.upstream.head import nominated

FENCE = b"x-execution-fence"
KEY = b"idempotency-key"
HOLDER = b"x-execution-holder"
DOMAIN = b"x-fence-domain"
PROOF = b"x-execution-fence-proof"
TOKEN = b"fencegate-token"
PROTECTED = frozenset({FENCE, KEY, HOLDER, DOMAIN, PROOF, TOKEN})
OVERRIDES = frozenset(
    {
        b"x-http-method-override",
        b"x-http-method",
        b"x-method-override",
        b"x-original-url",
        b"x-rewrite-url",
    }
)


def framing_fault(headers: Headers, also: frozenset[bytes] = frozenset()) -> str | None:
    """What makes a guarded request ambiguous, in words; None if nothing does. `also`: further
    fields that decide about the call, because its route reads them."""
    spelt = _spelt(also)
    listed = nominated(headers) & frozenset(spelt.values())
    if listed:
        return f"Connection lists {min(listed).decode()}."
    seen: set[bytes] = set()
    for name, _ in headers:
        name, folded = name.lower(), plain(name)
        meant = spelt.get(folded)
        if meant is not None and name != meant:
            return f"A field is named like {meant.decode()}, spelt another way."
        if name in PROTECTED and name in seen and name not in (FENCE, KEY):
            return f"{name.decode()} is sent more than once."
        seen.add(name)
    return override_fault(headers)


@lru_cache(maxsize=1024)  # as many as there are routes that read different fields
def _spelt(also: frozenset[bytes]) -> dict[bytes, bytes]:
    """Each name that decides, by what a lenient receiver makes of it."""
    return {plain(name): name for name in PROTECTED | also}


def override_fault(headers: Headers) -> str | None:
    """What would make of a request another one at a receiver that minds it."""
    found = next((plain(name) for name, _ in headers if plain(name) in OVERRIDES), None)
    return f"{found.decode()} would change what the request is." if found else None


def plain(name: bytes) -> bytes:
    """A field's name as those receivers know it that fold case and all but letters and digits."""
    return name.translate(_FOLDED)


_FOLDED = bytes(
    ord(c.lower()) if (c := chr(i)).isascii() and c.isalnum() else 45 for i in range(256)
)
