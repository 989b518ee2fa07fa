"""Loads the commands of `mmo`, which are loaded one by one when they are used."""

from __future__ import annotations

from collections.abc import Mapping

import click


def commands_of(group: click.Group) -> Mapping[str, click.Command]:
    """The commands of a group, by name."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}
