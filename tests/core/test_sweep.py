"""The law against its second statement, over every case of a small domain.

Every call, record, neighbour, route and wait below is combined with every other. The numbers of
cases are stated, so that a domain that has shrunk is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest

from fencegate.core.admission import admit
from fencegate.core.fingerprint import Scheme
from fencegate.core.model import AttemptId, Compare, Go, RecordId, Snapshot
from fencegate.core.resolution import resolve
from fencegate.core.settlement import renew, settle
from tests.core import table
from tests.core.plain import (
    OUTCOMES,
    SAME,
    call_of,
    entity_of,
    left_of,
    others_of,
    record_of,
    settles_of,
    terms_of,
    verdict_of,
)
from tests.core.table import (
    DAY,
    NOW,
    SECOND,
    TIMEOUT,
    TOMBSTONE,
    Asks,
    Kept,
    Lower,
    Route,
    Tried,
    Verdict,
    World,
    admission,
    at,
    renewal,
    resolution,
    settlement,
)

# As text 9 is above 10; as a double 2**53 + 1 is 2**53, and the last three are one number.
SMALL = (9, 10, 11)
BEYOND_DOUBLES = (2**53, 2**53 + 1, 2**53 + 2)
LARGEST = (2**63 - 3, 2**63 - 2, 2**63 - 1)
FENCES = (SMALL, BEYOND_DOUBLES, LARGEST)

ADMISSIONS = 117_936
BOUNDARIES = 2_592
RESENDS = 5_184
STALE_REPLAYS = 156
LEADS = 1_152
SETTLEMENTS = 832
RENEWALS = 104
RESOLUTIONS = 936

# --- the domain ----------------------------------------------------------------------------

ADMITTED, SETTLED, LATER = NOW - 60 * SECOND, NOW - 50 * SECOND, NOW + 2
SENT = Tried("current", NOW - 5 * SECOND)
ENDED = Tried("current", ADMITTED, doubtful=SETTLED, ended=SETTLED)
CONNECTED = ENDED._replace(ended=None)
EARLIER = Tried("earlier", ADMITTED - SECOND, doubtful=SETTLED, ended=SETTLED)
ANSWERED = SENT._replace(ended=NOW - SECOND)
FORGOTTEN = Tried("current", 0, doubtful=NOW - TOMBSTONE, ended=NOW - TOMBSTONE)

SENDING = Kept("sending", LATER, (SENT,))
LISTENING = Kept("listening", LATER, (SENT,))
DONE = Kept("done", LATER, (ANSWERED,), status=201, body=True)
UNKNOWN = Kept("unknown", SETTLED + TOMBSTONE, (ENDED,))
EXPIRED = Kept("expired", LATER, (ENDED,))
DISOWNED = ("disowned",)
FREE = Kept("free", LATER, (), disowned=DISOWNED)

STATES: dict[str, Kept | None] = {
    "none": None,
    "sending": SENDING,
    "sending, hold out": SENDING._replace(until=NOW),
    "sending, hold and tombstone out": SENDING._replace(until=NOW - TOMBSTONE),
    "sending, streaming": SENDING._replace(yields_at=NOW + SECOND),
    "sending again": SENDING._replace(tried=(EARLIER, SENT)),
    "sending again, hold out": SENDING._replace(tried=(EARLIER, SENT), until=NOW),
    "sending after a disowned one": SENDING._replace(disowned=DISOWNED),
    "listening": LISTENING,
    "listening, hold out": LISTENING._replace(until=NOW),
    "done": DONE,
    "done again": DONE._replace(tried=(EARLIER, ANSWERED)),
    "done after a disowned one": DONE._replace(disowned=DISOWNED),
    "done, retention over": DONE._replace(until=NOW),
    "done, not kept": DONE._replace(body=False),
    "done, never seen": DONE._replace(status=None, body=False),
    "unknown": UNKNOWN,
    "unknown, connected": UNKNOWN._replace(tried=(CONNECTED,)),
    "unknown again": UNKNOWN._replace(tried=(EARLIER, ENDED)),
    "unknown again, earlier connected": UNKNOWN._replace(
        tried=(EARLIER._replace(ended=None), ENDED)
    ),
    "unknown after a disowned one": UNKNOWN._replace(disowned=DISOWNED),
    "unknown, tombstone over": Kept("unknown", NOW, (FORGOTTEN,)),
    "expired": EXPIRED,
    "expired, tombstone over": EXPIRED._replace(until=NOW),
    "free": FREE,
    "free, forgotten": FREE._replace(until=NOW),
}
PLAIN = ("none", "sending", "done", "unknown")

OPEN = Lower(0, "sending", NOW + 3 * SECOND)
LISTENING_ON = Lower(0, "listening", NOW + 9 * SECOND)
IN_DOUBT = Lower(0, "unknown", SETTLED + TOMBSTONE)
NEIGHBOURS: dict[str, tuple[Lower, ...]] = {
    "none": (),
    "open": (OPEN,),
    "unknown": (IN_DOUBT,),
    "open, hold out": (OPEN._replace(until=NOW),),
    "streaming, not for long": (OPEN._replace(yields_at=LATER),),
    "streaming, too long": (OPEN._replace(yields_at=NOW),),
    "unknown, open and listening": (IN_DOUBT, OPEN, LISTENING_ON),
}

FIRST = Asks(True, 0, "mine", "same")
WAITS = (
    FIRST,
    FIRST._replace(waited=True, found="current"),
    FIRST._replace(waited=True),
    FIRST._replace(waited=True, key_wait_over=True),
    FIRST._replace(waited=True, found="current", order_wait_over=True),
    FIRST._replace(probed=True),
)


class Who(NamedTuple):
    """Which of two keys, and which of two callers: configured, or known by its credential."""

    key: str
    caller: str
    configured: bool

    def asks(self, wait: Asks, fence: int, sort: str) -> Asks:
        """The record is that of the first caller under the first key."""
        second = self.caller == "caller 2"
        finds = self.key == "key 1" and not (second and self.configured)
        owner = "other" if second and not self.configured else "mine"
        return wait._replace(finds=finds, fence=fence, owner=owner, sort=sort)


WHO = [Who(*who) for who in product(("key 1", "key 2"), ("caller 1", "caller 2"), (True, False))]
MINE = WHO[0]

Case = tuple[Who, World, Asks, Route]


def agreed(cases: Iterable[Case]) -> int:
    """Ask the law about every case, and compare all it says and leaves behind with the table."""
    number = 0
    for who, world, asks, route in cases:
        kept_under = RecordId("payments", "caller 1" if who.configured else None, "key 1")
        call = call_of(asks, who.key, who.caller if who.configured else None)
        kept = world.kept if call.record_id == kept_under else None
        seen = Snapshot(
            entity_of(world.high_water, world.frozen),
            record_of(kept, kept_under) if kept else None,
            others_of(world.lower),
            latest=world.latest,
        )
        told = left_of(admit(seen, call, terms_of(route), world.now))
        assert told == admission(world, asks, route), (who, world, asks, route)
        number += 1
    print(f"{number} cases")
    return number


# --- admission -----------------------------------------------------------------------------

ROUTES = [
    Route(unknown, order, key_window=DAY)
    for unknown in ("refuse", "resend", "probe")
    for order in ("refuse", "proceed", "ignore")
]
GENEROUS = [Route("resend", "ignore", key_window=DAY)]


def whole_domain(low: int, middle: int, high: int) -> Iterator[Case]:
    """High water is the middle fence; what stands in the way of others has the lowest."""
    ways = [tuple(one._replace(fence=low) for one in way) for way in NEIGHBOURS.values()]
    for who, sort, frozen in product(WHO, ("same", "other"), (False, True)):
        asking = [who.asks(wait, fence, sort) for wait in WAITS for fence in (low, middle, high)]
        # The record of another is not looked at: a few states show it.
        states = STATES if asking[0].finds else PLAIN
        worlds = [World(middle, frozen, STATES[state], way) for state in states for way in ways]
        # What rows 1 to 3 refuse is refused under the most generous route too.
        refused = frozen or sort == "other" or asking[0].owner == "other"
        yield from product((who,), worlds, asking, GENEROUS if refused else ROUTES)


def test_every_call_is_decided_as_the_table_says() -> None:
    assert agreed(whole_domain(*SMALL)) == ADMISSIONS


def boundaries(fences: tuple[int, int, int]) -> Iterator[Case]:
    """Every fence against every high water, and against every fence that is still open."""
    for state, water, fence, below, order, wait in product(
        PLAIN, (0, *fences), fences, fences, ("refuse", "proceed", "ignore"), WAITS
    ):
        world = World(water, False, STATES[state], (OPEN._replace(fence=below),))
        yield MINE, world, MINE.asks(wait, fence, "same"), Route("resend", order, key_window=DAY)


@pytest.mark.parametrize("fences", [SMALL, BEYOND_DOUBLES, LARGEST], ids=str)
def test_fences_are_whole_numbers_however_close_and_large(fences: tuple[int, int, int]) -> None:
    assert agreed(boundaries(fences)) == BOUNDARIES


def resends() -> Iterator[Case]:
    """Row 9: how often, for how long, after which wait, and by a clock that has gone back."""
    times = (1, 2, 3, 4)
    limits = (0, 1, 3)
    windows = (None, 60 * SECOND + TIMEOUT, 60 * SECOND + TIMEOUT + 1, DAY)
    gone_back = (0, TIMEOUT, TIMEOUT + 1)
    ways = (NEIGHBOURS["none"], NEIGHBOURS["open"])
    for tries, limit, window, back, way, wait, unknown in product(
        times, limits, windows, gone_back, ways, WAITS, ("refuse", "resend", "probe")
    ):
        earlier = tuple(ENDED._replace(id=f"earlier {number}") for number in range(1, tries))
        kept = UNKNOWN._replace(tried=(*earlier, ENDED))
        world = World(1, False, kept, way, latest=NOW + back)
        route = Route(unknown, resend_limit=limit, key_window=window)
        yield MINE, world, MINE.asks(wait, 2, "same"), route


def test_an_unknown_outcome_is_resent_only_within_every_limit() -> None:
    assert agreed(resends()) == RESENDS


def stale_replays() -> Iterator[Case]:
    for state, water, replay in product(STATES, (1, 2, 3), ("replay", "refuse")):
        world = World(water, False, STATES[state], ())
        yield MINE, world, MINE.asks(FIRST, 2, "same"), Route(stale_replay=replay)


def test_a_replay_under_an_older_fence_is_refused_where_the_route_says_so() -> None:
    assert agreed(stale_replays()) == STALE_REPLAYS


def leads() -> Iterator[Case]:
    """Row 0, one below, at and one above the bound; before the freeze and before the record."""
    waters = (0, 7, NOW - 1, NOW, NOW + 1, 2**62)
    ahead = (0, 1, DAY, 2**61)
    for counted, lead, water, frozen, state, over in product(
        ("clock", "number"), ahead, waters, (False, True), PLAIN, (-1, 0, 1)
    ):
        start = max(water, NOW) if counted == "clock" else water
        world = World(water, frozen, STATES[state], ())
        asks = MINE.asks(FIRST, max(start + lead + over, 1), "same")
        yield MINE, world, asks, Route(lead=(counted, lead))


def test_a_fence_too_far_ahead_is_refused_and_raises_nothing() -> None:
    assert agreed(leads()) == LEADS


@pytest.mark.parametrize("state", STATES)
def test_a_record_under_another_scheme_is_compared_under_that_scheme(state: str) -> None:
    """After the caller is known to be the record's, and before the prints are compared."""
    kept = STATES[state]
    asks = MINE.asks(FIRST, 2, "same")
    call = call_of(asks, "key 1", "caller 1")
    old = replace(SAME, scheme=Scheme(ignore=("/sent_at",)))
    seen = Snapshot(entity_of(1, False))
    if kept is not None:
        record = replace(record_of(kept, call.record_id), fingerprint=old)
        seen = seen.with_record(record)
    said = admission(World(1, False, kept, ()), asks, Route())

    alone = admit(seen, call, terms_of(Route()), NOW)
    both = admit(seen, replace(call, prints=(*call.prints, old)), terms_of(Route()), NOW)

    used = kept is not None and said.verdict != "go"
    assert alone.verdict == Compare(old.scheme) if used else left_of(alone) == said
    assert left_of(both) == said


@pytest.mark.parametrize("state", [state for state, kept in STATES.items() if kept])
def test_a_call_asked_again_under_an_attempt_of_the_record_goes_as_before(state: str) -> None:
    """Nothing is decided anew, whatever has become of entity, fence and route; a hold that is
    out, or another attempt's, lets nothing be sent."""
    kept = at(STATES[state], NOW)
    for tried, frozen, water in product(kept.tried if kept else (), (False, True), (1, 9)):
        assert kept is not None
        call = call_of(MINE.asks(FIRST, 2, "other"), "key 1", "caller 1")
        again = replace(call, attempt=AttemptId(tried.id))
        seen = Snapshot(entity_of(water, frozen), record_of(kept, call.record_id))
        ruling = admit(seen, again, terms_of(Route(lead=("number", 0))), NOW)
        good = kept.state in table.OPEN and tried == kept.tried[-1]
        assert isinstance(ruling.verdict, Go)
        assert ruling.verdict.attempt == tried.id
        assert ruling.verdict.hold_left == (kept.until - NOW if good else 0)
        assert (ruling.left, ruling.notes) == (seen, ())


# --- settlement, renewal, resolution -------------------------------------------------------

ATTEMPTS = ("current", "earlier", "disowned", "foreign")
KEY = RecordId("payments", "caller 1", "key 1")


def snapshot_of(kept: Kept | None) -> Snapshot:
    return Snapshot(entity_of(1, False), record_of(kept, KEY) if kept else None)


def test_every_outcome_is_entered_as_the_table_says() -> None:
    number = 0
    for state, attempt, outcome in product(STATES, ATTEMPTS, OUTCOMES):
        kept = STATES[state]
        ruling = settle(snapshot_of(kept), AttemptId(attempt), OUTCOMES[outcome], NOW)
        assert settles_of(ruling) == settlement(kept, attempt, outcome), (state, attempt, outcome)
        number += 1
    print(f"{number} cases")
    assert number == SETTLEMENTS


def test_a_settlement_asked_twice_is_entered_once() -> None:
    """Where the first was believed, the second changes nothing."""
    for state, attempt, outcome in product(STATES, ATTEMPTS, OUTCOMES):
        once = settle(snapshot_of(STATES[state]), AttemptId(attempt), OUTCOMES[outcome], NOW)
        twice = settle(once.left, AttemptId(attempt), OUTCOMES[outcome], NOW + 1)
        assert twice.left == once.left, (state, attempt, outcome)


def test_a_hold_is_renewed_only_while_it_is_good_and_the_attempt_is_the_records() -> None:
    number = 0
    for state, attempt in product(STATES, ATTEMPTS):
        ruling = renew(snapshot_of(STATES[state]), AttemptId(attempt), NOW)
        assert settles_of(ruling) == renewal(STATES[state], attempt), (state, attempt)
        number += 1
    print(f"{number} cases")
    assert number == RENEWALS


def verdicts() -> Iterator[Verdict]:
    for word in ("applied", "applied with answer", "not applied", "abandon"):
        yield Verdict(word)
    since = NOW - SETTLED
    for word, attempt, after in product(
        ("probe yes", "probe no"), ATTEMPTS, (0, since - 1, since, since + 1)
    ):
        yield Verdict(word, attempt, after)


def test_every_verdict_ends_an_unknown_record_as_the_table_says() -> None:
    number = 0
    for state, verdict in product(STATES, verdicts()):
        ruling = resolve(snapshot_of(STATES[state]), verdict_of(verdict), NOW)
        assert settles_of(ruling) == resolution(STATES[state], verdict), (state, verdict)
        number += 1
    print(f"{number} cases")
    assert number == RESOLUTIONS
