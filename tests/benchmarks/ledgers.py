"""What a guarded call costs a ledger: an admission and its settlement, closed loop.

    python -m tests.benchmarks.ledgers [ROUNDS]

Memory and SQLite (a file in a temporary folder, every commit on disk) take turns, round by round,
at 1, 32 and 128 calls at once. Medians, and SQLite's ratio to memory of the same rounds.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from fencegate.core.fingerprint import Fingerprint, Request, Scheme, fingerprint
from fencegate.core.model import AttemptId, Call, EntityId, Terms
from fencegate.core.outcomes import Answer, Responded
from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Ledger
from fencegate.ledger.sqlite import open_sqlite

PAIRS, ENTITIES = 1920, 2000
REQUEST = Request("POST", b"/pay", ((b"content-type", b"application/json"),), b'{"a":1}')
ANSWERED = Responded(Answer(201, ((b"content-type", b"application/json"),), b"x" * 130))
numbers = count(1)


async def pair(ledger: Ledger, taken: Fingerprint) -> None:
    number = next(numbers)
    key, entity = f"key:{number}", EntityId("", f"entity:{number % ENTITIES}")
    call = Call("pay", None, "", entity, number, key, (taken,), AttemptId(f"bench-{number}"))
    await ledger.admit(call, Terms(max_fence_lead=None))
    await ledger.settle(call.record_id, call.attempt, ANSWERED)


async def measured(ledger: Ledger, at_once: int, taken: Fingerprint) -> tuple[float, float]:
    """Microseconds a pair: wall, and CPU of the whole process."""

    async def loop() -> None:
        for _ in range(PAIRS // at_once):
            await pair(ledger, taken)

    began, used = perf_counter(), process_time()
    await asyncio.gather(*(loop() for _ in range(at_once)))
    wall, cpu = perf_counter() - began, process_time() - used
    return wall / PAIRS * 1e6, cpu / PAIRS * 1e6


async def main(rounds: int) -> None:
    taken = fingerprint(REQUEST, "entity", Scheme())
    assert isinstance(taken, Fingerprint)
    with tempfile.TemporaryDirectory() as folder:
        ledgers: dict[str, Ledger] = {
            "memory": MemoryLedger(),
            "sqlite": await open_sqlite(Path(folder) / "ledger.db"),
        }
        print(f"{'at once':>8}{'ledger':>9}{'pairs/s':>10}{'wall us':>10}{'CPU us':>9}")
        for at_once in (1, 32, 128):
            seen: dict[str, list[tuple[float, float]]] = {name: [] for name in ledgers}
            for _ in range(rounds):
                for name, ledger in ledgers.items():
                    seen[name].append(await measured(ledger, at_once, taken))
            middle = {
                name: (median(wall for wall, _ in runs), median(cpu for _, cpu in runs))
                for name, runs in seen.items()
            }
            for name, (wall, cpu) in middle.items():
                print(f"{at_once:>8}{name:>9}{1e6 / wall:>10.0f}{wall:>10.0f}{cpu:>9.0f}")
            (wall, cpu), (base_wall, base_cpu) = middle["sqlite"], middle["memory"]
            print(f"{'':8}{'ratio':>9}{'':10}{wall / base_wall:>10.1f}{cpu / base_cpu:>9.1f}")
        for ledger in ledgers.values():
            await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
