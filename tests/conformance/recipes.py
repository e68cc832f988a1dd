"""Short ways to every state of a record and of its neighbours, through a ledger's verbs.

A *scene* has names of its own (an entity, its keys, its attempts), so that one ledger serves
thousands, and a list of *steps*, each so long before the scene's question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from fencegate.core.fingerprint import Fingerprint
from fencegate.core.model import (
    DAY,
    SECOND,
    Asked,
    AttemptId,
    Call,
    EntityId,
    Micros,
    OneEffectPer,
    RecordId,
    Terms,
)
from fencegate.core.outcomes import Outcome, Streaming, TimedOut
from fencegate.core.resolution import Abandoned, Applied, NotApplied, Probed, VerdictOn
from fencegate.ledger.protocol import Ledger
from tests.conformance.calls import (
    ACT,
    ANSWER,
    ANSWERED,
    FIRST,
    IN_DOUBT,
    REFUSED,
    RESEND,
    SAME,
    TOO_LARGE,
    UNSENT,
)
from tests.conformance.oracle import Oracle

Verbs = Ledger | Oracle
Step = Callable[[Verbs], Awaitable[object]]


class Scene:
    """One entity, and what happens on it. Times are given as so many seconds ago."""

    def __init__(
        self,
        name: str,
        fence: int,
        *,
        caller: str | None = "agents",
        one_effect_per: OneEffectPer = OneEffectPer.KEY,
    ) -> None:
        self.name = name
        self.entity = EntityId("", f"entity of {name}")
        self.fence = fence
        self.caller = caller
        self.terms = replace(RESEND, one_effect_per=one_effect_per)
        self.steps: list[tuple[Micros, Step]] = []
        self.question: tuple[Call, Terms] | None = None
        self.current = self.attempt("current")
        self.keys: dict[RecordId, None] = {}

    def attempt(self, word: str) -> AttemptId:
        return AttemptId(f"{self.name}-{word}")

    def key(self, word: str = "key") -> RecordId:
        return RecordId("payments", self.caller, f"{word} of {self.name}")

    def call(
        self,
        attempt: str,
        *,
        key: str = "key",
        fence: int | None = None,
        caller: str | None = "agents",
        credential: str = "mine",
        prints: Fingerprint = SAME,
        asked: Asked = FIRST,
    ) -> Call:
        self.keys[RecordId("payments", caller, self.key(key).key)] = None
        return Call(
            upstream="payments",
            caller=caller,
            credential=credential,
            entity=self.entity,
            fence=self.fence if fence is None else fence,
            key=self.key(key).key,
            prints=(prints,),
            attempt=self.attempt(attempt),
            holder=f"holder of {attempt}",
            asked=asked,
        )

    # --- steps -----------------------------------------------------------------------------

    def ago(self, seconds: float, step: Step) -> None:
        self.steps.append((round(seconds * SECOND), step))

    def goes(self, attempt: str, ago: float, *, key: str = "key", fence: int | None = None) -> None:
        call, terms = self.call(attempt, key=key, fence=fence, caller=self.caller), self.terms
        self.ago(ago, lambda ledger: ledger.admit(call, terms))

    def ends(self, attempt: str, outcome: Outcome, ago: float, *, key: str = "key") -> None:
        id, record = self.attempt(attempt), self.key(key)
        self.ago(ago, lambda ledger: ledger.settle(record, id, outcome))

    def asks(self, call: Call, terms: Terms) -> None:
        self.question = call, terms
        self.ago(0, lambda ledger: ledger.admit(call, terms))

    def renewed(self, attempt: str, ago: float) -> None:
        held = [(self.key(), self.attempt(attempt))]
        self.ago(ago, lambda ledger: ledger.renew(held))

    def judged(self, verdict: VerdictOn, ago: float) -> None:
        record = self.key()
        self.ago(ago, lambda ledger: ledger.resolve(record, verdict, ACT))

    def announced(self, fence: int, ago: float) -> None:
        entity = self.entity
        self.ago(ago, lambda ledger: ledger.announce(entity, fence, "announced", None))

    def frozen(self, ago: float) -> None:
        entity = self.entity
        self.ago(ago, lambda ledger: ledger.freeze(entity, True, ACT))


Recipe = Callable[[Scene], None]
LONG = 500 * DAY / SECOND  # longer than a tombstone is kept
TWO_DAYS = 2 * DAY / SECOND  # longer than an answer is kept


def _nothing(scene: Scene) -> None:
    pass


def _open(ago: float) -> Recipe:
    return lambda scene: scene.goes("current", ago)


def _renewed(scene: Scene) -> None:
    scene.goes("current", 20)
    scene.renewed("current", 10)


def _ended(outcome: Outcome, ago: float = 1) -> Recipe:
    def recipe(scene: Scene) -> None:
        scene.goes("current", ago + 9)
        scene.ends("current", outcome, ago)

    return recipe


def _judged(verdict: VerdictOn, ago: float = 1) -> Recipe:
    def recipe(scene: Scene) -> None:
        _ended(IN_DOUBT, ago + 1)(scene)
        scene.judged(verdict, ago)

    return recipe


def _again(then: Recipe) -> Recipe:
    """After an attempt that is in doubt and has ended."""

    def recipe(scene: Scene) -> None:
        scene.goes("earlier", 60)
        scene.ends("earlier", IN_DOUBT, 50)
        then(scene)

    return recipe


def _again_while_connected(then: Recipe) -> Recipe:
    """After an attempt whose hold ran out, and whose gateway was not heard of since."""

    def recipe(scene: Scene) -> None:
        scene.goes("earlier", 60)
        then(scene)

    return recipe


def _after_disowned(then: Recipe) -> Recipe:
    """After an attempt that an operator called not applied."""

    def recipe(scene: Scene) -> None:
        scene.goes("disowned", 60)
        scene.ends("disowned", IN_DOUBT, 50)
        scene.judged(NotApplied(), 40)
        then(scene)

    return recipe


def _resent(times: int) -> Recipe:
    """So often that one more resend is one more than `resend_limit`, or just not."""

    def recipe(scene: Scene) -> None:
        names = ["earlier", *(f"earlier {number}" for number in range(2, times + 1)), "current"]
        for ago, name in zip(range(60, 0, -10), names, strict=False):
            scene.goes(name, ago)
            scene.ends(name, IN_DOUBT, ago - 5)

    return recipe


def _reverted(scene: Scene) -> None:
    _again(_ended(UNSENT, 20))(scene)
    scene.current = scene.attempt("earlier")


def _probed(scene: Scene) -> None:
    scene.goes("current", 60)
    scene.ends("current", IN_DOUBT, 50)
    scene.judged(Probed(scene.current, applied=False, after=10 * SECOND), 20)


def _answered_late(scene: Scene) -> None:
    _after_disowned(_nothing)(scene)
    scene.ends("disowned", ANSWERED, 20)
    scene.current = scene.attempt("disowned")


STATES: dict[str, Recipe] = {
    "none": _nothing,
    "sending": _open(1),
    "sending, renewed": _renewed,
    "sending, hold out": _open(20),
    "sending, hold and tombstone out": _open(LONG),
    "sending again": _again(_open(1)),
    "sending again, hold out": _again(_open(20)),
    "sending after a disowned one": _after_disowned(_open(1)),
    "listening": _ended(TimedOut()),
    "listening, hold out": _ended(TimedOut(), 9),
    "done": _ended(ANSWERED),
    "done again": _again(_ended(ANSWERED)),
    "done, retention over": _ended(ANSWERED, TWO_DAYS),
    "done, not kept": _ended(TOO_LARGE),
    "done, never seen": _judged(Applied()),
    "done, as an operator says": _judged(Applied(ANSWER)),
    "done, as the disowned one says": _answered_late,
    "unknown": _ended(IN_DOUBT),
    "unknown again": _again(_ended(IN_DOUBT)),
    "unknown again, below the limit": _resent(RESEND.resend_limit - 1),
    "unknown again, at the limit": _resent(RESEND.resend_limit),
    "unknown again, earlier connected": _again_while_connected(_ended(IN_DOUBT)),
    "unknown, a later one undone": _reverted,
    "unknown after a disowned one": _after_disowned(_ended(IN_DOUBT)),
    "expired": _judged(Abandoned()),
    "expired, tombstone over": _judged(Abandoned(), LONG),
    "free, not sent": _ended(UNSENT),
    "free, refused before work": _ended(REFUSED),
    "free, called not applied": _after_disowned(_nothing),
    "free, probed": _probed,
}


# --- neighbours ----------------------------------------------------------------------------


def _beside(ago: float, *then: tuple[Outcome, float]) -> Recipe:
    """Another key on the same entity."""

    def recipe(scene: Scene) -> None:
        scene.goes("other", ago, key="other key")
        for outcome, at in then:
            scene.ends("other", outcome, at, key="other key")

    return recipe


def _both(scene: Scene) -> None:
    _beside(10, (IN_DOUBT, 9))(scene)
    scene.goes("third", 8, key="third key")
    scene.goes("fourth", 2, key="fourth key")


def _behind_a_stream(scene: Scene) -> None:
    """The stream is held for longer than what still stands in the way."""
    scene.goes("third", 12, key="third key")
    _beside(10, (Streaming(SECOND), 9))(scene)


def _of_one_lease(scene: Scene) -> None:
    """Under the next fence, which is high water by then."""
    scene.goes("other", 0.1, key="other key", fence=scene.fence + 1)


NEIGHBOURS: dict[str, Recipe] = {
    "none": _nothing,
    "open": _beside(2),
    "listening": _beside(10, (TimedOut(), 9)),
    "unknown": _beside(10, (IN_DOUBT, 9)),
    "open, hold out": _beside(20),
    "open, long forgotten": _beside(LONG),
    "streaming, not for long": _beside(10, (Streaming(60 * SECOND), 9)),
    "streaming, too long": _beside(10, (Streaming(SECOND), 9)),
    "streaming, too long, and open": _behind_a_stream,
    "done": _beside(10, (ANSWERED, 9)),
    "open, under the next fence": _of_one_lease,
    "unknown, and two open": _both,
}
