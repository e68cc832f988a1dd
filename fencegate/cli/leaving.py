"""How commands end: their exit statuses, and one clear sentence on standard error."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

PROBLEMS_FOUND = 1
USAGE = 2
UNREACHABLE = 3


def counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def leave(status: int, why: str) -> NoReturn:
    click.echo(why, err=True)
    sys.exit(status)
