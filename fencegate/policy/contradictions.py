"""What a route lacks, says twice and differently, or says in vain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencegate.core.model import Micros, OneEffectPer, OnUnknown
from fencegate.policy.callers import Callers
from fencegate.policy.codes import Code
from fencegate.policy.documents import Problem
from fencegate.policy.levels import Levels
from fencegate.policy.model import RouteSection, RouteSettings, UpstreamSection
from fencegate.policy.profiles import PROFILES
from fencegate.policy.routes import Guard
from fencegate.policy.shape import example_of
from fencegate.policy.sources import Source
from fencegate.policy.templates import Reading

Guards = Sequence[Guard]


def window_of(section: UpstreamSection) -> Micros | None:
    """How long the upstream remembers our key."""
    return section.key_window or PROFILES[section.kind].key_window


def contradictions(
    levels: Levels, settings: RouteSettings, guards: Guards, callers: Callers | None
) -> Iterator[Problem]:
    """Every problem of one route that its shape does not show."""
    if any(guard is not Guard.NONE for guard in guards):
        yield from _entity_problems(levels, settings, guards)
        yield from _reading_problems(levels, settings, callers)
        yield from _status_problems(levels, settings)
        if any(guard.asks_key for guard in guards):
            yield from _unknown_problems(levels, settings)
    yield from _vain(levels, guards)
    yield from _not_built(levels)


def _entity_problems(levels: Levels, settings: RouteSettings, guards: Guards) -> Iterator[Problem]:
    match = levels.section.match
    if settings.entity is None and any(guard.asks_fence for guard in guards):
        wrong = f"`{match.text}` is guarded and has no `entity`: what does it change?"
        example = example_of(RouteSection, ("entity",))
        if not levels.spoilt("entity"):
            yield levels.problem("match", wrong, example=example, code=Code.NO_ENTITY)


def _reading_problems(
    levels: Levels, settings: RouteSettings, callers: Callers | None
) -> Iterator[Problem]:
    readings = {"entity": settings.entity, "fence": settings.fence, "key": settings.key}
    asked = Reading((settings.probe.get,)) if settings.probe else None
    nobody = callers is None and not levels.gateway.spoilt(("callers",))
    for name, reading in {**readings, "probe": asked}.items():
        if reading is None:
            continue
        yield from _not_captured(levels, name, reading)
        if Source.CALLER in reading.sources and nobody:
            wrong = "`{caller}` is nobody: gateway.yaml names no callers"
            yield levels.problem(name, wrong)


def _not_captured(levels: Levels, name: str, reading: Reading) -> Iterator[Problem]:
    match = levels.section.match
    for capture in sorted(reading.captures - match.names):
        wrong = f"`{{path.{capture}}}` is not captured by `{match.text}`"
        example = f"match: POST /v1/charges/{{{capture}}}"
        if match.rest:
            example = f"match: POST /v1/files/{{{capture}...}}    # the rest, under a name"
        yield levels.problem(name, wrong, example=example, code=Code.NOT_CAPTURED)


def _status_problems(levels: Levels, settings: RouteSettings) -> Iterator[Problem]:
    if settings.model_fields_set >= {"refused_statuses", "unknown_statuses"}:
        refused, unknown = settings.refused_statuses, settings.unknown_statuses
        if both := frozenset().union(*refused) & frozenset().union(*unknown):
            wrong = f"{min(both)} stands in `refused_statuses` and in `unknown_statuses`"
            yield levels.problem("unknown_statuses", wrong, code=Code.STATUS_TWICE)


def _unknown_problems(levels: Levels, settings: RouteSettings) -> Iterator[Problem]:
    """A resend is harmless only where the upstream knows the key from the first attempt."""
    attempts = 1
    match settings.on_unknown:
        case OnUnknown.RESEND:
            attempts += settings.resend_limit
            yield from _resend_problems(levels, settings)
        case OnUnknown.PROBE if settings.probe is None and not levels.spoilt("probe"):
            wrong = "`probe` needs a `probe`: what is the upstream asked?"
            example = example_of(RouteSection, ("probe",))
            yield levels.problem("on_unknown", wrong, example=example, code=Code.NO_PROBE)
        case _:
            pass
    if settings.retention < settings.timeout * attempts:
        times = f"{attempts} x " if attempts > 1 else ""
        wrong = (
            f"`retention` is shorter than {times}`timeout`: the answer may be gone before its last"
            " retry asks for it"
        )
        yield levels.problem("retention", wrong, code=Code.SHORT_RETENTION)


def _resend_problems(levels: Levels, settings: RouteSettings) -> Iterator[Problem]:
    name, key_window = levels.upstream.name, window_of(levels.upstream)
    if key_window is None:
        if levels.spoilt("key_window"):
            return
        wrong = (
            f"`resend` needs `key_window`: how long `{name}` remembers a key, and answers a"
            " repeated one without doing its work again"
        )
        hint = "if it does not, only `refuse` is safe"
        yield levels.problem("on_unknown", wrong, example="", code=Code.NO_KEY_WINDOW, hint=hint)
    elif key_window <= settings.timeout:
        wrong = f"`timeout` is as long as `{name}` remembers a key: nothing could be resent"
        if "key_window" in levels.upstream.model_fields_set:
            wrong = "`key_window` must be longer than `timeout`, or nothing could be resent"
            loc = ("upstream", "key_window")
            yield levels.file.problem(loc, wrong, code=Code.SHORT_KEY_WINDOW)
        else:
            yield levels.problem("timeout", wrong, code=Code.SHORT_KEY_WINDOW)


# --- said in vain --------------------------------------------------------------------------

_OF_KEYS = frozenset({
    "key", "on_unknown", "resend_limit", "stale_replay", "duplicate_wait", "one_effect_per",
    "fingerprint", "retention", "redact", "probe", "answer_limit",
})  # fmt: skip
_OF_FENCES = frozenset({
    "fence", "fence_domain", "fence_secret", "max_fence_lead", "predecessor", "predecessor_wait",
    "stream_hold",
})  # fmt: skip
_OF_GUARDS = frozenset({
    "entity", "late_answer", "refused_statuses", "unknown_statuses", "max_concurrent",
    "encoded_slash", "mode",
})  # fmt: skip


def _vain(levels: Levels, guards: Guards) -> Iterator[Problem]:
    """Settings of the route itself that its guard never looks at."""
    stated = levels.section.model_fields_set
    idle = frozenset[str]()
    if not any(guard.asks_key for guard in guards):
        idle |= _OF_KEYS
    if not any(guard.asks_fence for guard in guards):
        idle |= _OF_FENCES
    if all(guard is Guard.NONE for guard in guards):
        idle |= _OF_GUARDS
    for name in sorted(stated & idle):
        guard = " and ".join(f"`{guard}`" for guard in guards)
        wrong = f"`{name}` has no effect on a route whose guard is {guard}"
        hint = "leave it out"
        yield levels.problem(name, wrong, example="", code=Code.NO_EFFECT, hint=hint, at_key=True)
    intent = levels.section.one_effect_per is not OneEffectPer.KEY
    if intent and "one_effect_per" in stated and Guard.KEY_ONLY in guards:
        wrong = "an intent is known by its fence, and this guard asks for none"
        yield levels.problem("one_effect_per", wrong, code=Code.NO_EFFECT)


def _not_built(levels: Levels) -> Iterator[Problem]:
    for name in ("late_answer", "stream_hold", "probe"):
        if levels.stated(name):
            wrong = not_built(name)
            yield levels.problem(name, wrong, example="", code=Code.NOT_BUILT, at_key=True)


def not_built(name: str) -> str:
    meanwhile = ": until then retries of an unknown call are refused" if name == "probe" else ""
    return f"`{name}` is read and checked, and not acted on yet{meanwhile}"
