"""Lists of a ledger show what is kept, without carrying it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fencegate.core.model import Done, EntityId, OnUnknown, Refuse
from fencegate.core.outcomes import Answer, Responded, Unkept
from fencegate.core.reasons import Reason
from fencegate.ledger.protocol import Filter
from tests.conformance.calls import TERMS, call
from tests.conformance.ledgers import Kind, every_ledger, opened

ANSWER = Answer(201, ((b"content-type", b"text/plain"),), b"a long answer")


@every_ledger
async def test_a_list_tells_kept_answers_from_others_and_leaves_their_bodies_out(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, _):
        for key, kept in (("kept", ANSWER), ("too large", ANSWER.unkept())):
            each = call(key)
            await ledger.admit(each, TERMS)
            await ledger.settle(each.record_id, each.attempt, Responded(kept))
        page = await ledger.list(Filter())
        shown = {record.id.key: record.state for record in page.records}
        small, large = shown["kept"], shown["too large"]
        assert isinstance(small, Done)
        assert small.answer == replace(ANSWER, body=b"")
        assert isinstance(large, Done)
        assert isinstance(large.answer, Unkept)
        whole = await ledger.inspect_key(call("kept").record_id)
        assert whole is not None
        assert isinstance(whole.state, Done)
        assert whole.state.answer == ANSWER


@every_ledger
async def test_the_same_name_in_another_domain_is_another_entity(
    kind: Kind, tmp_path: Path
) -> None:
    terms = replace(TERMS, on_unknown=OnUnknown.RESEND, key_window=10**12)
    async with opened(kind, tmp_path) as (ledger, _):
        first = call("one key", 200)
        await ledger.admit(first, terms)
        elsewhere = replace(call("one key", 5), entity=EntityId("us", first.entity.name))
        told = (await ledger.admit(elsewhere, terms)).verdict
        assert isinstance(told, Refuse)
        assert (told.reason, told.parts) == (Reason.KEY_REUSED, ("entity",))
