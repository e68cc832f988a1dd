"""`fencegate check`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencegate.cli.leaving import PROBLEMS_FOUND, UNREACHABLE, counted
from fencegate.config import DEFAULT_LEDGER

if TYPE_CHECKING:
    from fencegate.policy import Checked, Policies, Problem


@click.command()
@click.argument("policies", type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.option("--strict", is_flag=True, help="Warnings count as problems found.")
@click.option(
    "--without-secrets",
    is_flag=True,
    help="Take variables and files that are not here to be there.",
)
@click.option("--online", is_flag=True, help="Ask the ledger and the upstreams too.")
@click.option(
    "--ledger",
    default=DEFAULT_LEDGER,
    show_default=True,
    envvar="FENCEGATE_LEDGER",
    help="The ledger that --online asks.",
)
def check(
    policies: Path, output: str, strict: bool, without_secrets: bool, online: bool, ledger: str
) -> None:
    """Say everything that is wrong with the POLICIES (a folder or a file), in one run.

    Exit status: 0 if they can be used, 1 if there are problems, 3 if --online could not reach the
    ledger.
    """
    from fencegate.policy import Code, Outside, Severity, as_json
    from fencegate.policy import check as check_files

    checked = check_files(policies, Outside(os.environ, pretend=without_secrets))
    problems = list(checked.problems)
    if online and checked.policies is not None:
        from fencegate.server.online import ask

        problems += ask(checked.policies, ledger, policies)
    if output == "json":
        click.echo(json.dumps([as_json(problem) for problem in problems], indent=2))
    else:
        _print(checked, problems)
    errors = [p for p in problems if strict or p.severity is Severity.ERROR]
    if any(problem.code is Code.LEDGER_AWAY for problem in problems):
        raise SystemExit(UNREACHABLE)
    raise SystemExit(PROBLEMS_FOUND if errors else 0)


def _print(checked: Checked, problems: list[Problem]) -> None:
    from fencegate.policy import Severity

    for problem in problems:
        click.echo(f"{problem}\n")
    warnings = sum(problem.severity is Severity.WARNING for problem in problems)
    errors = len(problems) - warnings
    said = [counted(errors, "problem"), *([counted(warnings, "warning")] if warnings else [])]
    what = f" in {_sized(checked.policies)}" if checked.policies else ""
    click.echo(f"{' and '.join(said)}{what}")


def _sized(policies: Policies) -> str:
    upstreams = counted(len(policies.upstreams), "upstream")
    matches = len({(route.upstream.name, route.pattern.text) for route in policies.routes})
    return f"{upstreams} with {counted(matches, 'route')}"
