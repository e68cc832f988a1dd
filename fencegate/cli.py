"""The commands. A command imports what it needs when it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fencegate import __version__
from fencegate.config import DEFAULT_LEDGER, DEFAULT_LISTEN, Settings, read_listen

PROBLEMS_FOUND = 1
USAGE = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fencegate")
def main() -> None:
    """A gateway that forwards a side effect once, and refuses workers that lost their lease."""


@main.command(context_settings={"auto_envvar_prefix": "FENCEGATE"})
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
def serve(policies: Path, ledger: str, listen: str) -> None:
    """Guard the upstreams that the POLICIES (a folder or a file) name.

    Every option can be set by a variable, FENCEGATE_LEDGER for --ledger. The log goes to standard
    error as JSON lines. Exit status: 0 after SIGTERM, 1 for problems in the policies or a port
    that is taken, 2 for a ledger that cannot be used.
    """
    from fencegate.ledger.protocol import LedgerUnusable
    from fencegate.ops.log import log_to
    from fencegate.policy import PolicyError
    from fencegate.server import CannotListen, run

    try:
        host, port = read_listen(listen)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    try:
        run(Settings(policies, ledger, host, port), log_to())
    except (PolicyError, CannotListen) as error:
        _leave(PROBLEMS_FOUND, str(error))
    except LedgerUnusable as error:
        _leave(USAGE, str(error))


def _leave(status: int, why: str) -> None:
    click.echo(why, err=True)
    sys.exit(status)
