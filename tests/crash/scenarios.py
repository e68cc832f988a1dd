"""The stories. Each is played while a gateway dies at one of its steps, and once undisturbed.

A play must go on whatever has become of its gateway: a call to one that is gone is cut. The worker
that is taken over from has fence 41; where a story has a next holder, it has 42; the successor
that comes after the kill has 43.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.crash.checker import Said
from tests.crash.instrumented import Strike
from tests.crash.killpoints import point_before
from tests.crash.stage import Gateway, Stage
from tests.crash.upstream import Upstream, charge_late, charge_once_per_key
from tests.double import deny, do_drop, do_err

OLD, NEXT, SUCCESSOR = 41, 42, 43
KEY, OTHER_KEY = "pay-1", "pay-2"

# The last point at which a process may be stopped and must not send when it goes on. Behind it
# comes the point before the first byte: of a process stopped there DESIGN.md says, in invariant
# I2's exceptions, that its write may come late. Nothing in one process can prevent that.
HOLD_CHECK = point_before("if not may_write()")
FIRST_BYTE = point_before("connection.write(")

Play = Callable[[Stage, Gateway], list[Said]]

RESENDS = "  on_unknown: resend\n  key_window: 1m"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story: what the upstream does, the policy's settings that matter, and the calls.

    `ends` are the answers that the play gets when nobody is struck. `pauses`: the
    gateway stops itself just before its first byte, and the play lets it go on.
    """

    name: str
    play: Play
    ends: tuple[str, ...]
    upstream: Callable[[Upstream], None] = lambda upstream: None
    listens: bool = True
    settings: str = ""
    wait: str = "300ms"
    tombstone: str = "400d"
    pauses: bool = False
    keys: tuple[str, ...] = (KEY,)

    def __repr__(self) -> str:
        return f"Scenario({self.name})"

    @property
    def strikes(self) -> tuple[Strike, ...]:
        return (Strike(HOLD_CHECK, "SIGSTOP"),) if self.pauses else ()


def take_over(stage: Stage, gateway: Gateway, keys: tuple[str, ...]) -> list[str]:
    """The successor repeats the keys until it knows, and goes on with its own work; the old
    worker comes back. Answers what did not work, in sentences."""
    faults = []
    for key in keys:
        stage.repeat(gateway, SUCCESSOR, key)
    stale = stage.call(gateway, OLD, "old-worker")
    if stale.answer is None or stale.answer.status != 412:
        faults.append(f"the old worker's new key was answered {stale}, not 412")
    fresh = stage.repeat(gateway, SUCCESSOR, "fresh")
    if fresh.answer is None or not fresh.answer.succeeded:
        faults.append(f"the successor's fresh key was answered {fresh}, not done")
    for key in (*keys, "fresh"):
        again = stage.call(gateway, SUCCESSOR, key)
        if again.answer is None or again.answer.code == "in_flight":
            faults.append(f"the repeated {key} was answered {again}")
    return faults


# --- plays ---------------------------------------------------------------------------------


def one_call(stage: Stage, gateway: Gateway) -> list[Said]:
    return [stage.call(gateway, OLD, KEY)]


def the_same_call_twice(stage: Stage, gateway: Gateway) -> list[Said]:
    return [stage.call(gateway, OLD, KEY), stage.call(gateway, OLD, KEY)]


def a_replay(stage: Stage, gateway: Gateway) -> list[Said]:
    first = stage.call(gateway, OLD, KEY)
    stage.story_begins()
    return [first, stage.call(gateway, OLD, KEY)]


def a_late_worker(stage: Stage, gateway: Gateway) -> list[Said]:
    first = stage.call(gateway, NEXT, KEY)
    stage.story_begins()
    return [first, stage.call(gateway, OLD, OTHER_KEY)]


def one_too_many(stage: Stage, gateway: Gateway) -> list[Said]:
    """There is room for one: the second is refused while the first is on the wire."""
    first = stage.later(gateway, OLD, KEY)
    stage.until(lambda: bool(stage.upstream.writes), gateway)
    second = stage.call(gateway, NEXT, OTHER_KEY)
    stage.upstream.release.set()
    return [first.result(), second]


def a_waiter(key: str) -> Play:
    """While a call is on the wire, the next holder comes with this key and waits."""

    def play(stage: Stage, gateway: Gateway) -> list[Said]:
        first = stage.later(gateway, OLD, KEY)
        stage.until(lambda: bool(stage.upstream.writes), gateway)
        second = stage.later(gateway, NEXT, key)
        stage.until(lambda: stage.has_accepted(gateway, NEXT), gateway)
        stage.upstream.release.set()
        return [first.result(), second.result()]

    return play


def a_call_while_the_ledger_is_away(stage: Stage, gateway: Gateway) -> list[Said]:
    with stage.ledger_away():
        return [stage.call(gateway, OLD, KEY)]


def a_ledger_that_goes_away_under_way(stage: Stage, gateway: Gateway) -> list[Said]:
    """The call is on the wire; when its answer comes, it cannot be recorded."""
    first = stage.later(gateway, OLD, KEY)
    stage.until(lambda: bool(stage.upstream.writes), gateway)
    with stage.ledger_away():
        stage.upstream.release.set()
        return [first.result()]


def a_pause_and_another_key(stage: Stage, gateway: Gateway) -> list[Said]:
    """The gateway stops; by another, the next holder's own call is done."""
    other = stage.plain()
    first = stage.later(gateway, OLD, KEY)
    gateway.process.wait_stopped()
    second = stage.later_until(_is_done, other, NEXT, OTHER_KEY).result()
    gateway.process.send(signal.SIGCONT)
    return [first.result(), second]


def a_pause_and_a_resend(stage: Stage, gateway: Gateway) -> list[Said]:
    """The gateway stops; by another, the next holder has the same key done."""
    other = stage.plain()
    first = stage.later(gateway, OLD, KEY)
    gateway.process.wait_stopped()
    stage.story_begins()
    second = stage.later_until(_is_done, other, NEXT, KEY).result()
    gateway.process.send(signal.SIGCONT)
    return [first.result(), second]


def a_pause_and_a_forgotten_key(stage: Stage, gateway: Gateway) -> list[Said]:
    """The gateway stops before its first byte, so long that its record is forgotten and the key
    used again: what it settles then must not touch the new attempt, which is on the wire."""
    other = stage.plain()
    first = stage.later(gateway, OLD, KEY)
    gateway.process.wait_stopped()
    stage.story_begins()
    second = stage.later_until(_is_done, other, NEXT, KEY)
    stage.until(lambda: bool(stage.upstream.writes), other)
    gateway.process.send(signal.SIGCONT)
    late = first.result()
    stage.upstream.release.set()
    return [late, second.result()]


def _is_done(said: Said) -> bool:
    return said.answer is not None and said.answer.succeeded


SCENARIOS = (
    Scenario("success", one_call, ("201 forwarded",)),
    Scenario("refuses connections", one_call, ("502 not_sent",), listens=False),
    Scenario(
        "error after the effect",
        one_call,
        ("500 forwarded",),
        upstream=lambda upstream: upstream.then(do_err(500)),
    ),
    Scenario(
        "dropped after the effect",
        one_call,
        ("502 outcome_unknown",),
        upstream=lambda upstream: upstream.then(do_drop()),
    ),
    Scenario(
        "429, then success",
        the_same_call_twice,
        ("429 forwarded", "201 forwarded"),
        upstream=lambda upstream: upstream.then(deny(429)),
    ),
    Scenario("replay", a_replay, ("201 forwarded", "201 replayed")),
    Scenario(
        "stale fence",
        a_late_worker,
        ("201 forwarded", "412 stale_fence"),
        keys=(KEY, OTHER_KEY),
    ),
    Scenario(
        "waiting duplicate",
        a_waiter(KEY),
        ("201 forwarded", "201 replayed"),
        upstream=lambda upstream: upstream.then(charge_late(upstream)),
        wait="2s",
    ),
    Scenario(
        "waiting successor",
        a_waiter(OTHER_KEY),
        ("201 forwarded", "201 forwarded"),
        upstream=lambda upstream: upstream.then(charge_late(upstream)),
        wait="2s",
        keys=(KEY, OTHER_KEY),
    ),
    Scenario(
        "no room for one more",
        one_too_many,
        ("201 forwarded", "503 upstream_busy"),
        upstream=lambda upstream: upstream.then(charge_late(upstream)),
        settings="  max_concurrent: 1",
        keys=(KEY, OTHER_KEY),
    ),
    Scenario(
        "ledger away at admission",
        a_call_while_the_ledger_is_away,
        ("503 ledger_unavailable",),
    ),
    Scenario(
        "ledger away at settlement",
        a_ledger_that_goes_away_under_way,
        ("201 forwarded",),
        upstream=lambda upstream: upstream.then(charge_late(upstream)),
    ),
    Scenario(
        "resend to one that de-duplicates",
        the_same_call_twice,
        ("502 outcome_unknown", "201 forwarded"),
        upstream=lambda upstream: upstream.always(charge_once_per_key(upstream, drop_first=True)),
        settings=RESENDS,
    ),
    Scenario(
        "paused, and resent by the next",
        a_pause_and_a_resend,
        ("201 replayed", "201 forwarded"),
        upstream=lambda upstream: upstream.always(charge_once_per_key(upstream)),
        settings=RESENDS,
        pauses=True,
    ),
    Scenario(
        "paused until the key is forgotten",
        a_pause_and_a_forgotten_key,
        ("412 stale_fence", "201 forwarded"),
        upstream=lambda upstream: upstream.then(charge_late(upstream)),
        tombstone="300ms",
        pauses=True,
    ),
)

# The gateway is stopped at each point up to the hold check, and goes on when the next has written.
PAUSES = (
    Scenario(
        "the next has written another key",
        a_pause_and_another_key,
        (),
        keys=(KEY, OTHER_KEY),
    ),
    Scenario(
        "the next has written the same key",
        a_pause_and_a_resend,
        (),
        upstream=lambda upstream: upstream.always(charge_once_per_key(upstream)),
        settings=RESENDS,
    ),
)
