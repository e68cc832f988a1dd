"""How commands end: their exit statuses, and one clear sentence on standard error."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

PROBLEMS_FOUND = 1
USAGE = 2
UNREACHABLE = 3


def leave(status: int, why: str) -> NoReturn:
    click.echo(why, err=True)
    sys.exit(status)
