"""The whole system as one small state, and every step that a scheduler may take from it.

A `World` is a few whole numbers: clocks, the ledger, a lane for each call, the faults still
allowed. Ledgers and lanes are kept once each in a table and stand under their number. What one
call may do next is worked out once for each (lane, ledger, moment); this module puts the parts
together and adds what concerns several calls: the upstream's memory of keys, probes, operators,
crashes, time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Generic, NamedTuple, TypeVar

from fencegate.core.model import Entity
from fencegate.core.resolution import Abandoned, Applied, NotApplied, VerdictOn
from tests.core.search.excuses import admits, frees, let_go, may_overtake, promised
from tests.core.search.lane import Cost, Did, Lane, Reply, Stride, crashed
from tests.core.search.scenarios import Bounds, Chances, Scenario
from tests.core.search.store import START, Ledger, Moment, Step, unknown_records
from tests.core.search.way import INVOICE, Space, Ways, space_of, word_of

AT_REST = ("idle", "over", "dead")
T = TypeVar("T")


class World(NamedTuple):
    """`skew`: by how much the ledger's clock was set; `seen`: the latest it ever showed."""

    time: int
    skew: int
    seen: int
    ledger: int
    lanes: tuple[int, ...]
    left: Chances


class Move(NamedTuple):
    """One step from a world to the next. `lane`: whose it is, -1 if nobody's."""

    says: str
    lane: int
    after: World
    step: Step | None = None
    reply: Reply | None = None
    did: Did = "step"


class _Way(NamedTuple):
    """A `Stride` with its parts as numbers; `touches` says that other calls are concerned."""

    says: str
    lane: int
    ledger: int
    step: Step | None
    reply: Reply | None
    did: Did
    cost: Cost | None
    touches: bool


class _Act(NamedTuple):
    """An operator's verdict as the law took it. `claims`: is it honest only if it was applied,
    only if it was not, or always (None)?"""

    says: str
    step: Step
    ledger: int
    claims: bool | None


class Table(Generic[T]):
    """Every value once, under a small number."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._values: list[T] = []

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def number(self, value: T) -> int:
        number = self._numbers.setdefault(value, len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number


class Model:
    """A scenario with its bounds: where it starts, and every move from a world."""

    def __init__(self, scenario: Scenario, bounds: Bounds) -> None:
        self.scenario = scenario
        self.bounds = bounds
        self.ways = Ways(scenario)
        self.calls = self.ways.calls
        self.spaces = self.ways.spaces
        self.ledgers: Table[Ledger] = Table()
        self.lanes: Table[Lane] = Table()
        self._ways_of = cache(self._ways_from)
        self._later = cache(self._lane_later)
        self._acts_on = cache(self._acts_from)
        self._freezes = cache(self._freeze)
        self._crashed = cache(lambda number: self.lanes.number(crashed(self.lanes[number])))

    def start(self) -> World:
        ledger = self.ledgers.number(Ledger(Entity(INVOICE)))
        lanes = (self.lanes.number(Lane()),) * len(self.calls)
        return World(0, 0, START, ledger, lanes, self.bounds.chances)

    def lanes_of(self, world: World) -> list[Lane]:
        return [self.lanes[number] for number in world.lanes]

    def moves(self, world: World) -> list[Move]:
        moves: list[Move] = []
        for index in range(len(world.lanes)):
            moves += self._steps(world, index)
        if "probe" in self.scenario.acts:
            moves.extend(self._probes(world))
        if world.left.acts:
            moves.extend(self._operator(world))
        if world.left.crashes:
            moves.extend(self._crashes(world))
        if world.left.clock_steps:
            moves.extend(self._clock_steps(world))
        moves.extend(self._tick(world))
        return moves

    # --- the steps of one call -------------------------------------------------------------

    def _steps(self, world: World, index: int) -> list[Move]:
        time, skew, seen, ledger, lanes, left = world
        lane = lanes[index]
        done, moves = self._owner_done(world, lane), []
        for says, number, book, step, reply, did, cost, touches in self._ways_of(
            index, lane, ledger, time, skew, seen, done
        ):
            paid = left
            if cost is not None:
                if not getattr(left, cost):
                    continue
                paid = _spent(left, cost)
            became = (*lanes[:index], number, *lanes[index + 1 :])
            if touches:
                became = self._touched(world, index, became, step, reply, did)
            after = World(time, skew, seen, book, became, paid)
            moves.append(Move(says, index, after, step, reply, did))
        return moves

    def _ways_from(
        self, index: int, number: int, ledger: int, time: int, skew: int, seen: int, done: bool
    ) -> list[_Way]:
        """What changes nothing is left out."""
        at, before = _moment(time, skew, seen), self.lanes[number]
        ways = []
        link_fails = self.scenario.calls[index].gateway in self.scenario.bad_links
        for stride in self.ways.of(index, before, self.ledgers[ledger], at, done):
            if stride.cost in ("lost_acks", "ledger_cuts") and not link_fails:
                continue
            lane, book = self.lanes.number(stride.lane), self.ledgers.number(stride.ledger)
            if (lane, book) != (number, ledger):
                says = f"call {index + 1} {stride.says}"
                did: Did = "end" if _ends(before, stride.lane) else stride.did
                touches = self._concerns_others(stride)
                ways.append(
                    _Way(says, lane, book, stride.step, stride.reply, did, stride.cost, touches)
                )
        return ways

    def _concerns_others(self, stride: Stride) -> bool:
        says_unsent = stride.reply is not None and stride.reply.sent is False
        remembered = stride.did == "byte" and self.scenario.memory is not None
        return admits(stride.step) or says_unsent or remembered or frees(stride.step)

    def _touched(
        self,
        world: World,
        index: int,
        became: tuple[int, ...],
        step: Step | None,
        reply: Reply | None,
        did: Did,
    ) -> tuple[int, ...]:
        """What the step of one call means for others, and what must be remembered of them."""
        lanes = [self.lanes[number] for number in became]
        if step is not None and admits(step):
            before = self.lanes_of(world)
            excused = may_overtake(self.ways, before, index, step, world.time)
            lanes[index] = lanes[index]._replace(may_overtake=excused)
        if did == "byte":
            lanes[index] = self._arriving(world, index, lanes[index])
        if reply is not None and reply.sent is False:
            lanes = promised(self.ways, lanes, index)
        if step is not None and frees(step):
            lanes = let_go(self.ways, lanes, step)
        return self._numbers(lanes)

    def _numbers(self, lanes: list[Lane]) -> tuple[int, ...]:
        return tuple(self.lanes.number(lane) for lane in lanes)

    # --- the upstream ----------------------------------------------------------------------

    def _owner_done(self, world: World, number: int) -> bool:
        lane = self.lanes[number]
        if lane.wire != "copy":
            return False
        return self.lanes[world.lanes[lane.copy_of]].wire == "performed"

    def _arriving(self, world: World, index: int, lane: Lane) -> Lane:
        """An upstream that knows the key performs nothing; a refused request it has forgotten."""
        memory = self.scenario.memory
        if memory is None:
            return lane
        for other, first in enumerate(self.lanes_of(world)):
            known = first.wire in ("pending", "performed") and world.time < first.arrived + memory
            if other != index and known and self.spaces[other] == self.spaces[index]:
                return lane._replace(wire="copy", copy_of=other)
        return lane._replace(arrived=world.time)

    def _performed(self, lanes: list[Lane], space: Space) -> int | None:
        """Whose attempt had the effect under this key, if any had."""
        for index, lane in enumerate(lanes):
            if lane.wire == "performed" and self.spaces[index] == space:
                return index
        return None

    def _probes(self, world: World) -> Iterator[Move]:
        """The upstream says what its log says now."""
        lanes = self.lanes_of(world)
        for index, lane in enumerate(lanes):
            if lane.phase == "probing":
                applied = self._performed(lanes, self.spaces[index]) is not None
                heard = lane._replace(phase="heard", applied=applied, read_at=world.time)
                became = self._numbers([*lanes[:index], heard, *lanes[index + 1 :]])
                says = f"call {index + 1} asks the upstream: {'' if applied else 'not '}applied"
                yield Move(says, index, world._replace(lanes=became))

    # --- operators -------------------------------------------------------------------------

    def _operator(self, world: World) -> Iterator[Move]:
        """An honest operator: what they say is what the upstream's log says."""
        lanes, left = self.lanes_of(world), _spent(world.left, "acts")
        time, skew, seen = world.time, world.skew, world.seen
        for space in dict.fromkeys(self.spaces):
            owner = self._performed(lanes, space)
            for act in self._acts_on(world.ledger, time, skew, seen, space, owner):
                if act.claims is False and not self._surely_not(lanes, space):
                    continue
                freed = frees(act.step)
                numbers = (
                    self._numbers(let_go(self.ways, lanes, act.step)) if freed else world.lanes
                )
                after = world._replace(ledger=act.ledger, lanes=numbers, left=left)
                yield Move(act.says, -1, after, act.step)
        if "freeze" in self.scenario.acts:
            step, number = self._freezes(world.ledger, time, skew, seen)
            word = "freezes" if step.after.entity.frozen else "unfreezes"
            after = world._replace(ledger=number, left=left)
            yield Move(f"an operator {word} the entity", -1, after, step)

    def _surely_not(self, lanes: list[Lane], space: Space) -> bool:
        """As far as anyone can see from outside: not in the log, nothing that has ended may
        still come. What is still connected, or not yet written, only the law can know."""
        mine = [lane for index, lane in enumerate(lanes) if self.spaces[index] == space]
        return not any(
            lane.wire == "performed" or (lane.wire == "pending" and not lane.connected)
            for lane in mine
        )

    def _acts_from(
        self, ledger: int, time: int, skew: int, seen: int, space: Space, owner: int | None
    ) -> tuple[_Act, ...]:
        at, before = _moment(time, skew, seen), self.ledgers[ledger]
        unknown = {space_of(record.id): record.id for record in unknown_records(before, at.ledger)}
        if space not in unknown:
            return ()
        acts = []
        for word, verdict, claims in self._verdicts(owner):
            if word in self.scenario.acts:
                step = self.ways.store.resolve(before, unknown[space], verdict, at)
                says = f"an operator calls {space[2]} {word}: {word_of(step)}"
                acts.append(_Act(says, step, self.ledgers.number(step.after), claims))
        return tuple(acts)

    def _verdicts(self, owner: int | None) -> list[tuple[str, VerdictOn, bool | None]]:
        """What may be said of a key, given whose attempt had the effect."""
        if owner is None:
            return [("not applied", NotApplied(), False), ("abandoned", Abandoned(), None)]
        answer = self.ways.answers[owner]
        return [("applied", Applied(answer), True), ("abandoned", Abandoned(), None)]

    def _freeze(self, ledger: int, time: int, skew: int, seen: int) -> tuple[Step, int]:
        before = self.ledgers[ledger]
        at = _moment(time, skew, seen)
        step = self.ways.store.freeze(before, not before.entity.frozen, at)
        return step, self.ledgers.number(step.after)

    # --- crashes and time ------------------------------------------------------------------

    def _crashes(self, world: World) -> Iterator[Move]:
        """Everything that a process knew is gone; who calls later meets its successor."""
        lanes, left = self.lanes_of(world), _spent(world.left, "crashes")
        planned = self.scenario.calls
        for gateway in dict.fromkeys(call.gateway for call in planned):
            hit = [
                planned[index].gateway == gateway and lane.phase not in AT_REST
                for index, lane in enumerate(lanes)
            ]
            if any(hit):
                became = tuple(
                    self._crashed(number) if gone else number
                    for number, gone in zip(world.lanes, hit, strict=True)
                )
                after = world._replace(lanes=became, left=left)
                yield Move(f"gateway {gateway} crashes", -1, after)

    def _tick(self, world: World) -> Iterator[Move]:
        time, skew, seen, ledger, lanes, left = world
        if time == self.bounds.ticks:
            return
        became = [self._later(number, time + 1) for number in lanes]
        if -1 not in became:
            seen = max(seen, START + time + 1 + skew)
            after = World(time + 1, skew, seen, ledger, tuple(became), left)
            yield Move("a tick goes by", -1, after, did="time")

    def _lane_later(self, number: int, time: int) -> int:
        """The lane at that time, -1 where it will not let time go by."""
        lane, troubles = self.lanes[number], self.scenario.troubles
        if lane.phase == "heard" and "slow probe" not in troubles:
            return -1  # what the probe has read is reported within the tick
        sure = lane.sure_until if time < lane.sure_until else 0
        window = lane.window_until if time < lane.window_until else 0
        if lane.phase == "cleared":
            if "stopped at the first byte" not in troubles:
                return -1
            lane = lane._replace(stopped=lane.stopped or not (sure and window))
        if lane.wire == "pending" and not lane.connected and "late effects" not in troubles:
            lane = lane._replace(wire="void")
        return self.lanes.number(lane._replace(sure_until=sure, window_until=window))

    def _clock_steps(self, world: World) -> Iterator[Move]:
        left = _spent(world.left, "clock_steps")
        for by in self.scenario.clock_steps:
            skew = world.skew + by
            seen = max(world.seen, START + world.time + skew)
            after = world._replace(skew=skew, seen=seen, left=left)
            yield Move(f"the ledger's clock steps by {by}", -1, after, did="time")


def _ends(before: Lane, lane: Lane) -> bool:
    return lane.phase == "over" and before.phase != "over"


def _moment(time: int, skew: int, seen: int) -> Moment:
    return Moment(time, START + time + skew, seen)


@cache
def _spent(left: Chances, cost: Cost) -> Chances:
    return left._replace(**{cost: getattr(left, cost) - 1})
