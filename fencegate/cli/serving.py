"""`fencegate serve`."""

from __future__ import annotations

from pathlib import Path

import click

from fencegate.cli.leaving import PROBLEMS_FOUND, USAGE, leave
from fencegate.config import (
    DEFAULT_ADMIN,
    DEFAULT_LEDGER,
    DEFAULT_LISTEN,
    Settings,
    read_admin,
    read_listen,
)


@click.command(context_settings={"auto_envvar_prefix": "FENCEGATE"})
@click.argument("policies", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--ledger",
    default=DEFAULT_LEDGER,
    show_default=True,
    help="Where high water and records are kept.",
)
@click.option(
    "--listen", default=DEFAULT_LISTEN, show_default=True, help="HOST:PORT of the data port."
)
@click.option(
    "--admin",
    default=DEFAULT_ADMIN,
    show_default=True,
    help="HOST:PORT of the admin port, on this machine only; `off` for none.",
)
@click.option(
    "--accept-identity-change",
    is_flag=True,
    help="Start though calls are identified in another way than open records were.",
)
def serve(
    policies: Path, ledger: str, listen: str, admin: str, accept_identity_change: bool
) -> None:
    """Guard the upstreams that the POLICIES (a folder or a file) name.

    Every option can be set by a variable, FENCEGATE_LEDGER for --ledger. The log goes to standard
    error as JSON lines. SIGHUP reads the policies again. Exit status: 0 after SIGTERM, 1 for
    problems in the policies or a port that is taken, 2 for a ledger that cannot be used.
    """
    from fencegate.ledger.protocol import LedgerUnusable
    from fencegate.ops.log import log_to
    from fencegate.policy import PolicyError
    from fencegate.server import CannotListen, NotStarted, run

    try:
        settings = Settings(
            policies, ledger, read_listen(listen), read_admin(admin), accept_identity_change
        )
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    try:
        run(settings, log_to())
    except (PolicyError, CannotListen, NotStarted) as error:
        leave(PROBLEMS_FOUND, str(error))
    except LedgerUnusable as error:
        leave(USAGE, str(error))
