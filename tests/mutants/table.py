"""The mutants: a text in a file, and what stands there instead.

A text that is not there exactly once is an error, so that a mutant cannot go stale unseen.
"""

from __future__ import annotations

from dataclasses import dataclass

ADMISSION = "fencegate/core/admission.py"
SETTLEMENT = "fencegate/core/settlement.py"
AGING = "fencegate/core/aging.py"
MODEL = "fencegate/core/model.py"
RESOLUTION = "fencegate/core/resolution.py"
ROWS = "fencegate/ledger/sqlite/rows.py"
HOLDS = "fencegate/gateway/holds.py"
ADMITTING = "fencegate/gateway/admitting.py"


@dataclass(frozen=True)
class Change:
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """`caught_by`: the runs that must catch it; a fault of the law: both sweep and search."""

    name: str
    caught_by: tuple[str, ...]
    changes: tuple[Change, ...]


LAW = ("sweep", "search")

MUTANTS = (
    Mutant(
        "fence compared as text",
        LAW,
        (
            Change(
                ADMISSION,
                "record, stale = seen.record, call.fence < seen.entity.high_water",
                "record, stale = seen.record, str(call.fence) < str(seen.entity.high_water)",
            ),
        ),
    ),
    Mutant(
        "fence compared as a double",
        LAW,
        (
            Change(
                ADMISSION,
                "record, stale = seen.record, call.fence < seen.entity.high_water",
                "record, stale = seen.record, float(call.fence) < float(seen.entity.high_water)",
            ),
        ),
    ),
    Mutant(
        "lapsed record freed",
        LAW,
        (
            Change(
                AGING,
                "return in_doubt(record, due, Evidence(Doubt.HOLD_RAN_OUT), ended=None)",
                "return None",
            ),
        ),
    ),
    Mutant(
        "a renewal that revives",
        LAW,
        (
            Change(
                SETTLEMENT,
                "    seen = aged(seen, now)\n    match seen.record:",
                "    match seen.record:",
            ),
        ),
    ),
    Mutant(
        "no hold check before the first byte",
        ("crash",),
        (
            Change(
                HOLDS,
                "return not self.lost and now < self.good_until and in_window",
                "return now == now or in_window",
            ),
        ),
    ),
    Mutant(
        "record freed instead of back to unknown",
        LAW,
        (Change(SETTLEMENT, "    if earlier:\n", "    if earlier and not record:\n"),),
    ),
    Mutant(
        "settle without the attempt id",
        LAW,
        (
            Change(
                SETTLEMENT,
                "    if record.current.id != attempt:\n",
                "    if record.current.id == None:\n",
            ),
        ),
    ),
    Mutant(
        "settle on a closed record",
        LAW,
        (
            Change(
                SETTLEMENT,
                "    if isinstance(record.state, (Done, Expired)):\n",
                "    if isinstance(record.state, Freed):\n",
            ),
        ),
    ),
    Mutant(
        "resend that does not wait for a lower fence",
        LAW,
        (
            Change(
                ADMISSION,
                "_go_or_wait(seen, call, terms, now, found=record.current.id)",
                "_go_or_wait(replace(seen, others=()), call, terms, now, found=record.current.id)",
            ),
        ),
    ),
    Mutant(
        "caller dropped from the look-up",
        LAW,
        (
            Change(
                MODEL,
                "return RecordId(self.upstream, self.caller, self.key)",
                "return RecordId(self.upstream, None, self.key)",
            ),
        ),
    ),
    Mutant(
        "fingerprint skipped",
        LAW,
        (
            Change(
                ADMISSION,
                "if parts := differing(record, call, mine):",
                "if parts := differing(record, call, mine)[:0]:",
            ),
        ),
    ),
    Mutant(
        "a listening attempt not counted as open",
        LAW,
        (
            Change(
                ADMISSION,
                "if isinstance(state, Open) and not _yields(state, now)]",
                "if isinstance(state, Open) and not state.listening and not _yields(state, now)]",
            ),
        ),
    ),
    Mutant(
        "probe frees while its attempt is connected",
        LAW,
        (
            Change(
                RESOLUTION,
                "return ended is not None and since is not None and now >= max(ended, since)",
                "return since is not None and now >= max(ended or 0, since)",
            ),
        ),
    ),
    Mutant(
        "high water cached in the process",
        ("conformance",),
        (
            Change(
                ROWS,
                '        row = self._one("entity", (id.domain, id.name))\n'
                "        return Entity(id,",
                "        cached = _CACHE.setdefault(self._db, {})\n"
                "        if id in cached:\n"
                "            return cached[id]\n"
                '        row = self._one("entity", (id.domain, id.name))\n'
                "        return Entity(id,",
            ),
            Change(
                ROWS,
                "    def put_entity(self, entity: Entity) -> None:\n",
                "    def put_entity(self, entity: Entity) -> None:\n"
                "        _CACHE.setdefault(self._db, {})[entity.id] = entity\n",
            ),
            Change(
                ROWS,
                "SQL = _statements()\n",
                "SQL = _statements()\n_CACHE: dict[Any, dict[EntityId, Entity]] = {}\n",
            ),
        ),
    ),
    Mutant(
        "waiting duplicate not admitted again",
        ("crash",),
        (
            Change(
                ADMITTING,
                "            await _changed_or_left(",
                "            if wait.on is WaitFor.KEY:\n"
                "                go = Go(order.call.attempt, 1, order.call.record_id, 0, 10**9)\n"
                "                await watch.changed(max(left, SHORTEST_WAIT))\n"
                "                return _Asked(go, gate.holds.clock())\n"
                "            await _changed_or_left(",
            ),
        ),
    ),
    Mutant(
        "rows 3 and 4 of the law swapped",
        LAW,
        (
            Change(
                ADMISSION,
                "if parts := differing(record, call, mine):",
                "if not isinstance(record.state, Done) "
                "and (parts := differing(record, call, mine)):",
            ),
        ),
    ),
    Mutant(
        "rows 7 and 10 of the law swapped",
        LAW,
        (
            Change(
                ADMISSION,
                "    if stale:  # row 7\n",
                "    if stale and record is not None:  # row 7\n",
            ),
        ),
    ),
)
