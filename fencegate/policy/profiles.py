"""Profiles: what is known of a kind of upstream, so that a policy need not say it.

A profile's settings hold where no file states them; its headers always count in the fingerprint.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencegate.core.model import DAY, Micros


@dataclass(frozen=True, slots=True)
class Profile:
    """`key_header`: where it wants our key. `key_window`: for how long it remembers one and
    answers a repeated one without doing its work again; None: it does not."""

    key_header: str | None = None
    key_window: Micros | None = None
    fingerprint_headers: tuple[str, ...] = ()


PROFILES: dict[str, Profile] = {
    "generic": Profile(),
    # https://docs.stripe.com/api/idempotent_requests: keys may be pruned once they are 24 hours
    # old. The account, the context and the version change what a request means.
    "stripe": Profile(
        key_header="Idempotency-Key",
        key_window=DAY,
        fingerprint_headers=("stripe-account", "stripe-context", "stripe-version"),
    ),
}
