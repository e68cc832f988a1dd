"""`fencegate` and the names of its commands; a command's module is imported when it is called."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

import click

from fencegate import __version__

# A command, the module it lives in, and what `--help` says of it.
COMMANDS = {
    "serve": ("serving", "Guard the upstreams that policies name."),
    "check": ("checking", "Say everything that is wrong with policies."),
    "explain": ("explaining", "Say what would become of a request, and why."),
    "init": ("starting", "Write a commented starter of policies."),
    "schema": ("starting", "Print the JSON Schema of policy files."),
    "problems": ("problems", "Say what a code means and what to do."),
    "reload": ("running", "Let a running gateway read its policies again."),
    "observed": ("running", "Report what observed calls would have met."),
}


class Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"fencegate.cli.{COMMANDS[name][0]}")
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            meant = f" Did you mean `{near[0]}`?" if near else " See `fencegate --help`."
            ctx.fail(f"There is no command `{args[0]}`.{meant}")
        return super().resolve_command(ctx, args)


@click.command(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fencegate")
def main() -> None:
    """A gateway that forwards a side effect once, and refuses workers that lost their lease."""
