"""Policies that change while the gateway runs: by SIGHUP, by command, by mistake."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.double import Double, do_drop, ok
from tests.gateway.peers import upstream_up
from tests.gateway.rig import Got, ask, lines_of, until
from tests.gateway.scripts import held
from tests.process import ROOT, Process, served

POLICY = """\
upstream:
  name: crm
  mount: /crm
  url: {url}
  timeout: 20s
routes:
  - match: POST /customers/{{customer}}
    entity: customer:{{path.customer}}
"""
OTHER_ENTITY = POLICY.replace("entity: customer:", "entity: person:")
LARGER = POLICY.replace("timeout: 20s", "timeout: 20s\n  body_limit: 2B")


@pytest.fixture
def double() -> Iterator[Double]:
    with upstream_up() as upstream:
        yield upstream


@pytest.fixture
def policies(tmp_path: Path, double: Double) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "gateway.yaml").write_text("callers: off\ngateway: {drain_delay: 0s}\n")
    write(folder, double)
    return folder


@pytest.fixture
def gateway(policies: Path, tmp_path: Path) -> Iterator[Process]:
    with served(policies, tmp_path) as process:
        yield process


def write(folder: Path, double: Double, policy: str = POLICY) -> None:
    (folder / "crm.yaml").write_text(policy.format(url=double.url))


async def call(gateway: Process, key: str = "k1", body: bytes = b'{"a":1}') -> Got:
    return await ask(gateway.port, "POST", "/crm/customers/1", lines_of(key, 41), body)


def command(*words: str, gateway: Process) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fencegate", *words],
        cwd=ROOT,
        env={**os.environ, "FENCEGATE_ADMIN_URL": gateway.admin_url},
        capture_output=True,
        text=True,
        timeout=30,
    )


async def reloaded(gateway: Process) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(command, "reload", gateway=gateway)


async def test_sighup_brings_other_policies(
    gateway: Process, policies: Path, double: Double
) -> None:
    assert (await call(gateway)).status == 201
    write(policies, double, LARGER)
    gateway.send(signal.SIGHUP)
    gateway.wait_for("policies_reloaded")
    assert (await call(gateway, "k2")).code == "body_too_large"


async def test_the_command_says_what_has_become_of_it(
    gateway: Process, policies: Path, double: Double
) -> None:
    write(policies, double, LARGER)
    told = await reloaded(gateway)
    assert (told.returncode, told.stdout) == (0, "reloaded: 1 upstream, 1 route\n")
    assert (await call(gateway, "k2")).code == "body_too_large"


async def test_the_same_again_is_no_event(gateway: Process) -> None:
    gateway.send(signal.SIGHUP)
    told = await reloaded(gateway)
    assert (told.returncode, told.stdout) == (0, "nothing has changed: 1 upstream, 1 route\n")
    assert gateway.told("policies_reloaded") == []


async def test_a_bad_file_keeps_the_last_good_one(
    gateway: Process, policies: Path, double: Double
) -> None:
    write(policies, double, LARGER.replace("body_limit", "body_limt"))
    told = await reloaded(gateway)
    assert told.returncode == 1
    assert "did you mean `body_limit`?" in told.stderr
    assert "Nothing was changed." in told.stderr
    gateway.send(signal.SIGHUP)
    refused = gateway.wait_for("reload_refused", count=2)
    assert refused["problems"] == 1
    assert "body_limt" in refused["why"]
    assert (await call(gateway)).status == 201


async def test_a_call_keeps_the_policy_that_it_began_with(
    gateway: Process, policies: Path, double: Double
) -> None:
    release = threading.Event()
    double.script = [held(release, ok(201, b"x" * 100))]
    first = asyncio.create_task(call(gateway))
    await until(lambda: double.hits)
    write(policies, double, POLICY.replace("timeout: 20s", "timeout: 20s\n  answer_limit: 9B"))
    assert (await reloaded(gateway)).returncode == 0
    release.set()
    assert (await first).status == 201
    assert (await call(gateway)).header("fencegate-decision") == "replayed"  # kept as it began
    double.script = [ok(201, b"x" * 100)]
    assert (await call(gateway, "k2")).status == 201
    assert (await call(gateway, "k2")).code == "answer_not_kept"


async def test_another_identity_is_refused_while_an_outcome_is_unknown(
    gateway: Process, policies: Path, double: Double, tmp_path: Path
) -> None:
    double.script = [do_drop()]
    assert (await call(gateway)).code == "outcome_unknown"
    write(policies, double, OTHER_ENTITY)
    told = await reloaded(gateway)
    assert told.returncode == 1
    assert "crm: 1 open or unknown records" in told.stderr
    assert "`route POST /customers/{customer}`" in told.stderr
    assert (await call(gateway)).code == "outcome_unknown"
    online = await asyncio.to_thread(
        command, "check", str(policies), "--online", "--ledger", gateway.ledger, gateway=gateway
    )
    assert online.returncode == 1
    assert "FG106" in online.stdout
    assert gateway.terminate() == 0

    again = Process(policies, tmp_path)
    assert again.wait() == 1
    assert "--accept-identity-change" in again.log
    with served(policies, tmp_path, "--accept-identity-change") as accepted:
        assert (await call(accepted)).code == "key_reused"  # another entity under the same key
    with served(policies, tmp_path) as known:  # what was accepted is known from then on
        assert (await call(known, "k2")).status == 201


async def test_another_identity_is_taken_where_nothing_is_open(
    gateway: Process, policies: Path, double: Double
) -> None:
    assert (await call(gateway)).status == 201
    write(policies, double, OTHER_ENTITY)
    assert (await reloaded(gateway)).returncode == 0
    assert (await call(gateway, "k2")).status == 201


async def test_a_new_secret_in_a_file_is_a_change(
    policies: Path, double: Double, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one\n")
    headers = f"timeout: 20s\n  headers:\n    Authorization: Bearer ${{{{file:{secret}}}}}"
    write(policies, double, POLICY.replace("timeout: 20s", headers))
    with served(policies, tmp_path) as gateway:
        await call(gateway)
        secret.write_text("two\n")
        assert "reloaded" in (await reloaded(gateway)).stdout
        await call(gateway, "k2")
        assert "one" not in gateway.log
    assert [hit.header("authorization") for hit in double.hits] == ["Bearer one", "Bearer two"]


async def test_from_observing_to_enforcing_by_reload(
    policies: Path, double: Double, tmp_path: Path
) -> None:
    write(policies, double, POLICY.replace("timeout: 20s", "timeout: 20s\n  mode: observe"))
    with served(policies, tmp_path) as gateway:
        lines = [lines_of("k1", 42), lines_of("k2", 41)]
        for one in lines:
            await ask(gateway.port, "POST", "/crm/customers/1", one, b"{}")
        table = await asyncio.to_thread(command, "observed", gateway=gateway)
        assert table.returncode == 0
        assert "would-refuse  stale_fence  1" in table.stdout
        as_json = await asyncio.to_thread(command, "observed", "-o", "json", gateway=gateway)
        counts = json.loads(as_json.stdout)["counts"]
        assert [(c["decision"], c["code"], c["calls"]) for c in counts] == [
            ("forwarded", None, 1),
            ("would-refuse", "stale_fence", 1),
        ]
        write(policies, double)
        assert (await reloaded(gateway)).returncode == 0
        late = await ask(gateway.port, "POST", "/crm/customers/1", lines[1], b"{}")
        assert (late.status, late.problem["high_water"]) == (412, 42)


def test_a_gateway_that_is_not_there_is_status_3(gateway: Process) -> None:
    gateway.kill()
    told = command("reload", gateway=gateway)
    assert told.returncode == 3
    assert "no gateway answers at" in told.stderr
    assert "Traceback" not in told.stderr


# --- the admin port ------------------------------------------------------------------------


def admin(gateway: Process, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(gateway.admin_url + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, None


def test_a_web_page_cannot_use_the_admin_port(gateway: Process) -> None:
    assert admin(gateway, "/livez") == (200, {"live": True})
    assert admin(gateway, "/readyz")[0] == 200
    assert admin(gateway, "/api/v1/reload", "POST", Origin="http://evil.example")[0] == 403
    assert admin(gateway, "/api/v1/reload", "POST", Host="evil.example:9080")[0] == 403
    assert admin(gateway, "/api/v1/observed", Host="evil.example")[0] == 403
    assert admin(gateway, "/api/v1/observed", Host="localhost:1")[0] == 200
    assert admin(gateway, "/api/v1/reload", "GET")[0] == 405
    assert admin(gateway, "/api/v1/reload", "POST")[0] == 200


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:1", "[::]:0", "gateway:9080", "9080"])
def test_the_admin_port_is_for_this_machine_only(
    policies: Path, tmp_path: Path, address: str
) -> None:
    process = Process(policies, tmp_path, "--admin", address)
    assert process.wait() == 2
    assert "127.0.0.1:PORT" in process.log or "expected HOST:PORT" in process.log
