"""What can be said of policies only by asking: the ledger, and the upstreams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from fencegate.core.identity import Adopted, NotAdopted
from fencegate.ledger.opening import exists, open_ledger
from fencegate.ledger.protocol import Act, LedgerUnavailable, LedgerUnusable
from fencegate.policy import Code, Place, Policies, Problem, Upstream, identities

LOOKING = Act("fencegate check", "look only")


def ask(policies: Policies, ledger: str, folder: Path) -> list[Problem]:
    """Findings that need a connection. Nothing is changed anywhere."""
    return asyncio.run(_ask(policies, ledger, Place(str(folder))))


async def _ask(policies: Policies, ledger: str, place: Place) -> list[Problem]:
    upstreams = asyncio.gather(*(_reached(upstream) for upstream in policies.upstreams))
    found = await _of_ledger(policies, ledger, place)
    whys = await upstreams
    for upstream, why in zip(policies.upstreams, whys, strict=True):
        if why is not None:
            wrong = f"`{upstream.name}`: no connection to {upstream.authority}: {why}"
            hint = "start the API, or mend `url`, `tls` or the way there"
            found.append(Problem(place, wrong, "", code=Code.UPSTREAM_AWAY, hint=hint))
    return found


async def _reached(upstream: Upstream) -> str | None:
    """Why no connection can be made; None if one can."""
    tls = upstream.tls.context() if upstream.scheme == "https" else None
    try:
        async with asyncio.timeout(upstream.connect_timeout):
            _, writer = await asyncio.open_connection(upstream.host, upstream.port, ssl=tls)
    except TimeoutError:
        return f"no answer within {upstream.connect_timeout:g} s"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return None


async def _of_ledger(policies: Policies, url: str, place: Place) -> list[Problem]:
    try:
        if not exists(url):
            return []  # `serve` makes it, and nothing in it can be in the way
        ledger = await open_ledger(url)
        try:
            adopted = await ledger.adopt(
                identities(policies), accept=False, act=LOOKING, preview=True
            )
        finally:
            await ledger.close()
    except (LedgerUnusable, LedgerUnavailable) as error:
        example = "fencegate check --online --ledger sqlite:////var/lib/fencegate/ledger.db"
        return [Problem(place, f"the ledger: {error}", example, code=Code.LEDGER_AWAY)]
    return list(_changed(adopted, place)) if isinstance(adopted, NotAdopted) else []


def _changed(adopted: NotAdopted | Adopted, place: Place) -> Iterator[Problem]:
    for change in adopted.changes:
        items = ", ".join(f"`{item}`" for item in change.items)
        wrong = (
            f"`{change.upstream}` identifies calls in another way than the ledger knows, in"
            f" {items}, and has {change.live} open or unknown records"
        )
        hint = "settle the unknown outcomes first, or serve with --accept-identity-change"
        yield Problem(place, wrong, "", code=Code.IDENTITY_CHANGED, hint=hint)
