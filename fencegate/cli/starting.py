"""`fencegate init` and `fencegate schema`: what a first policy begins with."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import click

from fencegate.cli.leaving import PROBLEMS_FOUND, leave


@click.command()
@click.argument("file", type=click.Choice(["upstream", "gateway"]), default="upstream")
def schema(file: str) -> None:
    """Print the JSON Schema of an upstream's FILE, or of the gateway's.

    Editors use it to complete and check: `init` writes it beside the policies, and a first line
    that names it.
    """
    from fencegate.policy.schema import schema_of

    click.echo(json.dumps(schema_of(file), indent=2))


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="policies")
def init(folder: Path) -> None:
    """Write a commented starter into FOLDER: one upstream, the gateway's file, and their schemas.

    Files that are there already are never changed; then nothing is written, and the exit status
    is 1.
    """
    from fencegate.policy.schema import FILES, schema_of

    starter = files("fencegate.policy").joinpath("starter")
    texts = {name: starter.joinpath(name).read_text() for name in ("upstream.yaml", "gateway.yaml")}
    written = {"api.yaml": texts["upstream.yaml"], "gateway.yaml": texts["gateway.yaml"]}
    for file in FILES:
        written[f".{file}.schema.json"] = json.dumps(schema_of(file), indent=2) + "\n"
    taken = [name for name in written if (folder / name).exists()]
    if taken:
        leave(PROBLEMS_FOUND, f"{folder / taken[0]} is there already; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in written.items():
            (folder / name).write_text(text)
    except OSError as error:
        leave(PROBLEMS_FOUND, f"{folder} cannot be written: {error.strerror}")
    click.echo(
        f"{folder}/api.yaml      your API and what its writes change: begin here\n"
        f"{folder}/gateway.yaml  what holds everywhere\n\n"
        f"next: fencegate check {folder}"
    )
