"""The commands as a user meets them: real processes, exit statuses, one clear sentence."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

POLICY = """\
upstream:
  name: crm
  mount: /crm
  url: http://127.0.0.1:9
routes:
  - match: PUT /customers/{id}
    entity: customer:{path.id}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "crm.yaml").write_text(POLICY)
    (policies / "gateway.yaml").write_text("callers: off\ngateway: {drain_delay: 0s}\n")
    return tmp_path


def fencegate(*words: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fencegate", *words],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "FENCEGATE_ADMIN": "127.0.0.1:0",
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=30)
    return process.returncode, said


def started(process: subprocess.Popen[str]) -> dict[str, object]:
    """Wait for the event that the gateway logs once it is wired."""
    assert process.stderr is not None
    said: dict[str, object] = json.loads(process.stderr.readline())
    return said


def test_version_and_help_are_printed(folder: Path) -> None:
    version = fencegate("--version", folder=folder)
    out, _ = version.communicate(timeout=30)
    assert out.startswith("fencegate, version ")
    usage = fencegate("serve", "--help", folder=folder)
    out, _ = usage.communicate(timeout=30)
    assert "--ledger" in out
    assert "Exit status" in out


def test_a_gateway_starts_answers_and_ends_with_status_0_on_sigterm(folder: Path) -> None:
    port = free_port()
    process = fencegate("serve", "policies", "--listen", f"127.0.0.1:{port}", folder=folder)
    try:
        assert started(process)["event"] == "gateway_started"
        url = f"http://127.0.0.1:{port}/_fencegate/readyz"
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert json.load(answer)["ready"] is True
        process.send_signal(signal.SIGTERM)
        status, said = ended(process)
    finally:
        process.kill()
    assert status == 0
    assert json.loads(said.splitlines()[-1])["event"] == "gateway_stopped"
    assert (folder / "fencegate.db").exists()


def test_settings_come_from_variables_too(folder: Path) -> None:
    process = fencegate("serve", "policies", folder=folder, FENCEGATE_LISTEN="nowhere")
    status, said = ended(process)
    assert status == 2
    assert "expected HOST:PORT" in said


def test_a_taken_port_is_named_and_no_ledger_is_made(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, said = ended(fencegate("serve", "policies", "--listen", address, folder=folder))
    assert status == 1
    assert f"cannot listen on {address}" in said
    assert "Traceback" not in said
    assert not (folder / "fencegate.db").exists()


@pytest.mark.parametrize("url", ["redis//x", "sqlite://", "nosql:///x", "memory://x", ""])
def test_an_address_that_is_no_ledger_is_refused_with_status_2(folder: Path, url: str) -> None:
    listen = f"127.0.0.1:{free_port()}"
    words = ("serve", "policies", "--listen", listen, "--ledger", url)
    status, said = ended(fencegate(*words, folder=folder))
    assert status == 2
    assert "expected sqlite:///FILE" in said
    assert "Traceback" not in said


def test_a_ledger_in_a_folder_that_is_not_there_is_one_sentence(folder: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    words = ("serve", "policies", "--listen", listen, "--ledger", "sqlite:///no/such/ledger.db")
    status, said = ended(fencegate(*words, folder=folder))
    assert status == 2
    assert "no/such" in said
    assert "Traceback" not in said


def test_a_broken_policy_is_shown_with_its_place_and_status_1(folder: Path) -> None:
    (folder / "policies" / "crm.yaml").write_text(POLICY.replace("mount", "muont"))
    status, said = ended(fencegate("serve", "policies", folder=folder))
    assert status == 1
    assert "crm.yaml" in said
    assert "mount" in said
    assert "Traceback" not in said


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
