"""Commands that ask a running gateway, by its admin port."""

from __future__ import annotations

import json
from typing import Any

import click

from fencegate.cli.leaving import PROBLEMS_FOUND, UNREACHABLE, counted, leave

DEFAULT_URL = "http://127.0.0.1:9080"
PATIENCE = 10.0  # seconds for the answer of a gateway on this machine

admin_url = click.option(
    "--admin-url",
    default=DEFAULT_URL,
    show_default=True,
    envvar="FENCEGATE_ADMIN_URL",
    help="The admin port of the gateway.",
)


@click.command()
@admin_url
def reload(admin_url: str) -> None:
    """Let a running gateway read its policies again.

    It checks the files first: wrong ones change nothing, and neither do files that would identify
    calls in another way while records are open. Exit status: 0 if the policies in the files are
    those that hold, 1 if they were refused, 3 if the gateway cannot be reached.
    """
    status, told = asked(admin_url, "POST", "/api/v1/reload")
    if status != 200:
        leave(PROBLEMS_FOUND, f"{told.get('why', told)}\n\nNothing was changed.")
    what = "reloaded" if told["changed"] else "nothing has changed"
    warnings = f", {counted(told['warnings'], 'warning')}" if told["warnings"] else ""
    upstreams, routes = counted(told["upstreams"], "upstream"), counted(told["routes"], "route")
    click.echo(f"{what}: {upstreams}, {routes}{warnings}")


@click.command()
@admin_url
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def observed(admin_url: str, output: str) -> None:
    """Report what the calls of observing routes would have met, since the gateway's start.

    Exit status: 0, or 3 if the gateway cannot be reached.
    """
    _, told = asked(admin_url, "GET", "/api/v1/observed")
    if output == "json":
        click.echo(json.dumps(told, indent=2))
        return
    if not told["counts"]:
        click.echo("No observed call so far. Routes observe under `mode: observe`.")
        return
    click.echo(f"Observed since {told['since']}, when this gateway was started:\n")
    rows: list[tuple[str, ...]] = [
        (c["upstream"], c["route"], c["decision"], c["code"] or "", str(c["calls"]))
        for c in told["counts"]
    ]
    _table(("UPSTREAM", "ROUTE", "DECISION", "CODE", "CALLS"), rows)
    if told["last"]:
        click.echo("\nThe last that would not have been forwarded:\n")
        last: list[tuple[str, ...]] = [
            tuple(str(c[n] or "") for n in ("decision", "code", "entity", "fence", "key", "ref"))
            for c in told["last"]
        ]
        _table(("DECISION", "CODE", "ENTITY", "FENCE", "KEY", "REF"), last)


def asked(url: str, method: str, path: str) -> tuple[int, dict[str, Any]]:
    """The gateway's answer; leaves with 3 if there is none."""
    from urllib.error import HTTPError, URLError
    from urllib.request import ProxyHandler, Request, build_opener

    request = Request(url.rstrip("/") + path, method=method)
    opener = build_opener(ProxyHandler({}))  # the admin port is on this machine
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, _document(error.read())
    except (URLError, OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        leave(UNREACHABLE, f"no gateway answers at {url}: {why}; name it with --admin-url URL")


def _document(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {"why": "the answer is not that of a gateway"}
    return said if isinstance(said, dict) else {"why": str(said)}


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())
