"""`python -m fencegate`."""

from fencegate.cli import main

main(prog_name="fencegate")
