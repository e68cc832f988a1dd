"""Fences are compared as whole numbers up to 2**63 - 1 on every ledger."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fencegate.core.model import EntityId, Replay, Terms, Wait, WaitFor
from fencegate.core.reasons import Reason
from fencegate.core.resolution import Announced, NotAnnounced
from fencegate.ledger.protocol import Ledger
from tests.conformance.calls import ANSWERED, TERMS, call, record_id, refused, went
from tests.conformance.fences import LARGEST, PAIRS
from tests.conformance.ledgers import FakeClock, Kind, every_ledger


def test_the_list_is_long_and_in_order() -> None:
    assert len(PAIRS) >= 60
    assert len(set(PAIRS)) == len(PAIRS)
    assert all(1 <= below < above <= LARGEST for below, above in PAIRS)


def entity_of(pair: tuple[int, int]) -> EntityId:
    return EntityId("", f"entity of {pair[0]} and {pair[1]}")


async def has(ledger: Ledger, entity: EntityId, high_water: int) -> None:
    water = (await ledger.inspect(entity)).entity.high_water
    assert water == high_water
    assert type(water) is int


async def both_ways(ledger: Ledger, pair: tuple[int, int]) -> None:
    """Below passes before above and not after it; an equal one passes always."""
    below, above = pair
    entity, key = entity_of(pair), f"key of {below} and {above}"

    first = call(f"first {key}", below, entity=entity)
    assert went(await ledger.admit(first, TERMS)).high_water == below
    equal = call(f"equal {key}", below, entity=entity)
    assert went(await ledger.admit(equal, TERMS)).high_water == below
    await has(ledger, entity, below)

    higher = call(f"higher {key}", above, entity=entity)
    waits = (await ledger.admit(higher, TERMS)).verdict
    assert isinstance(waits, Wait), waits
    assert waits.on is WaitFor.PREDECESSOR
    await has(ledger, entity, above)
    await ledger.settle(first.record_id, first.attempt, ANSWERED)
    await ledger.settle(equal.record_id, equal.attempt, ANSWERED)
    went(await ledger.admit(higher, TERMS))

    late = call(f"late {key}", below, entity=entity)
    assert refused(await ledger.admit(late, TERMS)) is Reason.STALE_FENCE
    again = (await ledger.admit(call(f"first {key}", below, entity=entity), TERMS)).verdict
    assert isinstance(again, Replay), again
    assert again.stale
    fresh = (await ledger.admit(call(f"first {key}", above, entity=entity), TERMS)).verdict
    assert isinstance(fresh, Replay), fresh
    assert not fresh.stale
    await has(ledger, entity, above)


@every_ledger
async def test_a_fence_is_below_at_or_above_another_by_its_number(
    kind: Kind, tmp_path: Path
) -> None:
    ledger = await kind.open(FakeClock(), tmp_path)
    await asyncio.gather(*(both_ways(ledger, pair) for pair in PAIRS))
    await ledger.close()


@every_ledger
async def test_an_announcement_is_compared_by_its_number(kind: Kind, tmp_path: Path) -> None:
    ledger = await kind.open(FakeClock(), tmp_path)

    async def announced(pair: tuple[int, int]) -> None:
        (below, above), entity = pair, entity_of(pair)

        async def said(fence: int) -> object:
            verdict, _ = await ledger.announce(entity, fence, None, None)
            return verdict

        assert await said(below) == Announced(below, raised=True)
        assert await said(above) == Announced(above, raised=True)
        assert await said(above) == Announced(above, raised=False)
        assert await said(below) == NotAnnounced(Reason.STALE_FENCE, above)
        await has(ledger, entity, above)

    await asyncio.gather(*map(announced, PAIRS))
    await ledger.close()


@every_ledger
async def test_the_fence_of_an_attempt_is_kept_exactly(kind: Kind, tmp_path: Path) -> None:
    """So is the fence in the journal, of what was refused."""
    ledger = await kind.open(FakeClock(), tmp_path)
    for fence in {fence for pair in PAIRS for fence in pair}:
        entity, key = EntityId("", f"entity of {fence}"), f"key of {fence}"
        went(await ledger.admit(call(key, fence, entity=entity), TERMS))
        record = await ledger.inspect_key(record_id(key))
        assert record is not None
        assert record.fence == fence
        [seen] = (await ledger.inspect(entity)).open
        assert seen.fence == fence

    await ledger.announce(EntityId("", "last"), LARGEST, None, None)
    stale = call("late", LARGEST - 1, entity=EntityId("", "last"))
    assert refused(await ledger.admit(stale, Terms(max_fence_lead=None))) is Reason.STALE_FENCE
    [row] = await ledger.journal()
    assert (row.fence, row.high_water) == (LARGEST - 1, LARGEST)
    await ledger.close()
