"""What each verb promises beside the rows of the law."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fencegate.core.model import (
    DAY,
    SECOND,
    Asked,
    EntityId,
    FenceLead,
    Go,
    Held,
    Lost,
    OneEffectPer,
    OnUnknown,
    Predecessor,
    Probe,
    RecordId,
    Released,
    Replay,
    Settled,
    Superseded,
    Terms,
    Wait,
    word_of,
)
from fencegate.core.outcomes import Streaming, TimedOut
from fencegate.core.reasons import Reason
from fencegate.core.resolution import (
    Abandoned,
    Announced,
    Applied,
    Frozen,
    NotAnnounced,
    NotApplied,
    NotReset,
    NotResolved,
    Probed,
    Reset,
    Resolved,
    VerdictOn,
)
from fencegate.ledger.protocol import Act, Filter, JournalRow, Ledger, Page
from tests.conformance.calls import (
    ACT,
    ANSWER,
    ANSWERED,
    DECLINED,
    HOLD,
    IN_DOUBT,
    INVOICE,
    REFUSED,
    RESEND,
    TERMS,
    UNDONE,
    UNSENT,
    call,
    new_attempt,
    record_id,
    refused,
    went,
)
from tests.conformance.ledgers import Kind, every_ledger, opened

INTENT = replace(TERMS, one_effect_per=OneEffectPer.INTENT)
WARN = replace(TERMS, one_effect_per=OneEffectPer.WARN)


async def state(ledger: Ledger, key: str = "capture") -> str:
    record = await ledger.inspect_key(record_id(key))
    return "none" if record is None else word_of(record.state)


async def water(ledger: Ledger, entity: EntityId = INVOICE) -> int:
    return (await ledger.inspect(entity)).entity.high_water


# --- announce ------------------------------------------------------------------------------


@every_ledger
async def test_an_announced_fence_shuts_out_the_zombie_before_its_successor_calls(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        assert await ledger.announce(INVOICE, 42, "worker-2", None) == (Announced(42, True), 0)
        entity = (await ledger.inspect(INVOICE)).entity
        assert (entity.high_water, entity.holder, entity.accepted_at) == (
            42,
            "worker-2",
            clock.now,
        )
        assert refused(await ledger.admit(call(fence=41), TERMS)) is Reason.STALE_FENCE
        went(await ledger.admit(call(fence=42), TERMS))


@every_ledger
async def test_an_announcement_is_raised_equal_lower_or_too_far(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        lead = FenceLead(10)

        async def said(fence: int, lead: FenceLead | None = lead) -> object:
            clock.move(1)
            return (await ledger.announce(INVOICE, fence, f"holder {fence}", lead))[0]

        assert await said(11) == NotAnnounced(Reason.FENCE_TOO_FAR, 0)
        assert await said(10) == Announced(10, raised=True)
        first = (await ledger.inspect(INVOICE)).entity
        assert await said(10) == Announced(10, raised=False)
        assert await said(9) == NotAnnounced(Reason.STALE_FENCE, 10)
        assert await said(21) == NotAnnounced(Reason.FENCE_TOO_FAR, 10)
        assert (await ledger.inspect(INVOICE)).entity == first, "nothing but a raise is recorded"
        assert await said(20) == Announced(20, raised=True)
        assert await said(10**9, None) == Announced(10**9, raised=True)


@every_ledger
async def test_an_announcement_works_on_a_frozen_entity(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        await ledger.freeze(INVOICE, True, ACT)
        assert await ledger.announce(INVOICE, 42, None, None) == (Announced(42, True), 0)
        assert (await ledger.inspect(INVOICE)).entity.frozen


@every_ledger
async def test_an_announcement_counts_the_open_attempts_below_it(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        sending, listening, ended = call("sending", 41), call("listening", 41), call("ended", 41)
        for each in (sending, listening, ended, call("equal", 42)):
            terms = replace(TERMS, predecessor=Predecessor.IGNORE)
            went(await ledger.admit(each, terms))
        await ledger.settle(listening.record_id, listening.attempt, TimedOut())
        await ledger.settle(ended.record_id, ended.attempt, IN_DOUBT)

        assert (await ledger.announce(INVOICE, 41, None, None))[1] == 0
        assert (await ledger.announce(INVOICE, 42, None, None))[1] == 2
        assert (await ledger.announce(INVOICE, 43, None, None))[1] == 3
        await ledger.settle(sending.record_id, sending.attempt, ANSWERED)
        assert (await ledger.announce(INVOICE, 43, None, None))[1] == 2
        clock.move(HOLD)
        assert (await ledger.announce(INVOICE, 43, None, None))[1] == 0


@every_ledger
async def test_a_routes_lead_is_counted_from_high_water(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        near = Terms(max_fence_lead=FenceLead(100))
        assert refused(await ledger.admit(call("first", 101), near)) is Reason.FENCE_TOO_FAR
        assert await water(ledger) == 0
        went(await ledger.admit(call("first", 100), near))
        went(await ledger.admit(call("second", 100), near))
        assert refused(await ledger.admit(call("third", 201), near)) is Reason.FENCE_TOO_FAR
        assert await water(ledger) == 100


# --- freeze and reset ----------------------------------------------------------------------


@every_ledger
async def test_a_frozen_entity_refuses_calls_and_lets_what_is_sending_run_on(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        first = call("first")
        went(await ledger.admit(first, TERMS))
        assert await ledger.freeze(INVOICE, True, ACT) == Frozen(True, changed=True)
        assert await ledger.freeze(INVOICE, True, ACT) == Frozen(True, changed=False)
        for key in ("first", "second"):
            assert refused(await ledger.admit(call(key, 2), TERMS)) is Reason.FROZEN
        assert await water(ledger) == 1
        other = call("elsewhere", entity=EntityId("", "invoice:2"))
        went(await ledger.admit(other, TERMS))

        clock.move(HOLD - 1)
        assert await ledger.renew([(first.record_id, first.attempt)]) == [Held(HOLD)]
        settled = await ledger.settle(first.record_id, first.attempt, ANSWERED)
        assert settled.verdict == Settled("done")

        assert await ledger.freeze(INVOICE, False, ACT) == Frozen(False, changed=True)
        went(await ledger.admit(call("second", 2), TERMS))


@every_ledger
async def test_a_reset_needs_a_frozen_entity_with_nothing_open(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        poison = call("first", 2**62)
        went(await ledger.admit(poison, TERMS))
        assert await ledger.reset(INVOICE, 41, ACT) == NotReset(Reason.NOT_FROZEN)
        await ledger.freeze(INVOICE, True, ACT)
        assert await ledger.reset(INVOICE, 41, ACT) == NotReset(Reason.STILL_OPEN)
        await ledger.settle(poison.record_id, poison.attempt, TimedOut())
        assert await ledger.reset(INVOICE, 41, ACT) == NotReset(Reason.STILL_OPEN)
        assert await water(ledger) == 2**62
        clock.move(HOLD)
        assert await ledger.reset(INVOICE, 41, ACT) == Reset(2**62, 41)
        entity = (await ledger.inspect(INVOICE)).entity
        assert (entity.high_water, entity.holder, entity.frozen) == (41, None, True)

        await ledger.freeze(INVOICE, False, ACT)
        assert refused(await ledger.admit(call("second", 40), TERMS)) is Reason.STALE_FENCE
        went(await ledger.admit(call("second", 41), TERMS))


@every_ledger
async def test_a_reset_empties_the_index_of_intents(kind: Kind, tmp_path: Path) -> None:
    """Also where high water comes out as it was."""
    async with opened(kind, tmp_path) as (ledger, _):
        first = call("first", 41)
        went(await ledger.admit(first, INTENT))
        await ledger.settle(first.record_id, first.attempt, ANSWERED)
        assert isinstance((await ledger.admit(call("second", 41), INTENT)).verdict, Replay)
        await ledger.freeze(INVOICE, True, ACT)
        assert await ledger.reset(INVOICE, 41, ACT) == Reset(41, 41)
        await ledger.freeze(INVOICE, False, ACT)
        went(await ledger.admit(call("second", 41), INTENT))


@every_ledger
async def test_every_act_is_in_the_audit_with_its_reason(kind: Kind, tmp_path: Path) -> None:
    """Also one that changed nothing; also what it was refused for."""
    async with opened(kind, tmp_path) as (ledger, clock):
        first = call()
        await ledger.admit(first, TERMS)
        await ledger.freeze(INVOICE, True, Act("ann", "reason 1"))
        await ledger.reset(INVOICE, 7, Act("bob", "reason 2"))
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        clock.move(SECOND)
        await ledger.reset(INVOICE, 7, Act("bob", "reason 3"))
        await ledger.freeze(INVOICE, False, Act("ann", "reason 4"))
        verdicts: tuple[VerdictOn, ...] = (NotApplied(), Applied(), Abandoned())
        for number, verdict in enumerate(verdicts, 5):
            await ledger.resolve(first.record_id, verdict, Act("eve", f"reason {number}"))

        rows = await ledger.audit()
        assert [row.number for row in rows] == list(range(1, 8))
        assert [row.reason for row in rows] == [f"reason {number}" for number in range(1, 8)]
        assert [row.actor for row in rows] == ["ann", "bob", "bob", "ann", "eve", "eve", "eve"]
        assert [row.at for row in rows] == [clock.now - SECOND] * 2 + [clock.now] * 5
        acts = [row.act for row in rows]
        assert acts[:4] == ["freeze", "reset", "reset", "unfreeze"]
        assert [act.split()[0] for act in acts[4:]] == ["resolve"] * 3
        assert all("invoice:8812" in row.subject for row in rows[:4])
        assert all("capture" in row.subject for row in rows[4:])
        assert "still_open" in rows[1].result
        assert "not_unknown" in rows[6].result
        assert await ledger.audit(after=5) == rows[5:]
        assert await ledger.audit(limit=2) == rows[:2]


# --- resolve -------------------------------------------------------------------------------


@every_ledger
async def test_an_operators_verdict_is_what_the_next_caller_gets(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):

        async def judged(key: str, verdict: VerdictOn) -> object:
            first = call(key)
            went(await ledger.admit(first, TERMS))
            await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
            told = await ledger.resolve(first.record_id, verdict, ACT)
            assert isinstance(told, Resolved), told
            return (await ledger.admit(call(key), TERMS)).verdict

        replayed = await judged("applied, with its answer", Applied(ANSWER))
        assert isinstance(replayed, Replay)
        assert replayed.answer == ANSWER
        for key, verdict, reason in (
            ("applied", Applied(), Reason.ANSWER_NOT_KEPT),
            ("abandoned", Abandoned(), Reason.KEY_EXPIRED),
        ):
            assert getattr(await judged(key, verdict), "reason", None) is reason
        assert isinstance(await judged("not applied", NotApplied()), Go)


@every_ledger
async def test_not_applied_is_refused_while_a_gateway_may_be_connected(
    kind: Kind, tmp_path: Path
) -> None:
    """To any attempt under the key: it speaks for all of them."""
    async with opened(kind, tmp_path) as (ledger, clock):
        first, second = call(), call()
        went(await ledger.admit(first, RESEND))
        clock.move(HOLD)
        still = NotResolved(Reason.STILL_LISTENING)
        assert await ledger.resolve(record_id(), NotApplied(), ACT) == still
        went(await ledger.admit(second, RESEND))
        await ledger.settle(second.record_id, second.attempt, IN_DOUBT)
        assert await ledger.resolve(record_id(), NotApplied(), ACT) == still
        assert await state(ledger) == "unknown"
        told = await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        assert told.verdict == Superseded()
        assert await ledger.resolve(record_id(), NotApplied(), ACT) == Resolved("free")


@every_ledger
async def test_a_probe_is_believed_only_about_the_attempt_that_it_asked_about(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        terms = replace(RESEND, on_unknown=OnUnknown.PROBE)
        first, second = call(), call()
        went(await ledger.admit(first, terms))
        clock.move(HOLD)
        probe = (await ledger.admit(call(), terms)).verdict
        assert probe == Probe(record_id(), first.attempt)

        no = Probed(first.attempt, applied=False, after=60 * SECOND)
        still = NotResolved(Reason.STILL_LISTENING)
        clock.move(DAY)
        assert await ledger.resolve(record_id(), no, ACT) == still, "its gateway may be connected"
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        assert await ledger.resolve(record_id(), no, ACT) == still, "it has only just ended"
        clock.move(60 * SECOND)
        went(await ledger.admit(second, RESEND))
        not_unknown = NotResolved(Reason.NOT_UNKNOWN)
        assert await ledger.resolve(record_id(), no, ACT) == not_unknown
        await ledger.settle(second.record_id, second.attempt, IN_DOUBT)
        yes = Probed(first.attempt, applied=True, after=0)
        assert await ledger.resolve(record_id(), yes, ACT) == not_unknown
        again = Probed(second.attempt, applied=False, after=0)
        assert await ledger.resolve(record_id(), again, ACT) == Resolved("unknown")
        assert await ledger.resolve(record_id(), no, ACT) == Resolved("free")


# --- late answers --------------------------------------------------------------------------


@every_ledger
async def test_a_disowned_attempts_late_answer_makes_the_free_key_done(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        first = call()
        went(await ledger.admit(first, TERMS))
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        await ledger.resolve(record_id(), NotApplied(), ACT)
        assert await state(ledger) == "free"
        told = await ledger.settle(first.record_id, first.attempt, ANSWERED)
        assert told.verdict == Settled("done")
        assert [note.kind.value for note in told.notes] == ["outcome_contradicted"]
        again = await ledger.settle(first.record_id, first.attempt, ANSWERED)
        assert (again.verdict, again.notes) == (Settled("done"), ())
        assert isinstance((await ledger.admit(call(), TERMS)).verdict, Replay)
        assert [row.kind for row in await ledger.journal()] == ["outcome_contradicted"]


@every_ledger
async def test_a_disowned_attempts_late_answer_changes_nothing_once_the_key_is_used_again(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        first, second = call(), call()
        went(await ledger.admit(first, TERMS))
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        await ledger.resolve(record_id(), NotApplied(), ACT)
        went(await ledger.admit(second, TERMS))
        for outcome in (None, DECLINED):
            if outcome:
                await ledger.settle(second.record_id, second.attempt, outcome)
            before = await ledger.inspect_key(record_id())
            told = await ledger.settle(first.record_id, first.attempt, ANSWERED)
            assert told.verdict == Superseded()
            assert [note.kind.value for note in told.notes] == ["outcome_contradicted"]
            assert await ledger.inspect_key(record_id()) == before

        await ledger.settle(second.record_id, second.attempt, ANSWERED)
        assert [row.kind for row in await ledger.journal()] == ["outcome_contradicted"] * 3
        clock.move(TERMS.tombstone)
        assert await state(ledger) == "expired"


@every_ledger
async def test_a_disowned_attempt_is_forgotten_after_a_tombstone(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        first = call()
        went(await ledger.admit(first, TERMS))
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        await ledger.resolve(record_id(), NotApplied(), ACT)
        clock.move(TERMS.tombstone - 1)
        assert await state(ledger) == "free"
        clock.move(1)
        assert await state(ledger) == "none"
        told = await ledger.settle(first.record_id, first.attempt, ANSWERED)
        assert told.verdict == Superseded(nothing=True)
        assert await state(ledger) == "none"


# --- undo, and asking again ----------------------------------------------------------------


@every_ledger
async def test_an_admission_asked_again_under_its_attempt_is_answered_the_same(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        first = call(fence=41)
        go = await ledger.admit(first, TERMS)
        assert await ledger.admit(first, TERMS) == go
        clock.move(SECOND)
        again = went(await ledger.admit(first, TERMS))
        assert again == replace(went(go), hold_left=HOLD - SECOND)
        await ledger.announce(INVOICE, 42, None, None)
        await ledger.freeze(INVOICE, True, ACT)
        assert went(await ledger.admit(first, TERMS)).attempt == first.attempt
        record = await ledger.inspect_key(first.record_id)
        assert record is not None
        assert [attempt.id for attempt in record.attempts] == [first.attempt]
        clock.move(HOLD)
        assert went(await ledger.admit(first, TERMS)).hold_left == 0, "nothing may be sent on it"


@every_ledger
async def test_an_unclear_admission_is_undone_by_its_attempt_and_high_water_stays(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        lost, other = call(fence=42), new_attempt()
        nothing = await ledger.settle(lost.record_id, lost.attempt, UNDONE)
        assert nothing.verdict == Superseded(nothing=True)
        went(await ledger.admit(lost, TERMS))
        told = await ledger.settle(lost.record_id, other, UNDONE)
        assert told.verdict == Superseded(nothing=True), "another attempt's undo"
        assert await state(ledger) == "sending"
        told = await ledger.settle(lost.record_id, lost.attempt, UNDONE)
        assert told.verdict == Released(unknown=False)
        assert await state(ledger) == "none"
        assert await water(ledger) == 42
        told = await ledger.settle(lost.record_id, lost.attempt, UNDONE)
        assert told.verdict == Superseded(nothing=True)


@every_ledger
async def test_an_undone_resend_leaves_the_earlier_doubt(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        first = call()
        went(await ledger.admit(first, RESEND))
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        before = await ledger.inspect_key(record_id())
        clock.move(SECOND)
        for outcome in (UNDONE, UNSENT, REFUSED):
            second = call()
            go = went(await ledger.admit(second, RESEND))
            assert go.earlier
            told = await ledger.settle(second.record_id, second.attempt, outcome)
            assert told.verdict == Released(unknown=True)
        record = await ledger.inspect_key(record_id())
        assert before is not None
        assert record is not None
        assert (record.attempts, record.state) == (before.attempts, before.state)
        assert refused(await ledger.admit(call(), TERMS)) is Reason.OUTCOME_UNKNOWN


@every_ledger
async def test_renewals_are_answered_in_order_each_for_itself(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        calls = [call(f"key {number}") for number in range(6)]
        for each in calls:
            went(await ledger.admit(each, TERMS))
        await ledger.settle(calls[1].record_id, calls[1].attempt, ANSWERED)
        await ledger.settle(calls[2].record_id, calls[2].attempt, IN_DOUBT)
        await ledger.settle(calls[3].record_id, calls[3].attempt, TimedOut())
        held = [(each.record_id, each.attempt) for each in calls]
        held[4] = (calls[4].record_id, new_attempt())
        held[5] = (record_id("never heard of"), calls[5].attempt)
        clock.move(SECOND)
        expected = [Held(HOLD), Lost(), Lost(), Held(HOLD), Lost(), Lost()]
        assert await ledger.renew(held) == expected
        assert await ledger.renew([]) == []
        clock.move(HOLD - 1)
        words = [await state(ledger, each.key) for each in calls]
        assert words == ["sending", "done", "unknown", "listening", "unknown", "unknown"]


# --- lists ---------------------------------------------------------------------------------


async def listed(ledger: Ledger, filter: Filter, limit: int = 100) -> list[RecordId]:
    """All pages; none is longer than asked for."""
    found: list[RecordId] = []
    after: RecordId | None = None
    for _ in range(1_000):
        page: Page = await ledger.list(filter, after, limit)
        assert len(page.records) <= limit
        found.extend(record.id for record in page.records)
        after = page.after
        if after is None:
            return found
    pytest.fail("the list does not end")


@every_ledger
async def test_lists_are_whole_and_in_order_whatever_the_filter_and_the_page(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        entities = [EntityId(domain, f"invoice:{n}") for domain in ("", "eu") for n in range(3)]
        known: dict[RecordId, tuple[EntityId, str]] = {}

        async def made(number: int) -> None:
            upstream = ("crm", "payments")[number % 2]
            caller = (None, "agents", "people")[number % 3]
            entity = entities[number % 6]
            each = call(f"key {number % 50}", upstream=upstream, caller=caller, entity=entity)
            if each.record_id in known:
                return
            known[each.record_id] = (entity, "sending")
            went(await ledger.admit(each, TERMS))
            if number % 4 == 1:
                await ledger.settle(each.record_id, each.attempt, ANSWERED)
                known[each.record_id] = (entity, "done")
            if number % 4 == 2:
                await ledger.settle(each.record_id, each.attempt, IN_DOUBT)
                known[each.record_id] = (entity, "unknown")

        await asyncio.gather(*map(made, range(300)))
        assert len(known) > 100
        in_order = sorted(known, key=lambda id: (id.upstream, id.caller or "", id.key))
        for limit in (1, 7, 100, 1_000):
            assert await listed(ledger, Filter(), limit) == in_order
        filters: list[tuple[Filter, Callable[[RecordId], bool]]] = [
            (Filter(upstream="crm"), lambda id: id.upstream == "crm"),
            (Filter(key="key 7"), lambda id: id.key == "key 7"),
            (Filter(entity=entities[4]), lambda id: known[id][0] == entities[4]),
            (Filter(state="done"), lambda id: known[id][1] == "done"),
            (Filter(state="unknown"), lambda id: known[id][1] == "unknown"),
            (Filter(state="sending"), lambda id: known[id][1] == "sending"),
            (Filter(state="listening"), lambda id: False),
            (
                Filter(upstream="payments", state="done", entity=entities[1]),
                lambda id: id.upstream == "payments" and known[id] == (entities[1], "done"),
            ),
        ]
        for filter, fits in filters:
            expected = [id for id in in_order if fits(id)]
            for limit in (3, 100):
                assert await listed(ledger, filter, limit) == expected, filter


@every_ledger
async def test_a_rare_state_is_found_behind_thousands_of_others(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        calls = [
            call(f"key {number:04}", entity=EntityId("", str(number))) for number in range(2_500)
        ]
        await asyncio.gather(*(ledger.admit(each, TERMS) for each in calls))
        rare = [calls[0], calls[999], calls[1_000], calls[1_001], calls[2_499]]
        for each in rare:
            await ledger.settle(each.record_id, each.attempt, IN_DOUBT)
        for limit in (1, 2, 100):
            found = await listed(ledger, Filter(state="unknown"), limit)
            assert found == [each.record_id for each in rare]


@every_ledger
async def test_a_list_shows_the_same_record_as_its_key_does(kind: Kind, tmp_path: Path) -> None:
    """But for the body of an answer, which a list may leave out."""
    async with opened(kind, tmp_path) as (ledger, _):
        for key, outcome in (("sending", None), ("unknown", IN_DOUBT), ("listening", TimedOut())):
            each = call(key)
            went(await ledger.admit(each, TERMS))
            if outcome:
                await ledger.settle(each.record_id, each.attempt, outcome)
        for record in (await ledger.list(Filter())).records:
            assert record == await ledger.inspect_key(record.id)


# --- expire --------------------------------------------------------------------------------


@every_ledger
async def test_expiry_works_in_small_steps_and_changes_nothing_that_is_seen(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        calls = [call(f"key {number:03}") for number in range(250)]
        await asyncio.gather(*(ledger.admit(each, TERMS) for each in calls))
        for each in calls[:100]:
            await ledger.settle(each.record_id, each.attempt, ANSWERED)
        assert await ledger.expire() == 0

        clock.move(HOLD)
        young = call("young", entity=EntityId("", "another"))
        went(await ledger.admit(young, TERMS))
        for gone, steps in (
            (0, [100, 50, 0]),  # 150 holds have run out
            (TERMS.retention - HOLD, [100, 1, 0]),  # 100 answers, and the young one's hold
            (TERMS.tombstone, [100, 100, 51, 0]),  # all but the young one's doubt
            (TERMS.tombstone, [100, 51, 0]),  # the doubts' tombstones
        ):
            clock.move(gone)
            shown = await _shown(ledger)
            assert [await ledger.expire(limit=100) for _ in steps] == steps
            assert await _shown(ledger) == shown
            assert await ledger.expire() == 0
        assert await water(ledger) == 1


async def _shown(ledger: Ledger) -> list[object]:
    views = [await ledger.inspect(INVOICE), await ledger.inspect(EntityId("", "another"))]
    ids = await listed(ledger, Filter())
    return [*views, ids, [await ledger.inspect_key(id) for id in ids]]


# --- journal -------------------------------------------------------------------------------


@every_ledger
async def test_a_refusal_is_in_the_journal_with_what_was_seen(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        await ledger.announce(INVOICE, 42, "worker-2", None)
        clock.move(SECOND)
        zombie = call("late", 41, holder="worker-1")
        refused(await ledger.admit(zombie, TERMS))
        assert await ledger.journal() == (
            JournalRow(
                number=1,
                at=clock.now,
                kind="refused",
                code="stale_fence",
                entity=INVOICE,
                record=zombie.record_id,
                fence=41,
                high_water=42,
                holder="worker-1",
                attempt=zombie.attempt,
            ),
        )


@every_ledger
async def test_the_journal_is_read_on_from_where_one_stopped(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        await ledger.announce(INVOICE, 42, None, None)
        for number in range(7):
            refused(await ledger.admit(call(f"key {number}"), TERMS))
        rows = await ledger.journal()
        assert [row.record.key for row in rows] == [f"key {number}" for number in range(7)]
        assert await ledger.journal(after=rows[4].number) == rows[5:]
        assert await ledger.journal(after=rows[1].number, limit=3) == rows[2:5]
        assert await ledger.journal(after=rows[-1].number) == ()


async def kinds(ledger: Ledger) -> list[str]:
    return [row.kind for row in await ledger.journal()]


@every_ledger
async def test_overtaking_is_put_in_the_journal_once(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        for number in range(3):
            each = call(f"doubtful {number}", 41)
            went(await ledger.admit(each, TERMS))
            await ledger.settle(each.record_id, each.attempt, IN_DOUBT)
        went(await ledger.admit(call("lapsed", 41), TERMS))
        clock.move(HOLD)
        first = call("first", 42)
        went(await ledger.admit(first, TERMS))
        assert await kinds(ledger) == ["overtook_unknown"]
        went(await ledger.admit(first, TERMS))
        assert await kinds(ledger) == ["overtook_unknown"], "asked again is not once more"

        hasty = call("hasty", 43)
        went(await ledger.admit(hasty, replace(TERMS, predecessor=Predecessor.IGNORE)))
        [_, row] = await ledger.journal()
        assert (row.kind, row.record, row.fence) == ("overtook_unknown", hasty.record_id, 43)
        assert (row.high_water, row.attempt, row.code) == (43, hasty.attempt, None)


@every_ledger
async def test_what_is_forgotten_is_not_overtaken(kind: Kind, tmp_path: Path) -> None:
    """A record whose tombstone time has come is in doubt no more, swept or not."""
    async with opened(kind, tmp_path) as (ledger, clock):
        went(await ledger.admit(call("lapsed", 41), TERMS))
        doubtful = call("doubtful", 41)
        went(await ledger.admit(doubtful, TERMS))
        await ledger.settle(doubtful.record_id, doubtful.attempt, IN_DOUBT)
        clock.move(HOLD + TERMS.tombstone)
        assert (await ledger.admit(call("first", 42), TERMS)).notes == ()
        assert await ledger.journal() == ()


@every_ledger
async def test_a_long_stream_holds_up_its_successors_for_a_while_only(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        stream = call("stream", 41)
        went(await ledger.admit(stream, TERMS))
        await ledger.settle(stream.record_id, stream.attempt, Streaming(5 * SECOND))
        clock.move(5 * SECOND - 1)
        assert isinstance((await ledger.admit(call("next", 42), TERMS)).verdict, Wait)
        clock.move(1)
        went(await ledger.admit(call("next", 42), TERMS))
        assert await state(ledger, "stream") == "sending"


@every_ledger
async def test_a_contradiction_is_put_in_the_journal(kind: Kind, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        first, second = call(fence=41), call(fence=41)
        went(await ledger.admit(first, RESEND))
        clock.move(HOLD)
        went(await ledger.admit(second, RESEND))
        await ledger.settle(second.record_id, second.attempt, ANSWERED)
        before = await ledger.inspect_key(record_id())
        await ledger.settle(first.record_id, first.attempt, DECLINED)
        after = await ledger.inspect_key(record_id())
        assert before is not None
        assert after is not None
        assert after.state == before.state
        [row] = await ledger.journal()
        assert (row.kind, row.attempt) == ("outcome_contradicted", first.attempt)
        assert (row.entity, row.record, row.fence) == (INVOICE, record_id(), 41)


# --- one effect per intent -----------------------------------------------------------------


@every_ledger
async def test_a_second_key_for_the_same_intent_is_treated_as_the_first(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        first = call("first")
        went(await ledger.admit(first, INTENT))
        waits = (await ledger.admit(call("second"), INTENT)).verdict
        assert isinstance(waits, Wait)
        assert waits.record_id == first.record_id
        over = call("second", asked=Asked(waited=True, duplicate_wait_over=True))
        assert refused(await ledger.admit(over, INTENT)) is Reason.IN_FLIGHT
        await ledger.settle(first.record_id, first.attempt, ANSWERED)
        told = (await ledger.admit(call("second"), INTENT)).verdict
        assert isinstance(told, Replay)
        assert told.matched_by_intent
        assert await state(ledger, "second") == "none"

        went(await ledger.admit(call("second"), TERMS))
        told = (await ledger.admit(call("first"), INTENT)).verdict
        assert isinstance(told, Replay)
        assert not told.matched_by_intent


@every_ledger
async def test_another_intent_is_no_duplicate(kind: Kind, tmp_path: Path) -> None:
    """Another domain, entity, fence, upstream or caller."""
    async with opened(kind, tmp_path) as (ledger, _):
        went(await ledger.admit(call("first", 41), INTENT))
        for number, other in enumerate(
            (
                call("domain", 41, entity=EntityId("eu", INVOICE.name)),
                call("entity", 41, entity=EntityId("", "invoice:2")),
                call("upstream", 41, upstream="crm"),
                call("caller", 41, caller="people"),
                call("nobody", 41, caller=None),
            )
        ):
            assert isinstance((await ledger.admit(other, INTENT)).verdict, Go), number


@every_ledger
@pytest.mark.parametrize("rise", ["call", "announcement"])
async def test_the_index_is_emptied_when_high_water_rises(
    kind: Kind, tmp_path: Path, rise: str
) -> None:
    """A second key under the old fence is a late one then, and no key that the index knows."""
    async with opened(kind, tmp_path) as (ledger, _):
        first = call("first", 41)
        went(await ledger.admit(first, INTENT))
        await ledger.settle(first.record_id, first.attempt, ANSWERED)
        assert isinstance((await ledger.admit(call("second", 41), INTENT)).verdict, Replay)
        if rise == "announcement":
            await ledger.announce(INVOICE, 42, None, None)
        else:
            went(await ledger.admit(call("other", 42, upstream="crm"), TERMS))
        assert refused(await ledger.admit(call("second", 41), INTENT)) is Reason.STALE_FENCE
        went(await ledger.admit(call("second", 42), INTENT))


@every_ledger
@pytest.mark.parametrize("how", ["not sent", "refused", "not applied"])
async def test_a_freed_record_leaves_the_index(kind: Kind, tmp_path: Path, how: str) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        first = call("first")
        went(await ledger.admit(first, INTENT))
        if how == "not applied":
            await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
            await ledger.resolve(first.record_id, NotApplied(), ACT)
        else:
            outcome = UNSENT if how == "not sent" else REFUSED
            await ledger.settle(first.record_id, first.attempt, outcome)
        second = call("second")
        go = went(await ledger.admit(second, INTENT))
        assert go.record_id == second.record_id
        waits = (await ledger.admit(call("first"), INTENT)).verdict
        assert isinstance(waits, Wait)
        assert waits.record_id == second.record_id


@every_ledger
async def test_a_resend_is_refused_if_the_index_names_another_key(
    kind: Kind, tmp_path: Path
) -> None:
    terms = replace(RESEND, one_effect_per=OneEffectPer.INTENT)
    async with opened(kind, tmp_path) as (ledger, _):
        first, second = call("first"), call("second")
        went(await ledger.admit(first, TERMS))
        await ledger.settle(first.record_id, first.attempt, IN_DOUBT)
        went(await ledger.admit(second, terms))
        assert refused(await ledger.admit(call("first"), terms)) is Reason.OUTCOME_UNKNOWN
        await ledger.settle(second.record_id, second.attempt, UNSENT)
        went(await ledger.admit(call("first"), terms))


@every_ledger
async def test_warn_only_tells_of_the_possible_duplicate_and_the_seconds_between(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        went(await ledger.admit(call("first"), WARN))
        clock.move(7 * SECOND)
        told = await ledger.admit(call("second"), WARN)
        assert isinstance(told.verdict, Go)
        [row] = await ledger.journal()
        assert (row.kind, row.other_key, row.apart) == ("possible_duplicate", "first", 7 * SECOND)
        assert row.record == record_id("second")
        clock.move(SECOND)
        told = await ledger.admit(call("third"), WARN)
        assert [(note.other_key, note.apart) for note in told.notes] == [("first", 8 * SECOND)]
        assert await kinds(ledger) == ["possible_duplicate"] * 2


@every_ledger
async def test_another_keys_record_that_is_gone_takes_nothing_of_this_keys_with_it(
    kind: Kind, tmp_path: Path
) -> None:
    """The index still names it, but there is nothing to be treated as."""
    short = replace(INTENT, retention=SECOND, tombstone=SECOND)
    async with opened(kind, tmp_path) as (ledger, clock):
        disowned, gone = call("ours"), call("theirs")
        went(await ledger.admit(disowned, TERMS))
        await ledger.settle(disowned.record_id, disowned.attempt, IN_DOUBT)
        await ledger.resolve(disowned.record_id, NotApplied(), ACT)
        went(await ledger.admit(gone, short))
        await ledger.settle(gone.record_id, gone.attempt, ANSWERED)
        clock.move(2 * SECOND)
        assert await state(ledger, "theirs") == "none"

        assert went(await ledger.admit(call("ours"), INTENT)).record_id == disowned.record_id
        record = await ledger.inspect_key(disowned.record_id)
        assert record is not None
        assert [each.attempt.id for each in record.disowned] == [disowned.attempt]
