"""How identities are read is kept on the ledger, and another reading waits for what is open."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from fencegate.core.identity import OBSERVE, OBSERVED, Adopted, Change, Identities, NotAdopted
from fencegate.core.model import DAY, SECOND, Entity, EntityId, word_of
from fencegate.core.reasons import Reason
from fencegate.ledger.protocol import Filter, Ledger
from tests.conformance.calls import (
    ACT,
    ANSWERED,
    HOLD,
    IN_DOUBT,
    INVOICE,
    TERMS,
    call,
    refused,
    went,
)
from tests.conformance.ledgers import (
    FakeClock,
    Kind,
    durable_ledgers,
    every_ledger,
    opened,
    shared_ledgers,
)
from tests.conformance.recipes import STATES, Scene

CHARGES, REFUNDS, AGENTS = "route POST /v1/charges", "route POST /v1/refunds", "caller agents"
WATCHED = f"{OBSERVE}POST /v1/charges"
PAYMENTS = {AGENTS: "known", CHARGES: "entity={path.charge}"}
CRM = {"route POST /notes": "entity={json./note}"}
STORED: Identities = {"payments": PAYMENTS, "crm": CRM}
OTHER: Identities = {"payments": {**PAYMENTS, CHARGES: "entity={query.charge}"}, "crm": CRM}
WATCHING: Identities = {"payments": {**PAYMENTS, WATCHED: "observe"}, "crm": CRM}
NOTHING_CHANGED = Adopted((), switched=False)


def one_change(live: int = 0) -> tuple[Change, ...]:
    return (Change("payments", (CHARGES,), live),)


async def adopted(ledger: Ledger, identities: Identities, *, accept: bool = False) -> None:
    told = await ledger.adopt(identities, accept, ACT)
    assert isinstance(told, Adopted)


async def keeps(ledger: Ledger, identities: Identities) -> bool:
    """Are these, and no others, what the ledger would compare with?"""
    gone = await ledger.adopt({}, True, ACT, preview=True)
    named = {
        change.upstream: {item for item in change.items if not item.startswith(OBSERVE)}
        for change in gone.changes
    }
    wanted = {
        name: {item for item in items if not item.startswith(OBSERVE)}
        for name, items in identities.items()
    }
    same = await ledger.adopt(identities, True, ACT, preview=True)
    return named == wanted and same == NOTHING_CHANGED


# --- what is kept --------------------------------------------------------------------------


@every_ledger
async def test_the_first_identities_are_kept_as_no_change(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        went(await ledger.admit(call(), TERMS))
        assert await ledger.adopt(STORED, False, ACT) == NOTHING_CHANGED
        assert await keeps(ledger, STORED)
        assert await ledger.audit() == ()


@every_ledger
async def test_the_same_again_changes_and_writes_nothing(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        await adopted(ledger, OTHER)
        await adopted(ledger, STORED)
        audit = await ledger.audit()
        went(await ledger.admit(call(), TERMS))
        other_type = MappingProxyType({n: MappingProxyType(STORED[n]) for n in reversed([*STORED])})
        for same in (STORED, other_type, {**STORED, "empty": {}}):
            assert await ledger.adopt(same, False, ACT) == NOTHING_CHANGED
        assert await ledger.audit() == audit
        assert len(audit) == 1


@every_ledger
async def test_what_is_adopted_replaces_all_that_was_kept(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        await adopted(ledger, STORED)
        wanted = {"payments": {REFUNDS: "a"}, "mail": {AGENTS: "known"}}
        assert await ledger.adopt(wanted, False, ACT) == Adopted(
            (Change("crm", tuple(CRM), 0), Change("payments", (AGENTS, CHARGES), 0)), False
        )
        assert await keeps(ledger, wanted)
        await adopted(ledger, {})
        assert await keeps(ledger, {})
        await adopted(ledger, STORED)
        assert await keeps(ledger, STORED)


@every_ledger
async def test_what_was_adopted_does_not_change_with_the_callers_mapping(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        mine = {"payments": {**PAYMENTS}}
        await adopted(ledger, mine)
        mine["payments"][CHARGES] = "entity={query.charge}"
        assert (await ledger.adopt(mine, False, ACT)).changes == one_change()


@every_ledger
async def test_items_that_are_new_are_kept_though_they_are_no_change(
    kind: Kind, tmp_path: Path
) -> None:
    more: Mapping[str, Mapping[str, str]] = {**STORED, "mail": {AGENTS: "known"}}
    async with opened(kind, tmp_path) as (ledger, _):
        await adopted(ledger, STORED)
        went(await ledger.admit(call(upstream="mail"), TERMS))
        assert await ledger.adopt(more, False, ACT) == NOTHING_CHANGED
        assert await keeps(ledger, more)
        gone = (Change("mail", (AGENTS,), 1),)
        assert await ledger.adopt(STORED, False, ACT) == NotAdopted(gone)


# --- what is refused -----------------------------------------------------------------------


@every_ledger
async def test_another_reading_is_refused_until_nothing_is_open_under_the_old_one(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        await adopted(ledger, STORED)
        first, second = call("first"), call("second")
        for each in (first, second):
            went(await ledger.admit(each, TERMS))
        assert await ledger.adopt(OTHER, False, ACT) == NotAdopted(one_change(2))
        await ledger.settle(first.record_id, first.attempt, ANSWERED)
        await ledger.settle(second.record_id, second.attempt, IN_DOUBT)
        assert await ledger.adopt(OTHER, False, ACT) == NotAdopted(one_change(1))
        assert await keeps(ledger, STORED)
        assert await ledger.audit() == (), "nothing was changed, nothing is audited"
        await ledger.settle(second.record_id, second.attempt, ANSWERED)
        assert await ledger.adopt(OTHER, False, ACT) == Adopted(one_change(), False)
        assert await keeps(ledger, OTHER)


@every_ledger
async def test_an_accepted_change_is_adopted_whatever_is_open(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        await adopted(ledger, STORED)
        went(await ledger.admit(call(), TERMS))
        clock.move(SECOND)
        wanted = {"payments": OTHER["payments"]}
        changes = (Change("crm", tuple(CRM), 0), *one_change(1))
        assert await ledger.adopt(wanted, True, ACT) == Adopted(changes, False)
        assert await keeps(ledger, wanted)
        crm, payments = await ledger.audit()
        for row in (crm, payments):
            assert (row.actor, row.act, row.reason) == (ACT.actor, "adopt", ACT.reason)
            assert row.at == clock.now
        assert (crm.subject, payments.subject) == ("crm", "payments")
        assert "route POST /notes" in crm.result
        assert CHARGES in payments.result
        assert AGENTS not in payments.result


@every_ledger
async def test_what_other_upstreams_have_open_matters_to_nobody(kind: Kind, tmp_path: Path) -> None:
    """Neither does what is only observed: it has an upstream of its own."""
    async with opened(kind, tmp_path) as (ledger, _):
        await adopted(ledger, STORED)
        for upstream in ("crm", "payment", "Payments", f"{OBSERVED}payments"):
            went(await ledger.admit(call(upstream, upstream=upstream), TERMS))
        assert await ledger.adopt(OTHER, False, ACT) == Adopted(one_change(), False)


LIVE = {"sending", "listening", "unknown"}


@every_ledger
@pytest.mark.parametrize("state", STATES)
async def test_a_record_counts_as_long_as_it_is_open_or_unknown(
    kind: Kind, state: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        await adopted(ledger, STORED)
        scene, end = Scene("scene", 41), clock.now
        STATES[state](scene)
        for ago, step in sorted(scene.steps, key=lambda step: -step[0]):
            clock.now = end - ago
            await step(ledger)
        clock.now = end
        record = await ledger.inspect_key(scene.key())
        live = int(record is not None and word_of(record.state) in LIVE)
        told = await ledger.adopt(OTHER, False, ACT, preview=True)
        assert told.changes == one_change(live)
        assert isinstance(told, NotAdopted) == bool(live)


@every_ledger
@pytest.mark.parametrize("written", [False, True])
async def test_time_turns_an_open_record_unknown_and_then_ends_it(
    kind: Kind, written: bool, tmp_path: Path
) -> None:
    """To the instant, whether or not somebody has written it down."""
    async with opened(kind, tmp_path) as (ledger, clock):

        async def live() -> int:
            if written:
                await ledger.expire()
            (change,) = (await ledger.adopt(OTHER, False, ACT, preview=True)).changes
            return change.live

        await adopted(ledger, STORED)
        went(await ledger.admit(call("open"), replace(TERMS, tombstone=DAY)))
        doubted = call("unknown")
        went(await ledger.admit(doubted, replace(TERMS, tombstone=DAY)))
        await ledger.settle(doubted.record_id, doubted.attempt, IN_DOUBT)
        assert await live() == 2
        clock.move(HOLD)
        assert await live() == 2
        clock.move(DAY - HOLD - 1)
        assert await live() == 2
        clock.move(1)
        assert await live() == 1
        clock.move(HOLD - 1)
        assert await live() == 1
        clock.move(1)
        assert await live() == 0
        assert (await ledger.list(Filter(state="expired"))).records != ()
        await adopted(ledger, OTHER)


# --- from observing to enforcing -----------------------------------------------------------

ENTITIES = {name: EntityId("crm", name) for name in ("lower", "equal", "higher", "new", "alone")}
ROSE = ("higher", "new")


def watched(entity: EntityId) -> EntityId:
    return EntityId(f"{OBSERVED}{entity.domain}", entity.name)


async def entity(ledger: Ledger, id: EntityId) -> Entity:
    return (await ledger.inspect(id)).entity


async def announced(ledger: Ledger, id: EntityId, fence: int, holder: str) -> None:
    await ledger.announce(id, fence, holder, None)


async def watched_for_a_while(ledger: Ledger, clock: FakeClock) -> None:
    """Enforced at 41 but for `new`; observed around it, but for `alone`."""
    for name in ENTITIES.keys() - {"new"}:
        await announced(ledger, ENTITIES[name], 41, "enforced")
    clock.move(SECOND)
    for name, fence in (("lower", 40), ("equal", 41), ("higher", 2**63 - 1), ("new", 7)):
        await announced(ledger, watched(ENTITIES[name]), fence, "observed")
    clock.move(SECOND)


@every_ledger
@pytest.mark.parametrize("wanted", [STORED, {"crm": CRM}], ids=["route enforces", "upstream gone"])
async def test_a_route_that_no_longer_observes_starts_from_what_was_observed(
    kind: Kind, wanted: Identities, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        await adopted(ledger, WATCHING)
        await watched_for_a_while(ledger, clock)
        before = {name: await entity(ledger, id) for name, id in ENTITIES.items()}
        shadows = {name: await entity(ledger, watched(id)) for name, id in ENTITIES.items()}
        told = await ledger.adopt(wanted, False, ACT)
        assert isinstance(told, Adopted)
        assert told.switched
        for name, id in ENTITIES.items():
            rose = replace(shadows[name], id=id) if name in ROSE else before[name]
            assert await entity(ledger, id) == rose
            assert await entity(ledger, watched(id)) == Entity(watched(id))
        row = (await ledger.audit())[-1]
        assert (row.act, row.subject, row.result) == ("observed", "entities", str(len(ROSE)))
        assert (row.actor, row.reason, row.at) == (ACT.actor, ACT.reason, clock.now)
        zombie = call("zombie", 6, entity=ENTITIES["new"], upstream="crm")
        assert refused(await ledger.admit(zombie, TERMS)) is Reason.STALE_FENCE


@every_ledger
async def test_what_was_taken_over_is_not_taken_over_again(kind: Kind, tmp_path: Path) -> None:
    """Or a later switch would raise again what an operator has reset."""
    async with opened(kind, tmp_path) as (ledger, clock):
        await adopted(ledger, WATCHING)
        await watched_for_a_while(ledger, clock)
        await adopted(ledger, STORED)
        await ledger.freeze(ENTITIES["new"], True, ACT)
        await ledger.reset(ENTITIES["new"], 1, ACT)
        await adopted(ledger, WATCHING)
        await adopted(ledger, STORED)
        assert (await entity(ledger, ENTITIES["new"])).high_water == 1


@every_ledger
async def test_a_frozen_entity_stays_frozen_and_a_shadows_freezing_is_its_own(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        await adopted(ledger, WATCHING)
        await watched_for_a_while(ledger, clock)
        await ledger.freeze(ENTITIES["higher"], True, ACT)
        await ledger.freeze(watched(ENTITIES["new"]), True, ACT)
        await ledger.freeze(watched(ENTITIES["alone"]), True, ACT)
        await ledger.freeze(watched(EntityId("crm", "never enforced")), True, ACT)
        before = await entity(ledger, ENTITIES["alone"])
        await adopted(ledger, STORED)
        higher, new = [await entity(ledger, ENTITIES[name]) for name in ROSE]
        assert (higher.high_water, higher.frozen) == (2**63 - 1, True)
        assert (new.high_water, new.frozen) == (7, False)
        assert await entity(ledger, ENTITIES["alone"]) == before
        assert (await ledger.audit())[-1].result == str(len(ROSE)), "no high water, nothing rose"


@every_ledger
async def test_only_what_was_observed_is_taken_over(kind: Kind, tmp_path: Path) -> None:
    """By the whole prefix, in any domain, also in the one without a name."""
    async with opened(kind, tmp_path) as (ledger, _):
        await adopted(ledger, WATCHING)
        near = ("observe", "observe;crm", "observe9crm", "OBSERVE:crm", "xobserve:crm", "observed:")
        for number, domain in enumerate(near, 1):
            await announced(ledger, EntityId(domain, f"near {number}"), 41, "enforced")
        await announced(ledger, watched(INVOICE), 42, "observed")
        await announced(ledger, watched(EntityId("𝄞 ä", "𝄞")), 43, "observed")
        await adopted(ledger, STORED)
        assert (await ledger.audit())[-1].result == "2"
        assert (await entity(ledger, INVOICE)).high_water == 42
        assert (await entity(ledger, EntityId("𝄞 ä", "𝄞"))).high_water == 43
        for number, domain in enumerate(near, 1):
            for other in {"", "crm", domain[len(OBSERVED) :]} - {domain}:
                assert (await entity(ledger, EntityId(other, f"near {number}"))).high_water == 0


@every_ledger
async def test_as_long_as_all_go_on_observing_nothing_is_taken_over(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        await adopted(ledger, STORED)
        await watched_for_a_while(ledger, clock)
        before = [await entity(ledger, id) for id in ENTITIES.values()]
        await adopted(ledger, WATCHING)
        await adopted(ledger, {**WATCHING, "crm": {**CRM, WATCHED: "observe"}})
        assert [await entity(ledger, id) for id in ENTITIES.values()] == before
        assert await ledger.audit() == ()


@every_ledger
async def test_a_switch_is_not_held_up_by_what_is_open(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        await adopted(ledger, WATCHING)
        went(await ledger.admit(call(), TERMS))
        assert await ledger.adopt(STORED, False, ACT) == Adopted((), switched=True)
        assert [row.act for row in await ledger.audit()] == ["observed"]
        assert await ledger.adopt(STORED, False, ACT) == NOTHING_CHANGED


@every_ledger
async def test_a_refused_change_switches_nothing_either(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        await adopted(ledger, WATCHING)
        await watched_for_a_while(ledger, clock)
        went(await ledger.admit(call(), TERMS))
        before = [await entity(ledger, id) for id in ENTITIES.values()]
        assert await ledger.adopt(OTHER, False, ACT) == NotAdopted(one_change(1))
        assert [await entity(ledger, id) for id in ENTITIES.values()] == before
        changes = one_change(1)
        assert await ledger.adopt(OTHER, True, ACT) == Adopted(changes, switched=True)
        assert [row.act for row in await ledger.audit()] == ["adopt", "observed"]
        assert (await entity(ledger, ENTITIES["new"])).high_water == 7


# --- previews, restarts, several gateways --------------------------------------------------


@every_ledger
@pytest.mark.parametrize("accept", [False, True])
@pytest.mark.parametrize("live", [False, True])
async def test_a_preview_says_what_would_become_of_it_and_changes_nothing(
    kind: Kind, accept: bool, live: bool, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        await adopted(ledger, WATCHING)
        await watched_for_a_while(ledger, clock)
        if live:
            went(await ledger.admit(call(), TERMS))
        before = [await entity(ledger, id) for id in ENTITIES.values()]
        preview = await ledger.adopt(OTHER, accept, ACT, preview=True)
        assert preview.changes == one_change(int(live))
        assert [await entity(ledger, id) for id in ENTITIES.values()] == before
        assert await ledger.audit() == ()
        assert await keeps(ledger, WATCHING)
        assert await ledger.adopt(OTHER, accept, ACT) == preview


@durable_ledgers
async def test_what_was_adopted_outlives_the_process(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        await adopted(ledger, OTHER)
        await adopted(ledger, WATCHING)
        went(await ledger.admit(call(), TERMS))
        audit = await ledger.audit()
    async with opened(kind, tmp_path) as (ledger, _):
        assert await keeps(ledger, WATCHING)
        assert await ledger.adopt(WATCHING, False, ACT) == NOTHING_CHANGED
        assert await ledger.audit() == audit
        assert await ledger.adopt(OTHER, False, ACT) == NotAdopted(one_change(1))


@shared_ledgers
async def test_a_second_gateway_finds_what_the_first_has_adopted(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ours, clock):
        theirs = await kind.open(clock, tmp_path)
        await adopted(ours, STORED)
        assert await theirs.adopt(STORED, False, ACT) == NOTHING_CHANGED
        went(await theirs.admit(call(), TERMS))
        assert await ours.adopt(OTHER, False, ACT) == NotAdopted(one_change(1))
        assert await theirs.adopt(OTHER, True, ACT) == Adopted(one_change(1), False)
        assert await ours.adopt(OTHER, False, ACT) == NOTHING_CHANGED
        await theirs.close()


@shared_ledgers
async def test_of_many_gateways_that_adopt_the_same_one_writes_it(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ours, clock):
        theirs = await kind.open(clock, tmp_path)
        await adopted(ours, WATCHING)
        await watched_for_a_while(ours, clock)
        both = (ours, theirs) * 10
        told = await asyncio.gather(*(ledger.adopt(OTHER, False, ACT) for ledger in both))
        first = Adopted(one_change(), switched=True)
        assert sorted(each != first for each in told) == [False] + [True] * 19
        assert all(each in (first, NOTHING_CHANGED) for each in told)
        assert [row.act for row in await theirs.audit()] == ["adopt", "observed"]
        await theirs.close()
