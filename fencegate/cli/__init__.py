"""The commands. Each imports what it needs when it runs, so that the others stay quick."""

from fencegate.cli.group import main

__all__ = ["main"]
