"""Fence domains: whose numbers a route's fences are."""

from __future__ import annotations

from dataclasses import dataclass

from fencegate.core.reading import Malformed, domain_of_text


@dataclass(frozen=True, slots=True)
class FromHeader:
    """The domain is what the caller says in X-Fence-Domain; none is the default domain."""


def read_domain(written: str) -> str | FromHeader:
    """A name, or `{header.x-fence-domain}`; ValueError says what is wrong."""
    if written.lower() == "{header.x-fence-domain}":
        return FromHeader()
    if isinstance(domain_of_text(written), Malformed):
        raise ValueError(
            f"`{written}` is no domain: a name of letters, digits, `.`, - and _, or"
            " {header.x-fence-domain} for the one that the caller sends"
        )
    return written
