"""A clock that goes back revives nothing that was overtaken because its hold had run out."""

from __future__ import annotations

from pathlib import Path

from fencegate.core.model import Go, Lost
from tests.conformance.calls import TERMS, call
from tests.conformance.ledgers import Kind, every_ledger, opened


@every_ledger
async def test_an_overtaken_attempt_cannot_be_renewed_after_the_clock_went_back(
    kind: Kind, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as (ledger, clock):
        lower, higher = call("lower", 41), call("higher", 42)
        await ledger.admit(lower, TERMS)
        clock.move(TERMS.hold)
        assert isinstance((await ledger.admit(higher, TERMS)).verdict, Go)
        clock.move(-TERMS.hold)
        assert await ledger.renew([(lower.record_id, lower.attempt)]) == [Lost()]
