"""What is true of the embedded ledger alone: its file, its turn, its neighbours, its cost."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from fencegate.core import admission
from fencegate.core.identity import Adopted, Change
from fencegate.core.model import Call, EntityId, Go, OneEffectPer, Ruling, Snapshot, Terms
from fencegate.core.resolution import NotApplied
from fencegate.ledger import steps
from fencegate.ledger.protocol import LedgerUnavailable, LedgerUnusable, Topic
from fencegate.ledger.sqlite import SqliteLedger, neighbours, open_sqlite, rows, schema, writer
from fencegate.ledger.sqlite.rows import SqliteRows
from fencegate.ledger.sqlite.schema import OURS, connect, migrations
from tests.conformance.calls import (
    ACT,
    ANSWERED,
    IN_DOUBT,
    INVOICE,
    RESEND,
    TERMS,
    UNSENT,
    call,
    went,
)
from tests.conformance.ledgers import START, FakeClock
from tests.conformance.recipes import NEIGHBOURS, STATES, Scene

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def ledger_file(place: Path) -> Path:
    return place / "ledger.db"


# --- files that are no ledger --------------------------------------------------------------


async def refused(path: Path) -> str:
    with pytest.raises(LedgerUnusable) as caught:
        await open_sqlite(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


async def test_another_programs_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = ledger_file(tmp_path)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (id INTEGER)")
    db.close()
    before = path.read_bytes()
    assert "another program" in await refused(path)
    assert path.read_bytes() == before


async def test_a_newer_schema_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = ledger_file(tmp_path)
    await (await open_sqlite(path)).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 4711")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    before = path.read_bytes()
    message = await refused(path)
    assert "4711" in message
    assert "newer" in message
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = ledger_file(tmp_path)
    path.write_text("a letter to somebody\n" * 100)
    await refused(path)
    assert path.read_text() == "a letter to somebody\n" * 100


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    path = ledger_file(tmp_path)
    path.mkdir()
    await refused(path)


async def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    message = await refused(tmp_path / "nowhere" / "ledger.db")
    assert "folder" in message
    assert not (tmp_path / "nowhere").exists()


async def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await refused(tmp_path / "file" / "ledger.db")


@pytest.fixture
def nobody() -> Iterator[None]:
    """Permissions do not hold back root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def closed_folder(tmp_path: Path) -> Path:
    place = tmp_path / "closed"
    place.mkdir()
    place.chmod(0o500)
    return place


async def test_a_folder_without_permission_is_refused(closed_folder: Path, nobody: None) -> None:
    message = await refused(ledger_file(closed_folder))
    assert "ermission" in message


async def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    path = ledger_file(tmp_path)
    path.touch()
    ledger = await open_sqlite(path)
    went(await ledger.admit(call(), TERMS))
    await ledger.close()


# --- files of an older schema --------------------------------------------------------------


def made_under(newest: int, path: Path) -> None:
    """A ledger's file as a program made it that knew no later migration, with one record."""
    db = connect(path)
    for number, sql in migrations():
        if number <= newest:
            db.executescript(sql)
    db.execute(f"PRAGMA user_version = {newest}")
    db.execute(f"PRAGMA application_id = {OURS}")
    db.execute("INSERT INTO ledger (id, latest) VALUES ('as it was', 0)")
    steps.admit(SqliteRows(db), call(), TERMS, START)
    db.close()


def version_of(path: Path) -> int:
    db = connect(path)
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    db.close()
    return version


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [number for number, _ in migrations()]
    assert numbers == [*range(1, len(numbers) + 1)]


@pytest.mark.parametrize("older", [number for number, _ in migrations()][:-1])
async def test_a_file_of_an_older_schema_is_migrated_and_keeps_what_is_in_it(
    older: int, tmp_path: Path
) -> None:
    path = ledger_file(tmp_path)
    made_under(older, path)
    assert version_of(path) == older
    ledger = await open_sqlite(path, lambda: START)
    assert ledger.id == "as it was"
    assert (await ledger.inspect(INVOICE)).entity.high_water == 1
    stored, wanted = {"payments": {"caller a": "known"}}, {"payments": {"caller b": "known"}}
    assert await ledger.adopt(stored, False, ACT) == Adopted((), switched=False)
    told = await ledger.adopt(wanted, True, ACT)
    assert told == Adopted((Change("payments", ("caller a",), 1),), switched=False)
    await ledger.close()
    assert version_of(path) == migrations()[-1][0]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ledger_file(tmp_path)
    made_under(1, path)
    broken = [*migrations(), (len(migrations()) + 1, "CREATE TABLE ledger (id TEXT);")]
    with monkeypatch.context() as later:
        later.setattr(schema, "migrations", lambda: broken)
        await refused(path)
    assert version_of(path) == 1
    ledger = await open_sqlite(path)
    assert ledger.id == "as it was"
    await ledger.close()


async def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """Recorded answers hold personal data."""
    ledger = await open_sqlite(ledger_file(tmp_path))
    went(await ledger.admit(call(), TERMS))
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()}
    assert "ledger.db" in modes
    assert set(modes.values()) == {0}
    await ledger.close()


# --- settings that keep fences -------------------------------------------------------------


async def test_every_commit_is_on_disk_before_it_is_answered(tmp_path: Path) -> None:
    """On the connection that writes."""
    ledger = await open_sqlite(ledger_file(tmp_path))

    def settings(rows: SqliteRows, now: int) -> tuple[str, int]:
        pragma = (rows._db.execute(f"PRAGMA {name}") for name in ("journal_mode", "synchronous"))
        mode, synchronous = (found.fetchone()[0] for found in pragma)
        return mode, synchronous

    assert await ledger._write(settings) == ("wal", 2)
    await ledger.close()


async def test_a_closed_ledger_lets_go_of_its_file(tmp_path: Path) -> None:
    async def opened_and_closed() -> None:
        ledger = await open_sqlite(ledger_file(tmp_path))
        went(await ledger.admit(call(str(next(numbers))), TERMS))
        with ledger.watch(INVOICE) as watch:
            await watch.changed(0.01)
            await ledger.inspect(INVOICE)
        await ledger.close()

    numbers = count()
    await opened_and_closed()
    before = _open_here(tmp_path)
    for _ in range(3):
        await opened_and_closed()
    assert before == []
    assert _open_here(tmp_path) == []


def _open_here(place: Path) -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:
            continue
        if target.startswith(str(place)):
            found.append(target)
    return found


async def test_a_closed_ledger_is_unavailable(tmp_path: Path) -> None:
    """To readers as to writers: it is the only error that a verb has."""
    ledger = await open_sqlite(ledger_file(tmp_path))
    await ledger.inspect(INVOICE)
    await ledger.close()
    with pytest.raises(LedgerUnavailable):
        await ledger.admit(call(), TERMS)
    with pytest.raises(LedgerUnavailable):
        await ledger.inspect(INVOICE)


# --- the turn ------------------------------------------------------------------------------


@contextmanager
def turn_of(path: Path) -> Iterator[None]:
    """Held from outside: a lock of a file opened once more is another's, also in one process."""
    with path.with_name(f"{path.name}-turn").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def test_work_that_raises_does_not_fail_its_neighbours_in_one_batch(tmp_path: Path) -> None:
    path = ledger_file(tmp_path)
    ledger = await open_sqlite(path, patience=60)
    calls = [call(f"key {n}", prints=()) if n in (0, 7) else call(f"key {n}") for n in range(20)]
    with turn_of(path):
        asked = [asyncio.ensure_future(ledger.admit(each, TERMS)) for each in calls]
        await asyncio.sleep(0)
        assert len(ledger._writer._queue) == 20
    told = await asyncio.gather(*asked, return_exceptions=True)
    raised = [number for number, each in enumerate(told) if isinstance(each, BaseException)]
    assert raised == [0, 7]
    assert isinstance(told[7], IndexError)
    kept = [await ledger.inspect_key(each.record_id) for each in calls]
    assert [number for number, record in enumerate(kept) if record is None] == [0, 7]
    await ledger.close()


async def test_a_queue_of_seconds_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ledger_file(tmp_path)
    ledger = await open_sqlite(path, patience=60)
    monkeypatch.setattr(writer, "QUEUE", 3)
    with turn_of(path):
        asked = [asyncio.ensure_future(ledger.admit(call(str(n)), TERMS)) for n in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(LedgerUnavailable) as caught:
            await ledger.admit(call("one too many"), TERMS)
        assert not caught.value.unclear
    for each in asked:
        went(await each)
    await ledger.close()


async def test_while_the_file_is_locked_by_another_program_nothing_is_recorded(
    tmp_path: Path,
) -> None:
    """A shell, or a backup, that does not know of the turn. Nobody is left in doubt."""
    path = ledger_file(tmp_path)
    ledger = await open_sqlite(path, patience=10)
    foreign = connect(path)
    foreign.execute("BEGIN IMMEDIATE")
    calls = [call(f"key {number}") for number in range(20)]
    with turn_of(path):
        asked = [asyncio.ensure_future(ledger.admit(each, TERMS)) for each in calls]
        await asyncio.sleep(0)
    told = await asyncio.gather(*asked, return_exceptions=True)
    foreign.execute("ROLLBACK")
    foreign.close()
    assert all(isinstance(each, LedgerUnavailable) for each in told), told
    assert not any(getattr(each, "unclear", None) for each in told)
    went(await ledger.admit(call("afterwards"), TERMS))
    assert [await ledger.inspect_key(each.record_id) for each in calls] == [None] * 20
    await ledger.close()


HOLDS_THE_TURN = """
    import fcntl, os, signal, sys
    with open(sys.argv[1], "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        print("holding", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    print("let go", flush=True)
"""


async def test_while_another_process_is_stopped_in_its_turn_steps_are_unavailable_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ledger_file(tmp_path)
    ledger = await open_sqlite(path, patience=60)
    first = call("first")
    went(await ledger.admit(first, TERMS))

    stopped = _python(HOLDS_THE_TURN, f"{path}-turn")
    try:
        await _says(stopped, "holding")
        _, status = await asyncio.to_thread(os.waitpid, stopped.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

        waiting = [call(f"waiting {number}", 2) for number in range(10)]
        steps: list[Awaitable[object]] = [ledger.admit(each, TERMS) for each in waiting]
        steps.append(ledger.settle(first.record_id, first.attempt, ANSWERED))
        steps.append(ledger.announce(INVOICE, 77, None, None))
        with monkeypatch.context() as impatient:
            impatient.setattr(ledger, "_patience", 0.2)
            told = await asyncio.gather(*steps, return_exceptions=True)
        assert all(isinstance(each, LedgerUnavailable) for each in told), told
        assert not any(getattr(each, "unclear", None) for each in told), "nothing was taken"
        assert (await ledger.inspect(INVOICE)).entity.high_water == 1, "what is read is read"

        os.kill(stopped.pid, signal.SIGCONT)
        await _says(stopped, "let go")
    finally:
        stopped.kill()
        await asyncio.to_thread(stopped.wait)

    went(await ledger.admit(call("afterwards"), TERMS))
    for each in waiting:
        assert await ledger.inspect_key(each.record_id) is None, "withdrawn, and run all the same"
    view = await ledger.inspect(INVOICE)
    assert view.entity.high_water == 1
    assert {record.id.key for record in view.open} == {"first", "afterwards"}
    await ledger.close()


async def test_a_start_while_another_process_is_stopped_in_its_turn_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ledger_file(tmp_path)
    await (await open_sqlite(path)).close()
    monkeypatch.setattr("fencegate.ledger.sqlite.schema.OPENING", 0.1)
    with turn_of(path):
        assert "another process" in await refused(path)
    await (await open_sqlite(path)).close()


HAMMERS = """
    import asyncio, sys
    from pathlib import Path
    from fencegate.core.model import EntityId
    from fencegate.ledger.sqlite import open_sqlite
    from tests.conformance.calls import TERMS, call

    async def main(path, name):
        ledger = await open_sqlite(Path(path), patience=60)
        print("ready", flush=True)
        sys.stdin.readline()

        async def work(worker):
            for number in range(1_000_000):
                key = f"{name} {worker} {number}"
                each = call(key, upstream=name, entity=EntityId("", key), attempt=key)
                await ledger.admit(each, TERMS)

        await asyncio.gather(*(work(worker) for worker in range(8)))

    asyncio.run(main(*sys.argv[1:]))
"""


async def test_three_processes_on_one_file_each_get_a_fair_share(tmp_path: Path) -> None:
    enough = 3_000
    path = ledger_file(tmp_path)
    processes = [_python(HAMMERS, str(path), name) for name in ("one", "two", "three")]
    try:
        for process in processes:
            await _says(process, "ready")
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        done = await asyncio.to_thread(_until, path, enough)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            await asyncio.to_thread(process.wait)
    print(f"commits: {done}")
    total = sum(done.values())
    assert len(done) == 3
    assert min(done.values()) >= total / 6, done


def _until(path: Path, enough: int) -> dict[str, int]:
    db = connect(path)
    try:
        while True:
            found = db.execute("SELECT upstream, count(*) FROM records GROUP BY upstream")
            done: dict[str, int] = dict(found.fetchall())
            if sum(done.values()) >= enough:
                return done
    finally:
        db.close()


def _python(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


async def _says(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == f"{line}\n"


async def test_a_look_that_failed_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that was not seen because the file was busy for a moment is seen a moment later."""
    path = ledger_file(tmp_path)
    ours, theirs = await open_sqlite(path, patience=60), await open_sqlite(path, patience=60)
    first = call()
    went(await theirs.admit(first, TERMS))
    look, failed = neighbours._state_of, asyncio.Event()

    def fails_once(db: sqlite3.Connection, topic: Topic) -> list[tuple[object, ...]]:
        found = look(db, topic)
        if found[0][0] == "done" and not failed.is_set():
            failed.set()
            raise sqlite3.OperationalError("database is locked")
        return found

    monkeypatch.setattr(neighbours, "_state_of", fails_once)
    with ours.watch(first.record_id) as watch:
        await watch.changed(0.1)
        await theirs.settle(first.record_id, first.attempt, ANSWERED)
        async with asyncio.timeout(30):
            await failed.wait()
        assert await watch.changed(10), "nobody looked again"
    await ours.close()
    await theirs.close()


# --- previews ------------------------------------------------------------------------------


async def test_previews_write_nothing_into_the_file(tmp_path: Path) -> None:
    """As SQLite's own counter says, which another connection's every commit moves."""
    path, clock = ledger_file(tmp_path), FakeClock()
    ledger = await open_sqlite(path, clock)
    await ledger.adopt({"payments": {"caller a": "known"}}, False, ACT)
    went(await ledger.admit(call("lapsed"), TERMS))
    clock.move(TERMS.hold)
    db = connect(path)
    version = db.execute("PRAGMA data_version").fetchone()
    assert isinstance(await ledger.preview(call(fence=2), TERMS), Go)
    for accept in (False, True):
        await ledger.adopt({}, accept, ACT, preview=True)
    assert db.execute("PRAGMA data_version").fetchone() == version
    went(await ledger.admit(call(fence=2), TERMS))
    assert db.execute("PRAGMA data_version").fetchone() != version
    db.close()
    await ledger.close()


async def test_the_same_identities_again_write_nothing_into_the_file(tmp_path: Path) -> None:
    path = ledger_file(tmp_path)
    ledger = await open_sqlite(path, FakeClock())
    same = {"payments": {"caller a": "known"}}
    await ledger.adopt(same, False, ACT)
    db = connect(path)
    version = db.execute("PRAGMA data_version").fetchone()
    for again in (same, {**same, "without items": {}}):
        await ledger.adopt(again, False, ACT)
        assert db.execute("PRAGMA data_version").fetchone() == version
    db.close()
    await ledger.close()


async def test_previews_do_not_wait_for_a_turn(tmp_path: Path) -> None:
    path = ledger_file(tmp_path)
    ledger = await open_sqlite(path, patience=60)
    with turn_of(path):
        async with asyncio.timeout(30):
            assert isinstance(await ledger.preview(call(), TERMS), Go)
            await ledger.adopt({}, False, ACT, preview=True)
    await ledger.close()


@pytest.mark.parametrize(
    ("state", "neighbours"),
    [
        *(("none", neighbours) for neighbours in NEIGHBOURS),
        ("sending, hold out", "none"),
        ("sending again, hold out", "open, hold out"),
    ],
)
async def test_a_preview_asks_the_law_about_what_an_admission_asks_it(
    state: str, neighbours: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also about the notes that only an admission puts in the journal."""
    clock, ruled, law = FakeClock(), [], admission.admit

    def rules(seen: Snapshot, call: Call, terms: Terms, now: int) -> Ruling[object]:
        ruled.append(law(seen, call, terms, now))
        return ruled[-1]

    ledger = await open_sqlite(ledger_file(tmp_path), clock)
    scene, end = Scene("scene", 41), clock.now
    STATES[state](scene)
    NEIGHBOURS[neighbours](scene)
    for ago, step in sorted(scene.steps, key=lambda step: -step[0]):
        clock.now = end - ago
        await step(ledger)
    clock.now = end
    question = scene.call("asking", fence=43)
    monkeypatch.setattr(admission, "admit", rules)
    await ledger.preview(question, RESEND)
    await ledger.admit(question, RESEND)
    preview, admitted = ruled
    assert (preview.verdict, preview.notes) == (admitted.verdict, admitted.notes)
    assert preview.left.entity == admitted.left.entity
    await ledger.close()


# --- cost ----------------------------------------------------------------------------------

INTENT = replace(RESEND, one_effect_per=OneEffectPer.INTENT)
ONE_ROW = "SCAN ledger"


class Recorded(dict[str, str]):
    """Statements, and which of them were asked for."""

    def __init__(self, statements: dict[str, str]) -> None:
        super().__init__(statements)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.used.add(name)
        return super().__getitem__(name)


async def test_every_statement_of_an_admission_finds_its_rows_by_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(rows.SQL)
    monkeypatch.setattr(rows, "SQL", recorded)
    ledger = await open_sqlite(ledger_file(tmp_path))
    await _every_kind_of_admission(ledger)
    await ledger.close()
    for name in ("record", "open_below", "unknown_below", "lapsed", "intent", "latest"):
        assert name in recorded.used, "the admissions below have grown too few"

    db = connect(ledger_file(tmp_path))
    scans = {name: plan for name in recorded.used if "SCAN" in (plan := _plan(db, rows.SQL[name]))}
    assert {plan for plan in scans.values() if plan != ONE_ROW} == set(), scans
    assert db.execute("SELECT count(*) FROM ledger").fetchone() == (1,)
    db.close()


async def _every_kind_of_admission(ledger: SqliteLedger) -> None:
    for terms in (RESEND, INTENT):
        for number, outcome in enumerate((ANSWERED, IN_DOUBT, UNSENT, None)):
            each = call(f"key {number} {terms.one_effect_per}", number + 1)
            await ledger.admit(each, terms)
            if outcome:
                await ledger.settle(each.record_id, each.attempt, outcome)
            await ledger.preview(call(each.key, number + 1), terms)
            await ledger.admit(call(each.key, number + 1), terms)
            await ledger.admit(call(f"other {each.key}", number + 2), terms)
            await ledger.admit(call(each.key, number), terms)


async def test_the_live_records_of_an_upstream_are_counted_by_their_index(
    tmp_path: Path,
) -> None:
    """However many are done. And what was observed is found without a look at the rest."""
    await (await open_sqlite(ledger_file(tmp_path))).close()
    db = connect(ledger_file(tmp_path))
    live, observed = _plan(db, rows.SQL["count_live"]), _plan(db, rows.SQL["take_over"])
    db.close()
    assert live == "SEARCH records USING INDEX records_live (upstream=? AND state=?)"
    assert observed == "SEARCH entities USING PRIMARY KEY (domain>? AND domain<?)"


def _plan(db: sqlite3.Connection, statement: str) -> str:
    named = dict.fromkeys(_names(statement))
    values = named or (None,) * statement.count("?")
    steps = db.execute(f"EXPLAIN QUERY PLAN {statement}", values)
    return "; ".join(step[3] for step in steps)


def _names(statement: str) -> Iterator[str]:
    words = statement.replace("(", " ").replace(")", " ").replace(",", " ").split()
    return (word[1:].rstrip(";") for word in words if word.startswith(":"))


Step = Callable[[SqliteRows, int], object]


def _steps() -> dict[str, Step]:
    """One of each verb on an entity with a past, measured in this order."""

    def adopt(reading: str) -> Step:
        wanted = {"payments": {"route": reading}}
        return lambda rows, now: steps.adopt(rows, wanted, True, ACT, now, preview=False)

    first, second = call("first", 7), call("second", 7)
    settle, renew = steps.settle, steps.renew
    held = [(first.record_id, first.attempt)]
    return {
        "preview": lambda rows, now: steps.preview(rows, first, TERMS, now),
        "adopt": adopt("a"),
        "admit": lambda rows, now: steps.admit(rows, first, TERMS, now),
        "admit by intent": lambda rows, now: steps.admit(rows, second, INTENT, now),
        "replay": lambda rows, now: steps.admit(rows, call("past 1", 7), TERMS, now),
        "refuse": lambda rows, now: steps.admit(rows, call("late", 6), TERMS, now),
        "wait": lambda rows, now: steps.admit(rows, call("higher", 8), TERMS, now),
        "renew": lambda rows, now: renew(rows, held, now),
        "settle": lambda rows, now: settle(rows, *held[0], IN_DOUBT, now),
        "resolve": lambda rows, now: steps.resolve(rows, held[0][0], NotApplied(), ACT, now),
        "adopt another": adopt("b"),
        "announce": lambda rows, now: steps.announce(rows, INVOICE, 9, None, None, now),
        "inspect": lambda rows, now: steps.inspect(rows, INVOICE, now),
        "freeze": lambda rows, now: steps.freeze(rows, INVOICE, True, ACT, now),
    }


async def test_no_step_costs_more_on_an_entity_with_a_long_past(tmp_path: Path) -> None:
    """Counted in instructions of the database, which know no noise."""
    costs = {}
    for past in (20, 2_000):
        path = tmp_path / f"{past}.db"
        ledger = await open_sqlite(path, lambda: START, patience=60)
        await asyncio.gather(*(_past(ledger, number) for number in range(past)))
        await ledger.close()
        costs[past] = _costs(path)
    grown = {
        verb: (short, costs[2_000][verb])
        for verb, short in costs[20].items()
        if costs[2_000][verb] > 1.5 * short
    }
    assert grown == {}


async def _past(ledger: SqliteLedger, number: int) -> None:
    for entity, terms in ((INVOICE, INTENT), (EntityId("", str(number)), TERMS)):
        key = f"past {number}" if entity == INVOICE else f"elsewhere {number}"
        # A print of its own, so that each enters an intent of its own.
        prints = tuple(replace(p, parts=(key.encode().ljust(32), *p.parts[1:])) for p in PRINTS)
        each = call(key, 7, entity=entity, prints=prints)
        await ledger.admit(each, terms)
        await ledger.settle(each.record_id, each.attempt, ANSWERED)


PRINTS = call().prints


def _costs(path: Path) -> dict[str, int]:
    db = connect(path)
    cost = count()
    db.set_progress_handler(lambda: next(cost) and None, 1)
    rows = SqliteRows(db)
    found = {}
    for verb, step in _steps().items():
        before = next(cost)
        db.execute("BEGIN")
        step(rows, START)
        db.execute("COMMIT")
        found[verb] = next(cost) - before
    db.close()
    return found
