"""What a guarded route lacks, and what its settings say in two ways."""

from __future__ import annotations

from collections.abc import Iterator

from fencegate.core.model import OnUnknown
from fencegate.policy.documents import Problem
from fencegate.policy.levels import Levels
from fencegate.policy.model import RouteSection, RouteSettings, UpstreamSection
from fencegate.policy.shape import example_of


def contradictions(levels: Levels, settings: RouteSettings) -> Iterator[Problem]:
    """What a guarded route lacks, or says twice and differently."""
    match = levels.section.match
    if settings.entity is None:
        wrong = f"`{match.text}` is guarded and has no `entity`: what does it change?"
        yield levels.problem("match", wrong, example=example_of(RouteSection, ("entity",)))
    for name, template in (("entity", settings.entity), ("key", settings.key)):
        for capture in sorted(template.captures - match.names) if template else ():
            wrong = f"`{{path.{capture}}}` is not captured by `{match.text}`"
            example = f"match: POST /v1/charges/{{{capture}}}"
            yield levels.problem(name, wrong, example=example)
    if settings.model_fields_set >= {"refused_statuses", "unknown_statuses"}:
        refused, unknown = settings.refused_statuses, settings.unknown_statuses
        if both := frozenset().union(*refused) & frozenset().union(*unknown):
            wrong = f"{min(both)} stands in `refused_statuses` and in `unknown_statuses`"
            yield levels.problem("unknown_statuses", wrong)
    yield from _resend_problems(levels, settings)


def _resend_problems(levels: Levels, settings: RouteSettings) -> Iterator[Problem]:
    """A resend is harmless only where the upstream knows the key from the first attempt."""
    if settings.on_unknown is not OnUnknown.RESEND:
        return
    upstream = levels.upstream
    if upstream.key_window is None:
        wrong = f"`resend` needs `key_window`: how long `{upstream.name}` remembers a key"
        example = example_of(UpstreamSection, ("key_window",))
        yield levels.problem("on_unknown", wrong, example=example)
    elif upstream.key_window <= settings.timeout:
        wrong = "`key_window` must be longer than `timeout`, or nothing could be resent"
        yield levels.file.problem(("upstream", "key_window"), wrong)
