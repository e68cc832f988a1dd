"""Callers: who may make calls, known by the digests of their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest


@dataclass(frozen=True, slots=True)
class Caller:
    """A stable name and the SHA-256 digests of the tokens that show it: several, so that a token
    can be replaced without a gap."""

    name: str
    digests: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Caller({self.name}, {len(self.digests)} tokens)"


@dataclass(frozen=True, slots=True)
class Callers:
    """All configured callers; no digest stands for two of them."""

    all: tuple[Caller, ...]

    def who(self, token: bytes) -> str | None:
        """Whose token this is. All digests are compared, each in constant time."""
        shown = sha256(token).digest()
        known: str | None = None
        for caller in self.all:
            for digest in caller.digests:
                if compare_digest(digest, shown):
                    known = caller.name
        return known
