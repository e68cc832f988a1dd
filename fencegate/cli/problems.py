"""`fencegate problems`."""

from __future__ import annotations

import json
from difflib import get_close_matches

import click

from fencegate.cli.leaving import USAGE, leave


@click.command()
@click.argument("code", required=False)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def problems(code: str | None, output: str) -> None:
    """Say what CODE means and what to do: that of a refusal (stale_fence) or of a finding in
    policies (FG102). Without a code, list all.

    Exit status: 0, or 2 if there is no such code.
    """
    known = _known()
    if code is None:
        if output == "json":
            click.echo(json.dumps(list(known.values()), indent=2))
            return
        for name, said in known.items():
            click.echo(f"{name:<20} {said['kind']:<12} {said['title']}")
        return
    found = known.get(code) or known.get(code.upper()) or known.get(code.lower())
    if found is None:
        near = get_close_matches(code.lower(), [name.lower() for name in known], n=1)
        meant = f"; did you mean `{near[0]}`?" if near else "; `fencegate problems` lists all"
        leave(USAGE, f"there is no code `{code}`{meant}")
    if output == "json":
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(f"{found['code']}: {found['title']} ({found['kind']})\n\n{found['meaning']}")
    if "retry" in found:
        click.echo(f"\nHelps a retry under the same key? {found['retry']}.")


def _known() -> dict[str, dict[str, str]]:
    from fencegate.gateway.problems import KINDS
    from fencegate.policy import CODES

    refusals = {
        reason.value: {
            "code": reason.value,
            "kind": f"HTTP {kind.status}",
            "title": kind.title,
            "meaning": kind.meaning,
            "retry": "Yes, later" if kind.retry else "No",
        }
        for reason, kind in KINDS.items()
    }
    findings = {
        code.value: {
            "code": code.value,
            "kind": kind.severity.value,
            "title": kind.title,
            "meaning": kind.meaning,
        }
        for code, kind in CODES.items()
    }
    return {**refusals, **findings}
