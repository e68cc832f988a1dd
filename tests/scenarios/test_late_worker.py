"""The late worker: it loses its lease in the middle of its work, wakes up and writes.

W1 holds fence 41 and W2, its successor, fence 42. In front of an API that knows nothing of fences
stands the real process on a file of its own; what counts is what the API was asked to do.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.double import Double, do_late
from tests.gateway.peers import upstream_up
from tests.gateway.rig import Got, ask, connected, request_bytes, until
from tests.gateway.scripts import reset
from tests.process import Process
from tests.process import served as started

POLICY = """\
upstream:
  name: crm
  mount: /crm
  url: {url}
routes:
  - match: POST /customers/{{customer}}/**
    entity: customer:{{path.customer}}
"""


@contextmanager
def served(folder: Path, url: str) -> Iterator[Process]:
    (folder / "crm.yaml").write_text(POLICY.format(url=url))
    with started(folder / "crm.yaml", folder) as process:
        yield process


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
