"""A ledger by its address."""

from __future__ import annotations

from pathlib import Path

from fencegate.ledger.memory import MemoryLedger
from fencegate.ledger.protocol import Ledger, LedgerUnusable


def exists(url: str) -> bool:
    """Is there a ledger to be opened, or would opening make a new one?"""
    scheme, _, rest = url.partition("://")
    return scheme != "sqlite" or Path(rest[1:]).exists()


async def open_ledger(url: str) -> Ledger:
    """`sqlite:///relative.db`, `sqlite:////absolute.db` or `memory://`. A driver is imported
    only here. Raises `LedgerUnusable`."""
    scheme, separator, rest = url.partition("://")
    match scheme:
        case "memory" if separator and not rest:
            return MemoryLedger()
        case "sqlite" if rest.startswith("/") and len(rest) > 1:
            from fencegate.ledger.sqlite import open_sqlite

            return await open_sqlite(Path(rest[1:]))
        case _:
            raise LedgerUnusable(
                f"--ledger has the scheme {scheme!r}; expected sqlite:///FILE, "
                "sqlite:////ABSOLUTE/FILE or memory://"
            )
