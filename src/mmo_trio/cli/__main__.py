"""`python -m mmo_trio.cli` is `mmo`."""

from mmo_trio.cli import main

main(prog_name="mmo")
