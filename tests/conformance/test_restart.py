"""A durable ledger that was closed and opened again is the same ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from fencegate.core.model import (
    SECOND,
    Done,
    Entity,
    EntityId,
    Held,
    OneEffectPer,
    Record,
    Replay,
    Settled,
    word_of,
)
from fencegate.core.outcomes import Answer, Responded, Streaming, TimedOut
from fencegate.core.reasons import Reason
from fencegate.core.resolution import Applied, NotApplied
from fencegate.ledger.protocol import Filter, Ledger
from tests.conformance.calls import (
    ACT,
    ANSWERED,
    HOLD,
    IN_DOUBT,
    INVOICE,
    TERMS,
    call,
    record_id,
    refused,
    went,
)
from tests.conformance.ledgers import FakeClock, Kind, durable_ledgers
from tests.conformance.recipes import NEIGHBOURS, STATES, Scene


@asynccontextmanager
async def opened(kind: Kind, clock: FakeClock, place: Path) -> AsyncIterator[Ledger]:
    ledger = await kind.open(clock, place)
    try:
        yield ledger
    finally:
        await ledger.close()


async def everything(ledger: Ledger, scenes: list[Scene]) -> list[object]:
    """All that a ledger shows."""
    views = [await ledger.inspect(scene.entity) for scene in scenes]
    records = [await ledger.inspect_key(key) for scene in scenes for key in scene.keys]
    page = await ledger.list(Filter(), limit=1_000)
    journal, audit = await ledger.journal(limit=1_000), await ledger.audit(limit=1_000)
    return [ledger.id, views, records, page, journal, audit]


@durable_ledgers
async def test_every_state_of_a_record_and_its_entity_outlives_the_process(
    kind: Kind, tmp_path: Path
) -> None:
    clock = FakeClock()
    end = clock.now
    scenes = []
    for state, neighbours in zip(STATES, [*NEIGHBOURS] * 3, strict=False):
        scene = Scene(f"scene {state}", 41)
        STATES[state](scene)
        NEIGHBOURS[neighbours](scene)
        scene.announced(2**63 - 2, 0.2)
        scene.frozen(0.1)
        scenes.append(scene)
    assert len(scenes) == len(STATES)

    async with opened(kind, clock, tmp_path) as ledger:
        for ago in sorted({ago for scene in scenes for ago, _ in scene.steps}, reverse=True):
            clock.now = end - ago
            for scene in scenes:
                for at, step in scene.steps:
                    if at == ago:
                        await step(ledger)
        clock.now = end
        before = await everything(ledger, scenes)
    async with opened(kind, clock, tmp_path) as ledger:
        assert await everything(ledger, scenes) == before


@durable_ledgers
async def test_an_answer_is_kept_byte_for_byte(kind: Kind, tmp_path: Path) -> None:
    """Headers in order, repeated, empty, in latin-1; a body of every byte, and an empty one."""
    every_byte = bytes(range(256))
    headers = (
        (b"Link", b"<a>"),
        (b"link", b"<b>"),
        (b"Link", b"<a>"),
        (b"x-empty", b""),
        (b"x-latin", bytes(range(0x80, 0x100))),
        (b"x-quotes", b'"\\\t{}'),
    )
    answers = [
        Answer(200, headers, every_byte * 3),
        Answer(204, (), b""),
        Answer(404, headers[::-1], "schön ✓".encode()),
    ]
    clock = FakeClock()
    async with opened(kind, clock, tmp_path) as ledger:
        for number, answer in enumerate(answers):
            first = call(f"key {number}")
            await ledger.admit(first, TERMS)
            await ledger.settle(first.record_id, first.attempt, Responded(answer))
        large = call("large")
        await ledger.admit(large, TERMS)
        await ledger.settle(large.record_id, large.attempt, Responded(answers[0].unkept()))

    async with opened(kind, clock, tmp_path) as ledger:
        for number, answer in enumerate(answers):
            told = (await ledger.admit(call(f"key {number}"), TERMS)).verdict
            assert isinstance(told, Replay)
            assert told.answer == answer
        gone = await ledger.admit(call("large"), TERMS)
        assert refused(gone) is Reason.ANSWER_NOT_KEPT
        record = await ledger.inspect_key(large.record_id)
        assert record is not None
        assert isinstance(record.state, Done)
        assert record.state.answer == answers[0].unkept()


@durable_ledgers
async def test_names_are_kept_as_they_came(kind: Kind, tmp_path: Path) -> None:
    """Entities, keys, callers and holders are any text; none is a case, a pattern or SQL."""
    names = [
        "a",
        "A",
        "ä",
        "a\u0308",
        "%",
        "_",
        "' OR 1=1 --",
        "\u2028",
        "𝄞",
        " ",
        "a\x00b",
        "1",
        "01",
    ]
    clock = FakeClock()
    async with opened(kind, clock, tmp_path) as ledger:
        for number, name in enumerate(names, 1):
            each = call(name, number, entity=EntityId(name, name), caller=name, holder=name)
            went(await ledger.admit(each, TERMS))
    async with opened(kind, clock, tmp_path) as ledger:
        for number, name in enumerate(names, 1):
            entity = EntityId(name, name)
            view = await ledger.inspect(entity)
            assert view.entity == Entity(entity, number, holder=name, accepted_at=clock.now)
            [record] = view.open
            assert record == await ledger.inspect_key(record.id)
            assert (record.id.caller, record.id.key) == (name, name)


@durable_ledgers
async def test_the_index_of_intents_is_kept(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()
    terms = replace(TERMS, one_effect_per=OneEffectPer.INTENT)
    async with opened(kind, clock, tmp_path) as ledger:
        first = call("first")
        await ledger.admit(first, terms)
        await ledger.settle(first.record_id, first.attempt, ANSWERED)
    async with opened(kind, clock, tmp_path) as ledger:
        told = (await ledger.admit(call("second"), terms)).verdict
        assert isinstance(told, Replay)
        assert told.matched_by_intent


@durable_ledgers
async def test_a_restarted_ledger_leaves_a_hold_that_is_good_to_its_gateway(
    kind: Kind, tmp_path: Path
) -> None:
    """Another process may own it: it is renewed and settled as if nothing had been."""
    clock = FakeClock()
    renewed, listening = call("renewed"), call("listening")
    async with opened(kind, clock, tmp_path) as ledger:
        for each in (renewed, listening):
            went(await ledger.admit(each, TERMS))
        await ledger.settle(listening.record_id, listening.attempt, TimedOut())
        await ledger.settle(renewed.record_id, renewed.attempt, Streaming(60 * SECOND))
    clock.move(HOLD - 1)
    async with opened(kind, clock, tmp_path) as ledger:
        assert await ledger.expire() == 0
        assert await words(ledger, "renewed", "listening") == ["sending", "listening"]
        held = [(each.record_id, each.attempt) for each in (renewed, listening)]
        assert await ledger.renew(held) == [Held(HOLD), Held(HOLD)]
    clock.move(HOLD - 1)
    async with opened(kind, clock, tmp_path) as ledger:
        assert await words(ledger, "renewed", "listening") == ["sending", "listening"]
        settled = await ledger.settle(renewed.record_id, renewed.attempt, ANSWERED)
        assert settled.verdict == Settled("done")
        clock.move(1)
        assert await words(ledger, "renewed", "listening") == ["done", "unknown"]


@durable_ledgers
async def test_a_late_answer_after_a_restart_finds_its_disowned_attempt(
    kind: Kind, tmp_path: Path
) -> None:
    clock = FakeClock()
    first = call()
    async with opened(kind, clock, tmp_path) as ledger:
        await ledger.admit(first, TERMS)
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        await ledger.resolve(first.record_id, NotApplied(), ACT)
        assert await words(ledger, first.key) == ["free"]
    async with opened(kind, clock, tmp_path) as ledger:
        told = await ledger.settle(first.record_id, first.attempt, ANSWERED)
        assert told.verdict == Settled("done")
        assert isinstance((await ledger.admit(call(), TERMS)).verdict, Replay)


@durable_ledgers
async def test_journal_and_audit_go_on_counting(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()
    for opening in range(1, 4):
        async with opened(kind, clock, tmp_path) as ledger:
            await ledger.announce(INVOICE, 42, None, None)
            refused(await ledger.admit(call(fence=41), TERMS))
            await ledger.resolve(record_id(), Applied(), ACT)
            assert [row.number for row in await ledger.journal()] == list(range(1, opening + 1))
            assert [row.number for row in await ledger.audit()] == list(range(1, opening + 1))


@durable_ledgers
async def test_another_place_is_another_ledger(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()
    places = [tmp_path / name for name in ("one", "two")]
    for place in places:
        place.mkdir()
    async with opened(kind, clock, places[0]) as one, opened(kind, clock, places[1]) as two:
        assert one.id != two.id
        await one.announce(INVOICE, 42, None, None)
        assert (await two.inspect(INVOICE)).entity.high_water == 0


async def words(ledger: Ledger, *keys: str) -> list[str]:
    records = [await ledger.inspect_key(record_id(key)) for key in keys]
    return [_word(record) for record in records]


def _word(record: Record | None) -> str:
    return "none" if record is None else word_of(record.state)
