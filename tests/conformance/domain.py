"""The small domain that the sweep asks every ledger about: scenes that end in a question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count, cycle, product
from typing import NamedTuple

from fencegate.core.model import (
    SECOND,
    Asked,
    OneEffectPer,
    OnUnknown,
    Predecessor,
    StaleReplay,
)
from fencegate.core.outcomes import Outcome, Streaming, TimedOut
from fencegate.core.resolution import Abandoned, Applied, NotApplied, Probed, VerdictOn
from tests.conformance.calls import (
    ANSWER,
    ANSWERED,
    DECLINED,
    IN_DOUBT,
    OTHER,
    REFUSED,
    RESEND,
    SAME,
    TERMS,
    TOO_LARGE,
    UNSENT,
)
from tests.conformance.recipes import NEIGHBOURS, STATES, Scene

Fences = tuple[int, int, int]

# As text 9 is above 10; as a double 2**53 + 1 is 2**53, and the last three are one number.
SMALL: Fences = (9, 10, 11)
BEYOND_DOUBLES: Fences = (2**53, 2**53 + 1, 2**53 + 2)
LARGEST: Fences = (2**63 - 3, 2**63 - 2, 2**63 - 1)
LENGTHS = (SMALL, BEYOND_DOUBLES, SMALL, LARGEST, BEYOND_DOUBLES)

_numbers = count(1)


class Case(NamedTuple):
    """A scene; its last step is the question that the case is about."""

    about: str
    scene: Scene


def scene_of(
    state: str,
    neighbours: str = "none",
    fences: Fences = SMALL,
    *,
    announced: bool = True,
    caller: str | None = "agents",
    one_effect_per: OneEffectPer = OneEffectPer.KEY,
) -> Scene:
    """A scene under the lowest fence; then, if announced, high water is the middle one."""
    low, middle, _ = fences
    scene = Scene(f"case {next(_numbers)}", low, caller=caller, one_effect_per=one_effect_per)
    STATES[state](scene)
    NEIGHBOURS[neighbours](scene)
    if announced:
        scene.announced(middle, 0.2)
    return scene


# --- admission -----------------------------------------------------------------------------


class Who(NamedTuple):
    """Who asks, seen from the caller whose record it is."""

    about: str
    caller: str | None = "agents"
    asking: str | None = "agents"
    credential: str = "mine"
    key: str = "key"
    other_request: bool = False


WHO = (
    Who("the caller"),
    Who("another caller", asking="somebody"),
    Who("another key", key="new key"),
    Who("another request", other_request=True),
    Who("no callers configured", None, None),
    Who("another credential", None, None, "another"),
    Who("another credential and key", None, None, "another", "new key"),
)


def rows() -> Iterator[Case]:
    """Rows 1 to 8: who asks for what, under which fence, in which state; in the way of a lower
    one, on a frozen entity, and on a route that refuses stale replays."""
    plain = ("none", False, StaleReplay.REPLAY)
    others = (
        ("open", False, StaleReplay.REPLAY),
        ("none", True, StaleReplay.REPLAY),
        ("none", False, StaleReplay.REFUSE),
    )
    lengths = cycle(LENGTHS)
    for state, who, place, (neighbours, frozen, replays) in product(
        STATES, WHO, range(3), (plain, *others)
    ):
        if replays is StaleReplay.REFUSE and not state.startswith("done"):
            continue
        fences = next(lengths)
        fence = fences[place]
        scene = scene_of(state, neighbours, fences, caller=who.caller)
        if frozen:
            scene.frozen(0.1)
        call = scene.call(
            "asking",
            key=who.key,
            fence=fence,
            caller=who.asking,
            credential=who.credential,
            prints=OTHER if who.other_request else SAME,
        )
        scene.asks(call, replace(TERMS, stale_replay=replays))
        yield Case(f"{state}; {who.about}, {fence}; {frozen=}; {neighbours=}; {replays}", scene)


WAITS = ("first", "found", "not found", "key wait over", "order wait over", "probed")


def asked(wait: str, scene: Scene) -> Asked:
    """What the call has been through."""
    return {
        "first": Asked(),
        "found": Asked(waited=True, found=scene.current),
        "not found": Asked(waited=True),
        "key wait over": Asked(waited=True, duplicate_wait_over=True),
        "order wait over": Asked(waited=True, found=scene.current, predecessor_wait_over=True),
        "probed": Asked(probed=True),
    }[wait]


OPEN = ("sending", "sending, renewed", "sending again", "sending after a disowned one", "listening")
IN_QUESTION = (
    "sending, hold out",
    "sending again, hold out",
    "listening, hold out",
    "unknown",
    "unknown again",
    "unknown again, below the limit",
    "unknown again, at the limit",
    "unknown again, earlier connected",
    "unknown, a later one undone",
    "unknown after a disowned one",
)
NOTHING_THERE = (
    "none",
    "expired, tombstone over",
    "free, not sent",
    "free, refused before work",
    "free, called not applied",
    "free, probed",
)
SOME_NEIGHBOURS = ("none", "open", "unknown", "open, hold out", "streaming, too long")


def orders() -> Iterator[Case]:
    """Rows 8 to 10 and the order on the wire, by route and wait, under fences of all lengths."""
    places = chain(
        product(OPEN, ("none", "open"), OnUnknown, ("refuse",), WAITS),
        product(IN_QUESTION, SOME_NEIGHBOURS, ("resend",), Predecessor, WAITS),
        product(IN_QUESTION, SOME_NEIGHBOURS, ("probe",), Predecessor, ("first", "probed")),
        product(IN_QUESTION, SOME_NEIGHBOURS, ("refuse",), ("ignore",), ("first",)),
        product(NOTHING_THERE, NEIGHBOURS, ("refuse",), Predecessor, WAITS),
    )
    lengths = cycle(LENGTHS)
    for state, neighbours, unknown, order, wait in places:
        fences = next(lengths)
        scene = scene_of(state, neighbours, fences)
        fence = fences[1] if wait in ("not found", "probed") else fences[2]
        call = scene.call("asking", fence=fence, asked=asked(wait, scene))
        on_unknown, predecessor = OnUnknown(unknown), Predecessor(order)
        scene.asks(call, replace(RESEND, on_unknown=on_unknown, predecessor=predecessor))
        yield Case(f"{state}; {neighbours=}; {unknown}, {order}; {wait}; {fence}", scene)


def intents() -> Iterator[Case]:
    """The first key, or a second one for the same effect, with the index kept or emptied."""
    for state, key, fence, announced, mode in product(
        STATES, ("key", "second key"), SMALL, (False, True), ("intent", "warn")
    ):
        scene = scene_of(state, announced=announced, one_effect_per=OneEffectPer(mode))
        call = scene.call("asking", key=key, fence=fence)
        scene.asks(call, scene.terms)
        yield Case(f"{state}; {key}, {fence}; {announced=}; {mode}", scene)


# --- what ends an attempt ------------------------------------------------------------------

ATTEMPTS = ("current", "earlier", "disowned", "foreign")
OUTCOMES: dict[str, Outcome] = {
    "answer": ANSWERED,
    "other answer": DECLINED,
    "large answer": TOO_LARGE,
    "refused before work": REFUSED,
    "not sent": UNSENT,
    "timed out": TimedOut(),
    "streaming": Streaming(60 * SECOND),
    "unknown": IN_DOUBT,
}


def settlements() -> Iterator[Case]:
    for state, attempt, outcome in product(STATES, ATTEMPTS, OUTCOMES):
        scene = scene_of(state)
        scene.ends(attempt, OUTCOMES[outcome], 0)
        yield Case(f"{state}; {outcome} of {attempt}", scene)


def renewals() -> Iterator[Case]:
    for state, attempt in product(STATES, ATTEMPTS):
        scene = scene_of(state)
        scene.renewed(attempt, 0)
        yield Case(f"{state}; renewed by {attempt}", scene)


def verdicts(scene: Scene) -> Iterator[VerdictOn]:
    yield from (Applied(), Applied(ANSWER), NotApplied(), Abandoned())
    for attempt in ATTEMPTS:
        id = scene.attempt(attempt)
        yield Probed(id, applied=True, after=0)
        yield Probed(id, applied=False, after=SECOND)
        yield Probed(id, applied=False, after=2 * SECOND)


def resolutions() -> Iterator[Case]:
    for state in STATES:
        for number in range(len(list(verdicts(scene_of(state))))):
            scene = scene_of(state)
            verdict = list(verdicts(scene))[number]
            scene.judged(verdict, 0)
            yield Case(f"{state}; {verdict}", scene)
