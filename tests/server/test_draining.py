"""How a gateway goes away: nothing under way is lost, and what must be given up is unknown."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.double import Double, Script, ok
from tests.gateway.peers import upstream_up
from tests.gateway.rig import Got, ask, lines_of, until
from tests.gateway.scripts import held, nothing
from tests.process import Process, served

POLICY = """\
upstream: {{name: crm, mount: /crm, url: {url}, timeout: 20s}}
routes: [{{match: "POST /customers/{{customer}}", entity: "customer:{{path.customer}}"}}]
"""
SLOWLY = "drain_delay: 600ms, drain_timeout: 20s"
AT_ONCE = "drain_delay: 0s, drain_timeout: 300ms"
NEVER = "drain_delay: 60s, drain_timeout: 60s"


@pytest.fixture
def double() -> Iterator[Double]:
    with upstream_up() as upstream:
        yield upstream


@pytest.fixture
def policies(tmp_path: Path, double: Double) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "crm.yaml").write_text(POLICY.format(url=double.url))
    return folder


def write(policies: Path, drain: str) -> None:
    (policies / "gateway.yaml").write_text(f"callers: off\ngateway: {{{drain}}}\n")


async def call(gateway: Process, key: str = "k1") -> Got:
    return await ask(gateway.port, "POST", "/crm/customers/1", lines_of(key, 41), b"{}")


async def under_way(gateway: Process, double: Double, script: Script) -> asyncio.Task[Got]:
    """A call that is on the wire."""
    double.script = [script]
    task = asyncio.create_task(call(gateway))
    await until(lambda: double.hits)
    return task


async def ready(gateway: Process) -> int:
    return (await ask(gateway.port, "GET", "/_fencegate/readyz")).status


async def ended(gateway: Process) -> int:
    return await asyncio.to_thread(gateway.wait)


async def test_it_is_not_ready_before_it_takes_no_more(
    policies: Path, tmp_path: Path, double: Double
) -> None:
    write(policies, SLOWLY)
    with served(policies, tmp_path) as gateway:
        assert await ready(gateway) == 200
        gateway.send(signal.SIGTERM)
        gateway.wait_for("gateway_draining")
        assert await ready(gateway) == 503
        assert (await call(gateway)).status == 201
        assert await ended(gateway) == 0
        with pytest.raises(OSError, match=r"refused|failed"):
            await call(gateway, "k2")
        assert gateway.told("gateway_stopped")[0]["unsettled"] == 0


async def test_what_is_under_way_is_finished_recorded_and_answered(
    policies: Path, tmp_path: Path, double: Double
) -> None:
    write(policies, "drain_delay: 0s, drain_timeout: 20s")
    with served(policies, tmp_path) as gateway:
        release = threading.Event()
        first = await under_way(gateway, double, held(release, ok(201)))
        gateway.send(signal.SIGTERM)
        gateway.wait_for("gateway_draining")
        release.set()
        assert (await first).status == 201
        assert await ended(gateway) == 0
    with served(policies, tmp_path) as again:
        assert (await call(again)).header("fencegate-decision") == "replayed"
    assert len(double.hits) == 1


async def test_what_does_not_end_in_time_is_unknown_at_once_and_not_after_a_hold(
    policies: Path, tmp_path: Path, double: Double
) -> None:
    write(policies, AT_ONCE)
    with served(policies, tmp_path) as gateway:
        first = await under_way(gateway, double, nothing())
        gateway.send(signal.SIGTERM)
        given_up = await first
        assert (given_up.status, given_up.code) == (502, "outcome_unknown")
        assert given_up.problem["sent"] is True
        assert await ended(gateway) == 0
        assert gateway.told("gateway_stopped")[0]["unsettled"] == 0
    with served(policies, tmp_path) as again:
        assert (await call(again)).code == "outcome_unknown"
    assert len(double.hits) == 1


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_gives_up_at_once(
    policies: Path, tmp_path: Path, double: Double, second: signal.Signals
) -> None:
    write(policies, NEVER)
    with served(policies, tmp_path) as gateway:
        first = await under_way(gateway, double, nothing())
        gateway.send(signal.SIGTERM)
        gateway.wait_for("gateway_draining")
        gateway.send(second)
        assert (await first).code == "outcome_unknown"
        assert await ended(gateway) == 0  # within less than the delay


async def test_at_a_terminal_it_does_not_wait_for_traffic_to_go_elsewhere(
    policies: Path, tmp_path: Path, double: Double
) -> None:
    write(policies, NEVER)
    with served(policies, tmp_path) as gateway:
        gateway.send(signal.SIGINT)
        assert await ended(gateway) == 0


async def test_a_call_of_older_policies_is_given_up_too(
    policies: Path, tmp_path: Path, double: Double
) -> None:
    write(policies, AT_ONCE)
    with served(policies, tmp_path) as gateway:
        first = await under_way(gateway, double, nothing())
        text = POLICY.format(url=double.url).replace("timeout: 20s", "timeout: 21s")
        (policies / "crm.yaml").write_text(text)
        gateway.send(signal.SIGHUP)
        gateway.wait_for("policies_reloaded")
        gateway.send(signal.SIGTERM)
        assert (await first).code == "outcome_unknown"
        assert await ended(gateway) == 0


async def test_without_its_ledger_it_is_not_ready(
    policies: Path, tmp_path: Path, double: Double
) -> None:
    """Red within 5 s, and green again by itself."""
    write(policies, AT_ONCE)
    with served(policies, tmp_path) as gateway:
        turn = os.open(tmp_path / "ledger.db-turn", os.O_RDWR)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            await becomes(gateway, 503)
        finally:
            os.close(turn)
        await becomes(gateway, 200)
        assert len(gateway.told("ledger_failed")) == 1


async def becomes(gateway: Process, status: int) -> None:
    end = time.monotonic() + 20
    while await ready(gateway) != status:
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
