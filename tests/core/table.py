"""The law said a second time, as tables over plain values.

Written from the text of the law, in other words and another shape than the program's: nothing of
the program is used here. Each table is read from the top; the first line that fits decides.

    TIME        what a state becomes when its instant has come
    ADMISSION   how a call is decided, and whether high water rises
    SETTLEMENT  what an outcome does to a record, by who reports it and how the record stands
    RESOLUTION  what a verdict of an operator or a probe does to an unknown record
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

SECOND = 1_000_000
DAY = 86_400 * SECOND

HOLD = 15 * SECOND
TIMEOUT = 30 * SECOND
RETENTION = DAY
TOMBSTONE = 400 * DAY
STREAM_HOLD = 60 * SECOND
NOW = 1_000 * DAY


# --- what is seen --------------------------------------------------------------------------


class Tried(NamedTuple):
    """An attempt that may have been sent: in doubt since when, reported ended when."""

    id: str
    admitted: int
    doubtful: int | None = None
    ended: int | None = None


class Kept(NamedTuple):
    """What is kept under a key; `until` is when time changes it next."""

    state: str  # sending, listening, done, unknown, expired, free
    until: int
    tried: tuple[Tried, ...]
    owner: str = "mine"
    sort: str = "same"  # of the request it was made with
    status: int | None = None  # of its answer
    body: bool = False  # is the answer kept whole
    disowned: tuple[str, ...] = ()
    yields_at: int | None = None  # a streamed answer holds up nobody from then on


class Lower(NamedTuple):
    """Another key's record on the entity."""

    fence: int
    state: str  # sending, listening, unknown
    until: int
    yields_at: int | None = None


class World(NamedTuple):
    high_water: int
    frozen: bool
    kept: Kept | None
    lower: tuple[Lower, ...]
    now: int = NOW
    latest: int = NOW  # the latest instant ever seen on the clock


class Asks(NamedTuple):
    """A call, and what it has been through. `finds`: its key and its caller are those that the
    record is kept under; `owner` and `sort` are compared with the record's."""

    finds: bool
    fence: int
    owner: str
    sort: str
    waited: bool = False
    found: str | None = None
    key_wait_over: bool = False
    order_wait_over: bool = False
    probed: bool = False


class Route(NamedTuple):
    on_unknown: str = "refuse"
    predecessor: str = "refuse"
    stale_replay: str = "replay"
    resend_limit: int = 3
    key_window: int | None = None
    lead: tuple[str, int] | None = None  # ("clock" | "number", how far)


class Left(NamedTuple):
    """The verdict, what the caller is told with it, and what is left behind."""

    verdict: str
    high_water: int
    state: str
    tried: tuple[str, ...]
    notes: tuple[str, ...] = ()
    told: tuple[tuple[str, object], ...] = ()


OPEN = ("sending", "listening")


# --- TIME ----------------------------------------------------------------------------------

TIME = {
    "sending": "unknown",
    "listening": "unknown",
    "unknown": "expired",
    "done": "expired",
    "expired": "none",
    "free": "none",
}


def at(kept: Kept | None, now: int) -> Kept | None:
    """What is kept, by now. What follows an instant follows it by one tombstone."""
    while kept is not None and kept.until <= now:
        after = TIME[kept.state]
        if after == "none":
            return None
        if after == "unknown":
            last = kept.tried[-1]._replace(doubtful=kept.until)
            kept = kept._replace(tried=(*kept.tried[:-1], last))
        kept = kept._replace(state=after, until=kept.until + TOMBSTONE)
    return kept


def lower_at(lower: Lower, now: int) -> Lower:
    if lower.state in OPEN and lower.until <= now:
        return lower._replace(state="unknown")
    return lower


# --- ADMISSION -----------------------------------------------------------------------------


class Facts(NamedTuple):
    """What the lines below ask about."""

    too_far: bool
    frozen: bool
    state: str  # none and free are both "no record"
    others: bool  # the key is another caller's
    differs: bool
    body: bool
    stale: bool
    refuses_stale_replay: bool
    key_wait_over: bool
    order_wait_over: bool
    resend: bool
    probe: bool
    held_up: bool
    goes_ahead: bool


class Line(NamedTuple):
    row: int
    fits: Callable[[Facts], bool]
    verdict: str
    water: str  # does a higher fence raise high water?


STAYS, RISES = "stays", "rises"

ADMISSION = (
    Line(0, lambda f: f.too_far, "refuse fence_too_far", STAYS),
    Line(1, lambda f: f.frozen, "refuse frozen", STAYS),
    Line(2, lambda f: f.state != "none" and f.others, "refuse key_of_other_caller", STAYS),
    Line(3, lambda f: f.state != "none" and f.differs, "refuse key_reused", STAYS),
    Line(
        4,
        lambda f: f.state == "done" and f.body and f.stale and f.refuses_stale_replay,
        "refuse stale_fence",
        STAYS,
    ),
    Line(4, lambda f: f.state == "done" and f.body, "replay", RISES),
    Line(5, lambda f: f.state == "done", "refuse answer_not_kept", RISES),
    Line(6, lambda f: f.state == "expired", "refuse key_expired", RISES),
    Line(7, lambda f: f.stale, "refuse stale_fence", STAYS),
    Line(8, lambda f: f.state in OPEN and f.key_wait_over, "refuse in_flight", RISES),
    Line(8, lambda f: f.state in OPEN, "wait key", RISES),
    Line(9, lambda f: f.state == "unknown" and not f.resend and f.probe, "probe", RISES),
    Line(9, lambda f: f.state == "unknown" and not f.resend, "refuse outcome_unknown", RISES),
    # From here on nothing but the order on the wire is left: a resend, or no record.
    Line(10, lambda f: f.held_up and not f.order_wait_over, "wait predecessor", RISES),
    Line(10, lambda f: f.held_up and not f.goes_ahead, "refuse predecessor_open", RISES),
    Line(10, lambda f: True, "go", RISES),
)


def admission(world: World, asks: Asks, route: Route) -> Left:
    """What the law says of a call."""
    now = world.now
    kept = at(world.kept, now) if asks.finds else None
    below = [lower_at(one, now) for one in world.lower if one.fence < asks.fence]
    in_the_way = [
        one for one in below if one.state in OPEN and (one.yields_at is None or one.yields_at > now)
    ]
    used = kept is not None and kept.state != "free"
    facts = Facts(
        too_far=_too_far(world, asks, route),
        frozen=world.frozen,
        state=kept.state if kept is not None and used else "none",
        others=kept is not None and kept.owner != asks.owner,
        differs=kept is not None and kept.sort != asks.sort,
        body=kept is not None and kept.body,
        stale=asks.fence < world.high_water,
        refuses_stale_replay=route.stale_replay == "refuse",
        key_wait_over=asks.key_wait_over,
        order_wait_over=asks.order_wait_over,
        resend=kept is not None and _may_resend(world, kept, asks, route),
        probe=route.on_unknown == "probe" and not asks.probed,
        held_up=bool(in_the_way) and route.predecessor != "ignore",
        goes_ahead=route.predecessor == "proceed",
    )
    line = next(line for line in ADMISSION if line.fits(facts))

    water = max(world.high_water, asks.fence) if line.water == RISES else world.high_water
    state = kept.state if kept else "none"
    tried = tuple(one.id for one in kept.tried) if kept else ()
    told = _told(line.verdict, world, kept, asks, route, facts, in_the_way)
    if line.verdict != "go":
        return Left(line.verdict, water, state, tried, (), told)
    overtakes = bool(in_the_way) or any(one.state == "unknown" for one in below)
    notes = ("overtook_unknown",) if overtakes else ()
    return Left("go", water, "sending", (*tried, "asking"), notes, told)


def _too_far(world: World, asks: Asks, route: Route) -> bool:
    if route.lead is None:
        return False
    counted_from, how_far = route.lead
    start = max(world.high_water, world.now) if counted_from == "clock" else world.high_water
    return asks.fence - start > how_far


def _may_resend(world: World, kept: Kept, asks: Asks, route: Route) -> bool:
    """All of these must hold; the words are those of row 9."""
    if not kept.tried or route.key_window is None:
        return False
    first_admitted, current = kept.tried[0].admitted, kept.tried[-1].id
    resends_so_far = len(kept.tried) - 1
    return all(
        (
            route.on_unknown == "resend",
            resends_so_far < route.resend_limit,
            world.now < first_admitted + route.key_window - TIMEOUT,
            world.latest - world.now <= TIMEOUT,
            asks.found == current or not asks.waited,
        )
    )


def _told(
    verdict: str,
    world: World,
    kept: Kept | None,
    asks: Asks,
    route: Route,
    facts: Facts,
    in_the_way: list[Lower],
) -> tuple[tuple[str, object], ...]:
    now = world.now
    if verdict == "go":
        earlier = kept.tried if kept else ()
        window = earlier[0].admitted + (route.key_window or 0) - TIMEOUT - now if earlier else None
        return (("earlier", bool(earlier)), ("hold", HOLD), ("window", window))
    if verdict == "wait key":
        assert kept is not None
        return (("found", asks.found), ("lapses", kept.until - now))
    if verdict == "wait predecessor":
        found = kept.tried[-1].id if kept is not None and facts.resend else asks.found
        return (("found", found), ("lapses", max(one.until for one in in_the_way) - now))
    if verdict == "replay":
        return (("stale", facts.stale),)
    if verdict == "probe":
        assert kept is not None
        return (("attempt", kept.tried[-1].id),)

    known = facts.state != "none" and not facts.others
    sent = None if facts.state != "none" and facts.others else facts.state != "none"
    retry: int | None = None
    if verdict == "refuse in_flight" and kept is not None:
        retry = kept.until - now
    if verdict == "refuse predecessor_open":
        retry = max(one.until for one in in_the_way) - now
    return (
        ("sent", sent),
        ("state", facts.state if known else None),
        ("parts", ("body",) if verdict == "refuse key_reused" else ()),
        ("status", kept.status if kept and verdict == "refuse answer_not_kept" else None),
        ("retry", retry),
    )


# --- SETTLEMENT ----------------------------------------------------------------------------


class Said(NamedTuple):
    """The line of an outcome: `state` "same" leaves the record as it stands."""

    verdict: str
    state: str
    note: str | None = None


CONTRADICTED, EVIDENCE = "outcome_contradicted", "settlement_superseded"
UNDONE = "undone"

# who reports, how the record stands, what it reports: "*" is anything, "live" is open or unknown,
# "seen" is done with an answer whose status is known
SETTLEMENT: tuple[tuple[str, str, str, Said], ...] = (
    # Nothing is kept under the key.
    ("*", "none", "*", Said("superseded nothing", "same")),
    # The current attempt of an open or unknown record is believed.
    ("current", "sending", "timed_out", Said("settled listening", "listening")),
    ("current", "sending", "streaming", Said("settled sending", "same")),
    ("current", "listening", "timed_out", Said("settled listening", "same")),
    ("current", "listening", "streaming", Said("settled listening", "same")),
    ("current", "unknown", "timed_out", Said("settled unknown", "same")),
    ("current", "unknown", "streaming", Said("settled unknown", "same")),
    ("current", "live", "answer", Said("settled done", "done")),
    ("current", "live", "other answer", Said("settled done", "done")),
    ("current", "live", "large answer", Said("settled done", "done")),
    ("current", "live", "refused", Said("released", UNDONE)),
    ("current", "live", "not_sent", Said("released", UNDONE)),
    ("current", "live", "unknown", Said("settled unknown", "unknown")),
    # A closed record never changes. The same answer twice is none; a contradiction is said.
    ("current", "seen", "answer", Said("settled done", "same")),
    ("current", "seen", "large answer", Said("settled done", "same")),
    ("current", "seen", "other answer", Said("superseded", "same", CONTRADICTED)),
    ("current", "done", "refused", Said("superseded", "same", CONTRADICTED)),
    ("current", "done", "not_sent", Said("superseded", "same", CONTRADICTED)),
    # Called not applied, and yet it answers: the still free key is done after all.
    ("disowned", "free", "answer", Said("settled done", "done", CONTRADICTED)),
    ("disowned", "free", "other answer", Said("settled done", "done", CONTRADICTED)),
    ("disowned", "free", "large answer", Said("settled done", "done", CONTRADICTED)),
    ("disowned", "*", "answer", Said("superseded", "same", CONTRADICTED)),
    ("disowned", "*", "other answer", Said("superseded", "same", CONTRADICTED)),
    ("disowned", "*", "large answer", Said("superseded", "same", CONTRADICTED)),
    # What is to be undone was never there.
    ("foreign", "*", "not_sent", Said("superseded nothing", "same")),
    # Whoever else reports another answer than the one the record holds contradicts it.
    ("*", "seen", "other answer", Said("superseded", "same", CONTRADICTED)),
    ("*", "*", "*", Said("superseded", "same", EVIDENCE)),
)

ENDS = ("answer", "other answer", "large answer", "refused", "not_sent", "unknown")


class Settles(NamedTuple):
    """What is left after a settlement, a renewal or a resolution."""

    verdict: str
    state: str
    tried: tuple[str, ...]
    ended: tuple[bool, ...]  # whose end is reported, of those in `tried`
    disowned: tuple[str, ...]
    until: int | None
    notes: tuple[str, ...] = ()
    yields_at: int | None = None


def settlement(kept: Kept | None, attempt: str, outcome: str, now: int = NOW) -> Settles:
    """What the outcome of one attempt does."""
    kept = at(kept, now)
    state, who = kept.state if kept else "none", _who(kept, attempt)
    said = next(
        said
        for by, stands, what, said in SETTLEMENT
        if by in ("*", who) and stands in ("*", state, _group(kept)) and what in ("*", outcome)
    )
    notes = (said.note,) if said.note else ()
    if kept is None:
        return Settles(said.verdict, "none", (), (), (), None, notes)
    if said.state == UNDONE:
        return _undone(kept.tried[:-1], kept.disowned)

    tried, disowned = kept.tried, kept.disowned
    if who == "disowned" and said.state == "done":
        tried = (Tried(attempt, admitted=now),)
        disowned = tuple(id for id in disowned if id != attempt)
    closed = state in ("done", "expired") and who == "current"
    if outcome in ENDS and not closed:
        tried = tuple(_ended(one, now) if one.id == attempt else one for one in tried)
    if said.state == "unknown" and state != "unknown":
        tried = (*tried[:-1], tried[-1]._replace(doubtful=now))
    until = kept.until
    if said.state == "done":
        until = now + RETENTION
    if said.state == "unknown" and state != "unknown":
        until = now + TOMBSTONE
    left = state if said.state == "same" else said.state
    yields_at = kept.yields_at if left in OPEN else None
    if left in OPEN and who == "current" and outcome == "streaming" and yields_at is None:
        yields_at = now + STREAM_HOLD
    return _settles(said.verdict, left, tried, disowned, until, notes, yields_at)


def renewal(kept: Kept | None, attempt: str, now: int = NOW) -> Settles:
    """Held while open and current; else lost, for good."""
    kept = at(kept, now)
    if kept is None:
        return Settles("lost", "none", (), (), (), None)
    held = kept.state in OPEN and _who(kept, attempt) == "current"
    until = now + HOLD if held else kept.until
    yields_at = kept.yields_at if kept.state in OPEN else None
    verdict = "held" if held else "lost"
    return _settles(verdict, kept.state, kept.tried, kept.disowned, until, (), yields_at)


def _group(kept: Kept | None) -> str:
    if kept is None:
        return "none"
    if kept.state == "done":
        return "seen" if kept.status is not None else "unseen"
    return "live" if kept.state in (*OPEN, "unknown") else "closed"


def _who(kept: Kept | None, attempt: str) -> str:
    if kept is None:
        return "foreign"
    if kept.tried and kept.tried[-1].id == attempt:
        return "current"
    if any(one.id == attempt for one in kept.tried):
        return "earlier"
    return "disowned" if attempt in kept.disowned else "foreign"


def _ended(one: Tried, now: int) -> Tried:
    return one._replace(ended=now if one.ended is None else one.ended)


def _undone(tried: tuple[Tried, ...], disowned: tuple[str, ...]) -> Settles:
    """An attempt is undone, never an earlier one: that one's doubt is back."""
    if tried:
        assert tried[-1].doubtful is not None
        until = tried[-1].doubtful + TOMBSTONE
        return _settles("released unknown", "unknown", tried, disowned, until)
    if disowned:
        return _settles("released free", "free", (), disowned, None)
    return _settles("released free", "none", (), (), None)


def _settles(
    verdict: str,
    state: str,
    tried: tuple[Tried, ...],
    disowned: tuple[str, ...],
    until: int | None,
    notes: tuple[str, ...] = (),
    yields_at: int | None = None,
) -> Settles:
    ids = tuple(one.id for one in tried)
    ended = tuple(one.ended is not None for one in tried)
    timed = None if state in ("none", "free") else until
    return Settles(verdict, state, ids, ended, disowned, timed, notes, yields_at)


# --- RESOLUTION ----------------------------------------------------------------------------


class Verdict(NamedTuple):
    """applied, applied with answer, not applied, abandon; probe yes, probe no of an attempt."""

    word: str
    attempt: str | None = None
    after: int = 0


# what is said, what must hold besides "unknown", the code if it does not, what the record becomes
RESOLUTION: tuple[tuple[str, str, str, str], ...] = (
    ("applied with answer", "nothing", "", "done"),
    ("applied", "nothing", "", "done"),
    ("abandon", "nothing", "", "expired"),
    ("not applied", "every attempt has ended", "still_listening", "all undone"),
    ("probe yes", "it is the current attempt", "not_unknown", "done"),
    ("probe no", "it is the current attempt", "not_unknown", "(next line)"),
    ("probe no", "it has ended long enough", "still_listening", "last undone"),
)


def resolution(kept: Kept | None, verdict: Verdict, now: int = NOW) -> Settles:
    """What a verdict on an unknown record does."""
    kept = at(kept, now)
    if kept is None:
        return Settles("not_unknown", "none", (), (), (), None)
    yields_at = kept.yields_at if kept.state in OPEN else None
    unchanged = _settles(
        "not_unknown", kept.state, kept.tried, kept.disowned, kept.until, (), yields_at
    )
    if kept.state != "unknown":
        return unchanged
    becomes = ""
    for word, needs, code, then in RESOLUTION:
        if word == verdict.word:
            if not _holds(needs, kept, verdict, now):
                return unchanged._replace(verdict=code)
            becomes = then

    if becomes == "done":
        until = now + RETENTION
        return _settles("resolved done", "done", kept.tried, kept.disowned, until)
    if becomes == "expired":
        until = now + TOMBSTONE
        return _settles("resolved expired", "expired", kept.tried, kept.disowned, until)
    stay = 0 if becomes == "all undone" else len(kept.tried) - 1
    disowned = (*kept.disowned, *(one.id for one in kept.tried[stay:]))
    left = _undone(kept.tried[:stay], disowned)
    return left._replace(verdict=f"resolved {left.state}")


def _holds(needs: str, kept: Kept, verdict: Verdict, now: int) -> bool:
    current = kept.tried[-1]
    if needs == "every attempt has ended":
        return all(one.ended is not None for one in kept.tried)
    if needs == "it is the current attempt":
        return verdict.attempt == current.id
    if needs == "it has ended long enough":
        if current.ended is None or current.doubtful is None:
            return False
        return now - max(current.ended, current.doubtful) >= verdict.after
    return True
