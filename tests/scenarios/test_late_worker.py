"""The late worker: it loses its lease in the middle of its work, wakes up and writes.

W1 holds fence 41 and W2, its successor, fence 42. In front of an API that knows nothing of fences
stands the real process on a file of its own; what counts is what the API was asked to do.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.double import Double, do_late
from tests.gateway.peers import nobody_listens, upstream_up
from tests.gateway.rig import Got, ask, connected, request_bytes, until
from tests.gateway.scripts import reset

ROOT = Path(__file__).parents[2]
POLICY = """\
upstream:
  name: crm
  mount: /crm
  url: {url}
routes:
  - match: POST /customers/{{customer}}/**
    entity: customer:{{path.customer}}
"""


class Process:
    """`fencegate serve` and its log."""

    def __init__(self, folder: Path, url: str) -> None:
        self.port = nobody_listens()
        (folder / "crm.yaml").write_text(POLICY.format(url=url))
        self._log = folder / "log"
        command = [sys.executable, "-m", "fencegate", "serve", str(folder / "crm.yaml")]
        command += ["--ledger", f"sqlite:///{folder}/ledger.db"]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def wait_until_ready(self) -> None:
        end = time.monotonic() + 20
        while not self.told("gateway_started"):
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < end
            time.sleep(0.01)

    def told(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    def terminate(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(20)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def served(folder: Path, url: str) -> Iterator[Process]:
    process = Process(folder, url)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.kill()


@pytest.fixture
def crm() -> Iterator[Double]:
    with upstream_up() as double:
        yield double


class Worker:
    """A worker under one lease: its name, its fence, and calls with keys that its job gives."""

    def __init__(self, process: Process, name: str, fence: int) -> None:
        self._process = process
        self._lines = [
            ("Content-Type", "application/json"),
            ("X-Execution-Fence", str(fence)),
            ("X-Execution-Holder", name),
        ]

    async def announce(self, entity: str) -> Got:
        target = f"/_fencegate/v1/entities/{entity}/fence"
        return await ask(self._process.port, "PUT", target, self._lines)

    async def writes(self, step: str) -> Got:
        return await ask(self._process.port, "POST", *self._request(step))

    async def is_cut_off_while_it_writes(self, step: str, crm: Double) -> None:
        async with connected(self._process.port) as (_, writer):
            hits = len(crm.hits)
            writer.write(request_bytes("POST", *self._request(step)))
            await until(lambda: len(crm.hits) > hits)
            reset(writer)

    def _request(self, step: str) -> tuple[str, list[tuple[str, str]], bytes]:
        target = f"/crm/customers/c-1048/{step}"
        lines = [*self._lines, ("Idempotency-Key", f"job-7:{step}")]
        return target, lines, json.dumps({"step": step}).encode()


async def test_a_worker_that_wakes_up_after_its_successor_has_written_changes_nothing(
    crm: Double, tmp_path: Path
) -> None:
    done = threading.Event()
    with served(tmp_path, crm.url) as process:
        w1, w2 = Worker(process, "w1@pod-a", 41), Worker(process, "w2@pod-b", 42)

        assert (await w1.writes("open")).status == 201
        crm.script = [do_late(done, 201, b'{"case":17}')]
        await w1.is_cut_off_while_it_writes("case", crm)

        # The lease ran out; W2 takes over and repeats the step nobody has an answer to.
        repeated = asyncio.create_task(w2.writes("case"))
        await asyncio.sleep(0.05)  # it waits for the call that is still on its way
        assert not repeated.done()
        done.set()
        case = await repeated
        assert (case.status, case.body) == (201, b'{"case":17}')
        assert case.header("fencegate-decision") == "replayed"
        assert (await w2.writes("close")).status == 201

        # W1 wakes up.
        late = await w1.writes("note")
        again = await w1.writes("case")

        assert late.status == 412
        problem = late.problem
        assert problem["code"] == "stale_fence"
        assert (problem["entity"], problem["fence"]) == ("customer:c-1048", 41)
        assert (problem["high_water"], problem["holder"]) == (42, "w2@pod-b")
        assert "Fence 41 is below 42" in problem["detail"]
        assert problem["sent"] is False
        assert late.header("x-should-retry") == "false"
        assert again.header("fencegate-decision") == "replayed"
        assert again.header("fencegate-fence") == "stale"

        effects = [json.loads(hit.body)["step"] for hit in crm.hits if hit.effects]
        assert effects == ["open", "case", "close"]
        assert crm.effects == 3

        (why,) = [line for line in process.told("call_ended") if line["decision"] == "refused"]
        assert (why["code"], why["fence"], why["high_water"]) == ("stale_fence", 41, 42)
        assert (why["entity"], why["key"]) == ("customer:c-1048", "job-7:note")
        assert why["holder"] == "w1@pod-a"
        assert why["ref"] == late.header("fencegate-ref") == problem["ref"]
        assert process.terminate() == 0
        assert process.told("gateway_stopped")[0]["unsettled"] == 0


async def test_an_announced_successor_shuts_out_the_late_worker_before_its_own_first_call(
    crm: Double, tmp_path: Path
) -> None:
    """And so it stays when the process is killed and started again."""
    with served(tmp_path, crm.url) as process:
        w1, w2 = Worker(process, "w1@pod-a", 41), Worker(process, "w2@pod-b", 42)
        assert (await w1.writes("open")).status == 201
        assert (await w2.announce("customer:c-1048")).status == 200
        assert (await w1.writes("note")).code == "stale_fence"
    with served(tmp_path, crm.url) as process:
        w1, w2 = Worker(process, "w1@pod-a", 41), Worker(process, "w2@pod-b", 42)
        assert (await w1.writes("note")).code == "stale_fence"
        assert (await w1.writes("open")).header("fencegate-decision") == "replayed"
        assert (await w2.writes("close")).status == 201
    assert [json.loads(hit.body)["step"] for hit in crm.hits] == ["open", "close"]
