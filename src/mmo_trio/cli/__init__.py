"""The command `mmo`: runs the gateway and administers its store."""

from mmo_trio.cli.group import main

__all__ = ["main"]
