"""What a ledger's clock may do: step forward, step back, and pass instants that nobody swept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fencegate.core.model import (
    DAY,
    SECOND,
    FenceLead,
    Go,
    Held,
    Lost,
    Predecessor,
    Replay,
    Settled,
    Terms,
    Unknown,
    Wait,
)
from fencegate.core.outcomes import Doubt, TimedOut
from fencegate.core.reasons import Reason
from fencegate.ledger.protocol import Filter, Ledger
from tests.conformance.calls import (
    ANSWERED,
    HOLD,
    IN_DOUBT,
    INVOICE,
    RESEND,
    TERMS,
    UNSENT,
    call,
    record_id,
    refused,
    went,
)
from tests.conformance.ledgers import START, FakeClock, Kind, durable_ledgers, every_ledger

YEAR = 365 * DAY

# --- forward -------------------------------------------------------------------------------


@every_ledger
async def test_a_step_forward_makes_unknown_early_and_frees_nothing(
    kind: Kind, tmp_path: Path
) -> None:
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    sending, listening = call("sending"), call("listening")
    for each in (sending, listening):
        went(await ledger.admit(each, TERMS))
    await ledger.settle(listening.record_id, listening.attempt, TimedOut())

    clock.move(YEAR)
    for each in (sending, listening):
        record = await ledger.inspect_key(each.record_id)
        assert record is not None
        assert record.state == Unknown()
        assert [attempt.id for attempt in record.attempts] == [each.attempt]
        assert record.current.doubtful_since == START + HOLD
        assert record.current.evidence is not None
        assert record.current.evidence.doubt is Doubt.HOLD_RAN_OUT
        assert refused(await ledger.admit(call(each.key), TERMS)) is Reason.OUTCOME_UNKNOWN

    held = [(each.record_id, each.attempt) for each in (sending, listening)]
    assert await ledger.renew(held) == [Lost(), Lost()]
    clock.now = START + SECOND
    assert await ledger.renew(held) == [Lost(), Lost()], "what has run out is not revived"
    settled = await ledger.settle(sending.record_id, sending.attempt, ANSWERED)
    assert settled.verdict == Settled("done"), "what was written is settled by its id"
    await ledger.close()


@every_ledger
async def test_after_a_step_forward_a_successor_overtakes_and_says_so(
    kind: Kind, tmp_path: Path
) -> None:
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    went(await ledger.admit(call("first", 41), TERMS))
    assert isinstance((await ledger.admit(call("second", 42), TERMS)).verdict, Wait)
    clock.move(HOLD)
    told = await ledger.admit(call("second", 42), TERMS)
    assert isinstance(told.verdict, Go)
    assert [note.kind.value for note in told.notes] == ["overtook_unknown"]
    assert refused(await ledger.admit(call("third", 41), TERMS)) is Reason.STALE_FENCE
    await ledger.close()


@every_ledger
async def test_a_hold_is_good_until_its_last_microsecond(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    first = call()
    went(await ledger.admit(first, TERMS))
    for _ in range(3):
        clock.move(HOLD - 1)
        assert await ledger.renew([(first.record_id, first.attempt)]) == [Held(HOLD)]
    clock.move(HOLD)
    assert await ledger.renew([(first.record_id, first.attempt)]) == [Lost()]
    await ledger.close()


# --- back ----------------------------------------------------------------------------------


@every_ledger
async def test_a_step_back_only_delays(kind: Kind, tmp_path: Path) -> None:
    """Holds last longer, answers are kept longer, high water stays, the clock is not waited for."""
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    first, second = call("first", 42), call("second", 42)
    went(await ledger.admit(first, TERMS))
    await ledger.settle(first.record_id, first.attempt, ANSWERED)
    went(await ledger.admit(second, TERMS))

    clock.move(-YEAR)
    assert isinstance((await ledger.admit(call("first", 42), TERMS)).verdict, Replay)
    waits = (await ledger.admit(call("second", 42), TERMS)).verdict
    assert isinstance(waits, Wait)
    assert waits.lapses_in == YEAR + HOLD
    assert refused(await ledger.admit(call("third", 41), TERMS)) is Reason.STALE_FENCE
    assert (await ledger.inspect(INVOICE)).entity.high_water == 42
    went(await ledger.admit(call("third", 43), replace(TERMS, predecessor=Predecessor.IGNORE)))
    assert await ledger.expire() == 0
    await ledger.close()


async def _in_doubt(ledger: Ledger) -> None:
    first = call("first")
    went(await ledger.admit(first, RESEND))
    await ledger.settle(first.record_id, first.attempt, IN_DOUBT)


async def _resends(ledger: Ledger) -> bool:
    """Ask, and undo what went, so that it can be asked again."""
    asking = call("first")
    told = await ledger.admit(asking, RESEND)
    if isinstance(told.verdict, Go):
        await ledger.settle(asking.record_id, asking.attempt, UNSENT)
        return True
    assert refused(told) is Reason.OUTCOME_UNKNOWN
    return False


@every_ledger
async def test_a_clock_that_has_gone_back_by_more_than_timeout_resends_nothing(
    kind: Kind, tmp_path: Path
) -> None:
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    await _in_doubt(ledger)
    clock.move(DAY)
    await ledger.announce(INVOICE, 1, None, None)  # whatever is asked, the clock is seen
    latest, timeout = clock.now, RESEND.timeout
    for back, resends in (
        (0, True),
        (timeout, True),
        (timeout + 1, False),
        (DAY, False),
        (timeout + 1, False),
        (timeout, True),
    ):
        clock.now = latest - back
        assert await _resends(ledger) == resends, f"{back} microseconds back"
    await ledger.close()


@durable_ledgers
async def test_a_clock_that_has_gone_back_resends_nothing_after_a_restart_either(
    kind: Kind, tmp_path: Path
) -> None:
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    await _in_doubt(ledger)
    clock.move(DAY)
    await ledger.announce(INVOICE, 1, None, None)
    latest = clock.now
    await ledger.close()

    clock.now = latest - RESEND.timeout - 1
    ledger = await kind.open(clock, tmp_path)
    assert not await _resends(ledger)
    clock.now = latest - RESEND.timeout
    assert await _resends(ledger)
    await ledger.close()


# --- instants that nobody swept ------------------------------------------------------------


@every_ledger
async def test_a_key_expires_by_the_clock_at_admission_not_when_it_is_swept(
    kind: Kind, tmp_path: Path
) -> None:
    for swept in (False, True):
        place = tmp_path / str(swept)
        place.mkdir()
        clock = FakeClock()
        ledger = await kind.open(clock, place)
        first = call()
        went(await ledger.admit(first, TERMS))
        await ledger.settle(first.record_id, first.attempt, ANSWERED)

        async def asked(ledger: Ledger = ledger, swept: bool = swept) -> object:
            if swept:
                await ledger.expire()
            told = (await ledger.admit(call(), TERMS)).verdict
            return refused_or_word(told)

        clock.move(TERMS.retention - 1)
        assert await asked() == "Replay"
        clock.move(1)
        assert await asked() == "key_expired"
        clock.move(TERMS.tombstone - 1)
        assert await asked() == "key_expired"
        clock.move(1)
        assert await asked() == "Go"
        await ledger.close()


def refused_or_word(verdict: object) -> str:
    return getattr(verdict, "reason", type(verdict).__name__)


@every_ledger
async def test_lists_and_views_show_what_is_true_now(kind: Kind, tmp_path: Path) -> None:
    """No sweeper has come, and nothing was written since."""
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    went(await ledger.admit(call(), TERMS))

    async def shown() -> tuple[int, list[str]]:
        states = ("sending", "unknown", "expired")
        pages = [await ledger.list(Filter(state=state)) for state in states]
        words = [state for state, page in zip(states, pages, strict=True) if page.records]
        return len((await ledger.inspect(INVOICE)).open), words

    assert await shown() == (1, ["sending"])
    clock.move(HOLD)
    assert await shown() == (0, ["unknown"])
    clock.move(TERMS.tombstone)
    assert await shown() == (0, ["expired"])
    clock.move(TERMS.tombstone)
    assert await shown() == (0, [])
    assert await ledger.inspect_key(record_id()) is None
    await ledger.close()


@every_ledger
async def test_a_fences_lead_is_counted_from_the_ledgers_clock(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()
    ledger = await kind.open(clock, tmp_path)
    terms = Terms(max_fence_lead=FenceLead(DAY, clock=True))
    far = clock.now + DAY + 1
    assert refused(await ledger.admit(call("first", far), terms)) is Reason.FENCE_TOO_FAR
    assert (await ledger.inspect(INVOICE)).entity.high_water == 0
    clock.move(1)
    assert went(await ledger.admit(call("first", far), terms)).high_water == far
    went(await ledger.admit(call("second", far), terms))
    clock.move(-YEAR)
    further = call("third", far + DAY)
    assert isinstance((await ledger.admit(further, terms)).verdict, Wait), "from high water"
    await ledger.close()
