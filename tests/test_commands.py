"""Commands on policies: what they print, and their exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fencegate.cli import main
from tests.gateway.peers import nobody_listens
from tests.process import ROOT

POLICY = """\
upstream:
  name: crm
  mount: /crm
  url: http://127.0.0.1:{port}
routes:
  - match: PUT /customers/{{id}}
    entity: customer:{{path.id}}
  - match: POST /search
    guard: none
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "crm.yaml").write_text(POLICY.format(port=nobody_listens()))
    (folder / "gateway.yaml").write_text("callers: off\n")
    return folder


def run(*words: str | Path, **environ: str) -> Result:
    result = CliRunner(env=environ).invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# --- check ---------------------------------------------------------------------------------


def test_what_is_right_is_counted(policies: Path) -> None:
    said = run("check", policies)
    assert (said.exit_code, said.stdout) == (0, "no problems in 1 upstream with 2 routes\n")


def test_every_problem_of_every_file_is_said_in_one_run(policies: Path) -> None:
    (policies / "gateway.yaml").write_text("callers: off\ngateway:\n  hold: 15\n")
    broken = POLICY.replace("entity:", "entitty:").replace("mount: /crm", "mount: crm")
    (policies / "crm.yaml").write_text(broken.format(port=9))
    said = run("check", policies)
    assert said.exit_code == 1
    places = [
        line.partition(" ")[0].rpartition("/")[2]
        for line in said.stdout.splitlines()
        if "[FG" in line
    ]
    assert places == ["crm.yaml:3:10:", "crm.yaml:7:5:", "gateway.yaml:3:9:"]
    assert "^ did you mean `entity`?" in said.stdout
    assert said.stdout.endswith("3 problems\n")


def test_a_warning_counts_only_if_it_is_asked_to(policies: Path) -> None:
    (policies / "gateway.yaml").unlink()
    said = run("check", policies)
    assert said.exit_code == 0
    assert "warning: no `callers`" in said.stdout
    assert said.stdout.endswith("no problems and 1 warning in 1 upstream with 2 routes\n")
    assert run("check", policies, "--strict").exit_code == 1


def test_problems_are_told_to_programs_too(policies: Path) -> None:
    (policies / "gateway.yaml").write_text("callers: off\ngateway: {hold: 15}\n")
    said = run("check", policies, "-o", "json")
    (problem,) = json.loads(said.stdout)
    assert problem["file"] == str(policies / "gateway.yaml")
    assert (problem["line"], problem["column"], problem["code"]) == (2, 17, "FG006")
    assert (problem["severity"], said.exit_code) == ("error", 1)
    assert run("check", policies / "crm.yaml", "-o", "json").exit_code == 0


def test_secrets_need_not_be_where_policies_are_checked(policies: Path) -> None:
    headers = "  headers: {A: '${NOT_HERE}', B: '${file:/not/here}'}\n"
    text = POLICY.format(port=9).replace("routes:", f"{headers}routes:")
    (policies / "crm.yaml").write_text(text)
    said = run("check", policies)
    assert said.exit_code == 1
    assert said.stdout.count("[FG007]") == 2
    assert run("check", policies, "--without-secrets").exit_code == 0


def test_online_it_asks_ledger_and_upstreams_and_makes_nothing(policies: Path) -> None:
    ledger = f"sqlite:///{policies.parent}/none.db"
    said = run("check", policies, "--online", "--ledger", ledger)
    assert said.exit_code == 0
    assert "`crm`: no connection to 127.0.0.1:" in said.stdout
    assert "[FG202]" in said.stdout
    assert not (policies.parent / "none.db").exists()


def test_a_ledger_that_cannot_be_asked_is_status_3(policies: Path) -> None:
    other = policies.parent / "other.db"
    other.write_text("not a database, but long enough to be looked at as one")
    said = run("check", policies, "--online", "--ledger", f"sqlite:///{other}")
    assert said.exit_code == 3
    assert "[FG201]" in said.stdout
    assert run("check", policies, "--online", "--ledger", "nosql://x").exit_code == 3


# --- explain -------------------------------------------------------------------------------

CALL = ("--method", "PUT", "--path", "/crm/customers/88%312", "--fence", "41", "--key", "k1")


def test_a_request_is_explained(policies: Path) -> None:
    said = run("explain", policies, *CALL)
    assert said.exit_code == 0
    assert [line.split(maxsplit=1) for line in said.stdout.splitlines()] == [
        ["route", "crm: PUT /customers/{id}"],
        ["asks", "guard full, mode enforce"],
        ["entity", "customer:8812"],
        ["fence", "41"],
        ["key", "k1"],
        ["upstream", "is asked for /customers/88%312"],
        ["ledger", "not asked (--ledger URL): as if entity and key were new"],
        ["decision", "FORWARDED"],
    ]


def test_a_refusal_is_explained_with_the_route_that_it_met(policies: Path) -> None:
    said = run("explain", policies, *CALL[:4], "-o", "json")
    told: dict[str, Any] = json.loads(said.stdout)
    assert said.exit_code == 1
    assert (told["route"], told["code"], told["status"]) == (
        "PUT /customers/{id}",
        "fence_required",
        428,
    )


def test_the_ledger_is_asked_and_left_alone(policies: Path) -> None:
    ledger = f"sqlite:///{policies.parent}/ledger.db"
    assert run("explain", policies, *CALL, "--ledger", ledger).exit_code == 0
    assert not (policies.parent / "ledger.db").exists()


def test_a_body_is_read_from_a_file(policies: Path) -> None:
    body = policies.parent / "body.json"
    body.write_text('{"a":1,"a":2}')
    words = ("-d", f"@{body}", "-H", "Content-Type: application/json")
    assert "body_ambiguous" in run("explain", policies, *CALL, *words).stdout
    gone = run("explain", policies, *CALL, "-d", "@/not/here")
    assert (gone.exit_code, "/not/here cannot be read" in gone.stderr) == (2, True)
    assert run("explain", policies, *CALL, "-H", "nonsense").exit_code == 2


# --- init, schema, problems ----------------------------------------------------------------


def test_what_init_writes_is_right_and_never_overwrites(tmp_path: Path) -> None:
    assert run("init", tmp_path / "mine").exit_code == 0
    assert run("check", tmp_path / "mine", "--strict").exit_code == 0
    first = (tmp_path / "mine" / "api.yaml").read_text()
    assert first.startswith("# yaml-language-server: $schema=.upstream.schema.json\n")
    schema = json.loads((tmp_path / "mine" / ".upstream.schema.json").read_text())
    assert schema == json.loads(run("schema", "upstream").stdout)
    (tmp_path / "mine" / "api.yaml").write_text("mine")
    again = run("init", tmp_path / "mine")
    assert (again.exit_code, "is there already" in again.stderr) == (1, True)
    assert (tmp_path / "mine" / "api.yaml").read_text() == "mine"


def test_what_is_commented_out_in_the_starter_is_right_too(tmp_path: Path) -> None:
    run("init", tmp_path / "mine")
    file = tmp_path / "mine" / "api.yaml"
    text = file.read_text().replace("  # headers:", "  headers:").replace("  #   Auth", "    Auth")
    file.write_text(text.replace("    # key:", "    key:"))
    assert run("check", tmp_path / "mine", "--strict", API_TOKEN="s3cret").exit_code == 0


def test_every_code_is_explained_and_a_wrong_one_is_met_with_the_nearest() -> None:
    listed = [line.split()[0] for line in run("problems").stdout.splitlines()]
    assert {"stale_fence", "outcome_unknown", "FG102", "FG201"} <= {*listed}
    for code in listed:
        said = run("problems", code)
        assert said.exit_code == 0
        assert said.stdout.startswith(f"{code}: ")
    assert run("problems", "fg102").stdout == run("problems", "FG102").stdout
    wrong = run("problems", "stale_fense")
    assert (wrong.exit_code, "did you mean `stale_fence`?" in wrong.stderr) == (2, True)


def test_a_command_that_is_not_there_is_met_with_the_nearest() -> None:
    said = run("exlpain")
    assert (said.exit_code, "Did you mean `explain`?" in said.stderr) == (2, True)


HEAVY = ["uvicorn", "starlette", "pydantic", "yaml", "sqlite3"]


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["problems", "--help"]])
def test_what_needs_no_server_brings_none_along(words: list[str]) -> None:
    looked = (
        "import sys\nfrom fencegate.cli import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", looked], cwd=ROOT, capture_output=True, text=True)
    assert told.stdout.splitlines()[-1] == "[]"
