"""The judge: what the upstream's log and the clients' answers must not show.

It looks at nothing else, and knows nothing of the ledger, of the scenario or of who was killed
when. Times are those of one clock; a call is on the way from `began` to `ended`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]

# Fields of the gateway itself and of the hop; the others are the upstream's.
_OURS = ("fencegate-", "proxy-status", "idempotency-replayed", "idempotent-replayed")
_HOP = ("connection", "content-length", "date", "server", "transfer-encoding")
# Statuses that are not kept as an answer to replay.
_NOT_KEPT = frozenset({401, 403, 407, 408, 425, 429, *range(500, 600)})


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a client; `id` goes through to the upstream."""

    id: str
    entity: str
    fence: int
    key: str
    body: bytes

    def __str__(self) -> str:
        return f"{self.id} ({self.key} with fence {self.fence})"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Headers
    body: bytes

    def field(self, name: str) -> str | None:
        return next((v for n, v in self.headers if n.lower() == name), None)

    @property
    def decision(self) -> str | None:
        return self.field("fencegate-decision")

    @property
    def succeeded(self) -> bool:
        return self.decision in ("forwarded", "replayed") and 200 <= self.status < 300

    @property
    def high_water(self) -> int:
        return int(self.field("fencegate-high-water") or 0)

    @property
    def problem(self) -> dict[str, object]:
        """The members of a problem document; none of any other answer."""
        if self.field("content-type") != "application/problem+json":
            return {}
        members = json.loads(self.body)
        assert isinstance(members, dict)
        return members

    @property
    def code(self) -> object:
        return self.problem.get("code")

    @property
    def of_the_upstream(self) -> tuple[int, Headers, bytes]:
        """What a replay must repeat byte for byte."""
        kept = tuple(
            (name.lower(), value)
            for name, value in self.headers
            if not name.lower().startswith(_OURS) and name.lower() not in _HOP
        )
        return self.status, kept, self.body

    def __str__(self) -> str:
        return f"{self.status} {self.code or self.decision or ''}".strip()


@dataclass(frozen=True, slots=True)
class Said:
    """What a client was told in the end; no answer means that its connection was cut."""

    call: Call
    began: float
    ended: float
    answer: Answer | None

    def __str__(self) -> str:
        return "cut" if self.answer is None else str(self.answer)


@dataclass(frozen=True, slots=True)
class Write:
    """One request as the upstream read it, in the order of first bytes; `answer` is what the
    upstream wrote in return, None if that was not a whole answer."""

    call: Call
    at: float
    effects: int
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class Log:
    said: tuple[Said, ...]
    writes: tuple[Write, ...]

    @property
    def keys(self) -> list[str]:
        return sorted({said.call.key for said in self.said})

    def told(self, key: str) -> list[tuple[Said, Answer]]:
        """The answers under a key, in the order in which they came."""
        told = [(said, said.answer) for said in self.said if said.answer and said.call.key == key]
        return sorted(told, key=lambda pair: pair[0].ended)

    def effects(self, key: str) -> list[Write]:
        return [write for write in self.writes if write.call.key == key and write.effects]


def judge(log: Log) -> list[str]:
    """Every violation, in a sentence."""
    rules = (
        one_effect_a_key,
        success_has_its_effect,
        replays_repeat_the_first_answer,
        unsent_was_never_sent,
        fences_rise_on_the_wire,
        old_fences_are_refused,
    )
    return [violation for rule in rules for violation in rule(log)]


def one_effect_a_key(log: Log) -> Iterator[str]:
    """At most one effect under a key."""
    for key in log.keys:
        effects = log.effects(key)
        count = sum(write.effects for write in effects)
        if count > 1:
            calls = ", ".join(write.call.id for write in effects)
            yield f"{key} had {count} effects, by {calls}"


def success_has_its_effect(log: Log) -> Iterator[str]:
    """A call answered as success has exactly one effect, and that with its own body."""
    for key in log.keys:
        effects = log.effects(key)
        for said, answer in log.told(key):
            if not answer.succeeded:
                continue
            if sum(write.effects for write in effects) != 1:
                count = sum(write.effects for write in effects)
                yield f"{said.call} was answered {answer}, and its key had {count} effects"
            elif effects[0].call.body != said.call.body:
                by = effects[0].call.id
                yield f"{said.call} was answered {answer}, and the effect was that of {by}'s body"


def replays_repeat_the_first_answer(log: Log) -> Iterator[str]:
    """A replay is the first kept answer of the upstream, byte for byte, and so the same each
    time."""
    for key in log.keys:
        written = [write.answer for write in log.writes if write.call.key == key]
        kept = [answer for answer in written if answer and answer.status not in _NOT_KEPT]
        for said, answer in log.told(key):
            if answer.decision != "replayed":
                continue
            if not kept:
                yield f"{said.call} was replayed {answer}, and the upstream never gave an answer"
            elif answer.of_the_upstream != kept[0].of_the_upstream:
                yield f"the replay to {said.call} is not the first answer, byte for byte"


def unsent_was_never_sent(log: Log) -> Iterator[str]:
    """`sent: false` is said only if no attempt from before has, or will have, an effect."""
    for key in log.keys:
        for said, answer in log.told(key):
            if answer.problem.get("sent") is not False:
                continue
            for write in log.effects(key):
                if _began(log, write) < said.ended:
                    when = "had had its effect" if write.at < said.ended else "had its effect later"
                    yield f"{said.call} was told `sent: false`, and {write.call.id} {when}"


def fences_rise_on_the_wire(log: Log) -> Iterator[str]:
    """On an entity no write of a lower fence comes after one of a higher fence."""
    highest: dict[str, Write] = {}
    for write in log.writes:
        before = highest.setdefault(write.call.entity, write)
        if write.call.fence < before.call.fence:
            what = "had its effect" if write.effects else "was written"
            yield f"{write.call} {what} after {before.call}"
        else:
            highest[write.call.entity] = write


def old_fences_are_refused(log: Log) -> Iterator[str]:
    """Once an answer has shown a high water, each later call below it is 412, or the replay of
    what was done before, marked as stale."""
    for said in log.said:
        water = max(
            (
                other.answer.high_water
                for other in log.said
                if other.answer
                and other.ended <= said.began
                and other.call.entity == said.call.entity
            ),
            default=0,
        )
        if said.answer is None or said.call.fence >= water:
            continue
        refused = said.answer.status == 412 and said.answer.code == "stale_fence"
        replayed = said.answer.decision == "replayed"
        if not refused and not (replayed and said.answer.field("fencegate-fence") == "stale"):
            yield f"{said.call} was answered {said.answer} after {water} was accepted"


def _began(log: Log, write: Write) -> float:
    """When the client made the call that was written."""
    return next((said.began for said in log.said if said.call.id == write.call.id), write.at)
