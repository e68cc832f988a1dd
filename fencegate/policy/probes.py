"""Probes: a question to the upstream that tells whether a call was applied."""

from __future__ import annotations

from dataclasses import dataclass

from fencegate.core.model import Micros
from fencegate.policy.templates import Template


@dataclass(frozen=True, slots=True)
class Answers:
    """What an answer must be: this status, and these values (as JSON says them) at these places."""

    status: int
    json: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """`get` is a target under the upstream's URL. `not_applied` counts only when `after` has
    passed; None: it is `late_answer`."""

    get: Template
    applied: Answers
    not_applied: Answers | None
    after: Micros | None
    timeout: Micros
