"""`fencegate explain`."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencegate.cli.leaving import PROBLEMS_FOUND, UNREACHABLE, USAGE, leave

if TYPE_CHECKING:
    from fencegate.core.outcomes import Headers
    from fencegate.gateway.explaining import Explained
    from fencegate.policy import Policies


@click.command()
@click.argument("policies", type=click.Path(exists=True, path_type=Path))
@click.option("--method", default="POST", show_default=True)
@click.option("--path", required=True, help="Path and query, as a caller sends them.")
@click.option("-H", "--header", "headers", multiple=True, help="'Name: value'; several times.")
@click.option("--fence", help="Short for --header 'X-Execution-Fence: ...'.")
@click.option("--key", help="Short for --header 'Idempotency-Key: ...'.")
@click.option("-d", "--body", default="", help="The body, or @FILE.")
@click.option("--ledger", envvar="FENCEGATE_LEDGER", help="Ask this ledger; else an empty one.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def explain(
    policies: Path,
    method: str,
    path: str,
    headers: tuple[str, ...],
    fence: str | None,
    key: str | None,
    body: str,
    ledger: str | None,
    output: str,
) -> None:
    """Say which route of the POLICIES a request takes, which entity, fence and key it has, and what
    would become of it, by the same code as the gateway's. Nothing is sent and nothing recorded.

    A body needs its type: --header 'Content-Type: application/json'. Exit status: 0 if the request
    would be forwarded, replayed or passed, 1 if it would be refused, 3 if the ledger cannot be
    reached.
    """
    from fencegate.policy import Outside, PolicyError, check

    checked = check(policies, Outside(os.environ, pretend=True))
    if checked.policies is None:
        leave(PROBLEMS_FOUND, str(PolicyError(list(checked.problems))))
    named = [("X-Execution-Fence", fence), ("Idempotency-Key", key)]
    lines = [*headers, *(f"{name}: {value}" for name, value in named if value is not None)]
    explained = asyncio.run(
        _explained(checked.policies, ledger, method, path, _fields(lines), _body(body))
    )
    if output == "json":
        click.echo(json.dumps(asdict(explained), indent=2))
    else:
        _print(explained, ledger)
    raise SystemExit(PROBLEMS_FOUND if explained.decision == "refused" else 0)


async def _explained(
    policies: Policies, url: str | None, method: str, path: str, headers: Headers, body: bytes
) -> Explained:
    from fencegate.gateway.explaining import explain as explain_request
    from fencegate.ledger.opening import exists, open_ledger
    from fencegate.ledger.protocol import LedgerUnavailable, LedgerUnusable

    try:
        # A ledger that is not there yet is empty; looking must not make it.
        ledger = await open_ledger(url if url and exists(url) else "memory://")
    except LedgerUnusable as error:
        leave(UNREACHABLE, str(error))
    try:
        return await explain_request(policies, ledger, method, path.encode(), headers, body)
    except LedgerUnavailable as error:
        leave(UNREACHABLE, f"the ledger does not answer: {error}")
    finally:
        await ledger.close()


def _fields(lines: list[str]) -> Headers:
    fields = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            leave(USAGE, f"{name!r} is no header; write --header 'Name: value'")
        fields.append((name.strip().encode(), value.strip().encode()))
    return tuple(fields)


def _body(written: str) -> bytes:
    if not written.startswith("@"):
        return written.encode()
    try:
        return Path(written[1:]).read_bytes()
    except OSError as error:
        leave(USAGE, f"the body {written[1:]} cannot be read: {error.strerror}")


# --- as text -------------------------------------------------------------------------------


def _print(explained: Explained, ledger: str | None) -> None:
    of = explained
    rows: list[tuple[str, str | None]] = [
        ("route", f"{of.upstream}: {of.route or 'no route'}" if of.upstream else None),
        ("asks", f"guard {of.guard}, mode {of.mode}" if of.guard else None),
        ("caller", of.caller),
        ("entity", of.entity and of.entity + (f" in domain {of.domain}" if of.domain else "")),
        ("fence", None if of.fence is None else str(of.fence)),
        ("key", of.key),
        ("upstream", of.upstream_target and f"is asked for {of.upstream_target}"),
        ("ledger", _ledger(of, ledger)),
        *(("waits", f"up to {seconds:g} s for its {what}") for what, seconds in of.waits),
        ("decision", _decision(of)),
        ("", of.detail),
    ]
    for name, said in rows:
        if said:
            click.echo(f"{name:<9} {said}")


def _ledger(explained: Explained, ledger: str | None) -> str | None:
    if explained.key is None and explained.fence is None:
        return None
    if ledger is None:
        return "not asked (--ledger URL): as if entity and key were new"
    return None if explained.high_water is None else f"high water {explained.high_water}"


def _decision(explained: Explained) -> str:
    status = "" if explained.status is None else f" {explained.status}"
    code = "" if explained.code is None else f" {explained.code}"
    again = " (again: the upstream de-duplicates by the key)" if explained.resends else ""
    return f"{explained.decision.upper()}{status}{code}{again}"
