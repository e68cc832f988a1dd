"""What is searched: three calls on one entity (or two, where a third would add nothing), under
terms and faults that differ.

Times are in ticks. A hold is two ticks long, so a renewal between two ticks keeps it, and two
ticks without one let it run out. The fences of the first two scenarios tell whole numbers from
text (9, 10) and from doubles (2**53, 2**53 + 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from fencegate.core.model import OneEffectPer, OnUnknown, Predecessor, Terms
from tests.core.search.store import FOR_EVER

Trouble = Literal[
    "connection lost",
    "timeout",
    "no connection",
    "refused before work",
    "streams",
    "stopped at the first byte",
    "late effects",
    "slow probe",
]


@dataclass(frozen=True, slots=True)
class Planned:
    """A call that will be made: its words, and the gateway it is made through."""

    key: str
    fence: int
    gateway: str
    caller: str | None = None
    credential: str = ""
    request: str = "pay 10"


class Chances(NamedTuple):
    """How often a fault (or an operator's act) may still happen. `troubles`: of the scenario's."""

    troubles: int = 0
    crashes: int = 0
    lost_acks: int = 0
    ledger_cuts: int = 0
    acts: int = 0
    clock_steps: int = 0


class Bounds(NamedTuple):
    """How far a search goes. `states`: what it is known to reach, so that less is a failure."""

    ticks: int
    chances: Chances
    states: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """`troubles` may happen at any time; `late effects` means that a request whose connection
    has ended may have its effect for ever, else it has it within the same tick or never.

    `memory`: for how long the upstream knows a key (None: it does not de-duplicate).
    `acts`: what an operator may do. `clock_steps`: by how much the ledger's clock may jump.
    `bad_links`: the gateways whose way to the ledger may fail.
    """

    name: str
    calls: tuple[Planned, ...]
    terms: Terms
    short: Bounds
    long: Bounds
    troubles: frozenset[Trouble] = frozenset({"connection lost", "timeout", "late effects"})
    memory: int | None = None
    acts: frozenset[str] = frozenset()
    clock_steps: tuple[int, ...] = ()
    bad_links: frozenset[str] = frozenset()

    @property
    def setback(self) -> int:
        """By how much the ledger's clock may have gone back."""
        return max([0, *(-by for by in self.clock_steps)])


PROBE_AFTER = 1
WHOLE = 2**53  # from here on a double cannot tell a number from the next

REFUSING = Terms(hold=2, timeout=1, retention=FOR_EVER, tombstone=FOR_EVER, max_fence_lead=None)
RESENDING = replace(REFUSING, on_unknown=OnUnknown.RESEND, key_window=FOR_EVER)

TAKEOVER = Scenario(
    "takeover",
    (Planned("k1", 9, "a"), Planned("k1", 10, "b"), Planned("k2", 10, "b")),
    REFUSING,
    short=Bounds(1, Chances(troubles=1), 3_710),
    long=Bounds(3, Chances(troubles=2, crashes=1), 75_076),
)
TWO_WORKERS = Scenario(
    "two_workers",
    (Planned("k1", WHOLE, "a"), Planned("k2", WHOLE, "b"), Planned("k2", WHOLE + 1, "a")),
    REFUSING,
    short=Bounds(2, Chances(), 4_589),
    long=Bounds(3, Chances(troubles=1, crashes=1), 61_530),
)
LOST_ACKS = Scenario(
    "lost_acks",
    (Planned("k1", 41, "a"), Planned("k1", 42, "b"), Planned("k2", 42, "b")),
    replace(REFUSING, hold=1),
    short=Bounds(1, Chances(lost_acks=1), 17_392),
    long=Bounds(2, Chances(troubles=1, lost_acks=1), 175_588),
    bad_links=frozenset({"a"}),
)
LEDGER_CUTS = Scenario(
    "ledger_cuts",
    (Planned("k1", 41, "a"), Planned("k1", 42, "b"), Planned("k2", 42, "b")),
    REFUSING,
    short=Bounds(1, Chances(ledger_cuts=1), 2_066),
    long=Bounds(2, Chances(troubles=1, ledger_cuts=1), 31_075),
    bad_links=frozenset({"a"}),
)
NOT_SENT = Scenario(
    "not_sent",
    (Planned("k1", 41, "a"), Planned("k1", 41, "b"), Planned("k2", 42, "a")),
    REFUSING,
    short=Bounds(1, Chances(troubles=2), 3_378),
    long=Bounds(3, Chances(troubles=2, crashes=1), 40_016),
    troubles=frozenset({"no connection", "refused before work", "late effects"}),
)
RESEND = Scenario(
    "resend",
    (Planned("k1", 41, "a"), Planned("k2", 41, "b"), Planned("k1", 42, "b")),
    RESENDING,
    short=Bounds(0, Chances(troubles=2), 2_167),
    long=Bounds(2, Chances(troubles=2, crashes=1), 192_917),
    troubles=frozenset({"connection lost", "refused before work", "late effects"}),
    memory=FOR_EVER,
)
KEY_WINDOW = Scenario(
    "key_window",
    (Planned("k1", 41, "a"), Planned("k1", 41, "b"), Planned("k1", 42, "b")),
    replace(RESENDING, hold=1, timeout=0, key_window=2),
    short=Bounds(2, Chances(), 4_635),
    long=Bounds(3, Chances(troubles=2, crashes=1), 99_895),
    troubles=frozenset({"connection lost", "no connection", "late effects"}),
    memory=2,
)
CLOCK_FORWARD = Scenario(
    "clock_forward",
    (Planned("k1", 41, "a"), Planned("k1", 42, "b"), Planned("k2", 42, "b")),
    REFUSING,
    short=Bounds(0, Chances(clock_steps=1), 2_570),
    long=Bounds(2, Chances(troubles=1, clock_steps=1), 86_399),
    clock_steps=(2,),
)
CLOCK_BACK = Scenario(
    "clock_back",
    (Planned("k1", 41, "a"), Planned("k1", 41, "b")),
    replace(RESENDING, hold=1, key_window=2),
    short=Bounds(2, Chances(clock_steps=1), 4_803),
    long=Bounds(3, Chances(troubles=2, clock_steps=1, crashes=1), 60_121),
    memory=2,
    clock_steps=(-1, -6),
)
CLOCK_BACK_TWO_KEYS = Scenario(
    "clock_back_two_keys",
    (Planned("k1", 41, "a"), Planned("k2", 42, "b")),
    replace(REFUSING, hold=1),
    short=Bounds(1, Chances(clock_steps=1), 1_043),
    long=Bounds(3, Chances(troubles=2, clock_steps=1), 25_115),
    clock_steps=(-1,),
)
PROBE = Scenario(
    "probe",
    (Planned("k1", 41, "a"), Planned("k1", 41, "b"), Planned("k2", 42, "b")),
    replace(REFUSING, on_unknown=OnUnknown.PROBE, hold=1),
    short=Bounds(2, Chances(), 15_013),
    long=Bounds(3, Chances(troubles=1, crashes=1), 462_220),
    troubles=frozenset({"connection lost", "timeout"}),
    acts=frozenset({"probe", "gone"}),
)
SLOW_PROBE = replace(
    PROBE,
    name="slow_probe",
    calls=PROBE.calls[:2],
    short=Bounds(1, Chances(troubles=1), 877),
    long=Bounds(3, Chances(troubles=2), 6_539),
    troubles=frozenset({"connection lost", "slow probe"}),
)
OPERATOR = Scenario(
    "operator",
    (Planned("k1", 41, "a"), Planned("k1", 42, "b"), Planned("k2", 42, "b")),
    replace(REFUSING, hold=1),
    short=Bounds(1, Chances(acts=1), 6_359),
    long=Bounds(2, Chances(troubles=1, acts=1, crashes=1), 233_721),
    troubles=frozenset({"connection lost", "timeout"}),
    acts=frozenset({"applied", "not applied", "abandoned", "gone"}),
)
PROCEED = Scenario(
    "proceed",
    (Planned("k1", 41, "a"), Planned("k2", 41, "b"), Planned("k2", 42, "a")),
    replace(REFUSING, predecessor=Predecessor.PROCEED),
    short=Bounds(1, Chances(), 1_447),
    long=Bounds(3, Chances(troubles=1, crashes=1), 78_507),
)
IGNORE = Scenario(
    "ignore",
    (Planned("k1", 41, "a"), Planned("k1", 42, "b"), Planned("k2", 42, "a")),
    replace(REFUSING, predecessor=Predecessor.IGNORE),
    short=Bounds(1, Chances(), 1_214),
    long=Bounds(3, Chances(troubles=1, crashes=1), 72_191),
)
OTHER_CREDENTIAL = Scenario(
    "other_credential",
    (
        Planned("k1", 41, "a", credential="token of alice"),
        Planned("k1", 41, "b", credential="token of bob"),
        Planned("k2", 42, "b", credential="token of bob"),
    ),
    REFUSING,
    short=Bounds(2, Chances(), 1_583),
    long=Bounds(3, Chances(troubles=1, crashes=1), 17_574),
)
TWO_CALLERS = Scenario(
    "two_callers",
    (
        Planned("k1", 41, "a", caller="alice"),
        Planned("k1", 41, "b", caller="bob"),
        Planned("k1", 42, "b", caller="bob"),
    ),
    REFUSING,
    short=Bounds(1, Chances(), 1_201),
    long=Bounds(3, Chances(troubles=1, crashes=1), 62_915),
)
REUSED_KEY = Scenario(
    "reused_key",
    (
        Planned("k1", 41, "a"),
        Planned("k1", 41, "b", request="pay 20"),
        Planned("k1", 42, "a", request="pay 20"),
    ),
    REFUSING,
    short=Bounds(2, Chances(troubles=1), 1_493),
    long=Bounds(3, Chances(troubles=2, crashes=1), 4_049),
)
INTENT = Scenario(
    "intent",
    (Planned("k1", 41, "a"), Planned("k2", 41, "b"), Planned("k2", 42, "a")),
    replace(REFUSING, one_effect_per=OneEffectPer.INTENT),
    short=Bounds(2, Chances(), 1_679),
    long=Bounds(3, Chances(troubles=1, crashes=1), 18_381),
    troubles=frozenset({"connection lost", "no connection", "late effects"}),
)
INTENT_RESEND = replace(
    INTENT,
    name="intent_resend",
    terms=replace(RESENDING, one_effect_per=OneEffectPer.INTENT),
    short=Bounds(1, Chances(troubles=1), 3_271),
    long=Bounds(2, Chances(troubles=2, crashes=1), 29_129),
    memory=FOR_EVER,
)
STOPPED = Scenario(
    "stopped",
    (Planned("k1", 41, "a"), Planned("k2", 42, "b"), Planned("k1", 42, "b")),
    REFUSING,
    short=Bounds(2, Chances(), 5_974),
    long=Bounds(3, Chances(troubles=1, crashes=1), 48_180),
    troubles=frozenset({"stopped at the first byte", "connection lost", "late effects"}),
)
STREAMS = Scenario(
    "streams",
    (Planned("k1", 41, "a"), Planned("k2", 42, "b"), Planned("k1", 42, "b")),
    REFUSING,
    short=Bounds(1, Chances(troubles=1), 5_416),
    long=Bounds(2, Chances(troubles=1, crashes=1), 42_442),
    troubles=frozenset({"streams", "connection lost", "late effects"}),
)
FROZEN = Scenario(
    "frozen",
    (Planned("k1", 41, "a"), Planned("k1", 42, "b"), Planned("k2", 42, "a")),
    REFUSING,
    short=Bounds(1, Chances(acts=2), 3_116),
    long=Bounds(2, Chances(troubles=1, acts=2), 45_134),
    acts=frozenset({"freeze"}),
)
RETENTION = Scenario(
    "retention",
    (Planned("k1", 41, "a"), Planned("k1", 41, "b"), Planned("k1", 42, "a")),
    replace(REFUSING, retention=1),
    short=Bounds(2, Chances(ledger_cuts=1), 2_542),
    long=Bounds(3, Chances(troubles=1, ledger_cuts=1, crashes=1), 18_865),
    bad_links=frozenset({"a"}),
)

SCENARIOS = (
    TAKEOVER,
    TWO_WORKERS,
    LOST_ACKS,
    LEDGER_CUTS,
    NOT_SENT,
    RESEND,
    KEY_WINDOW,
    CLOCK_FORWARD,
    CLOCK_BACK,
    CLOCK_BACK_TWO_KEYS,
    PROBE,
    SLOW_PROBE,
    OPERATOR,
    PROCEED,
    IGNORE,
    OTHER_CREDENTIAL,
    TWO_CALLERS,
    REUSED_KEY,
    INTENT,
    INTENT_RESEND,
    STOPPED,
    STREAMS,
    FROZEN,
    RETENTION,
)
