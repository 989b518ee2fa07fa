"""Loads the module of a command when the command is used, so that lists of commands need none of
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from attrs import frozen
from click.shell_completion import CompletionItem

from mmo_trio.cli.support.errors import needs_extra
from mmo_trio.cli.support.options import check_texts


@frozen
class LazyCommand:
    """Says where a command is, and what lists say of it."""

    name: str
    module: str
    """Its module in `mmo_trio.cli.commands`, or the whole name of another one, which has it under
    its name, with underscores."""
    help: str
    """One sentence: the command's own short help, or the first one of its help."""
    extra: str = "server"
    """The extra of the distribution that brings its packages."""

    def load(self, group_path: str) -> click.Command:
        """Return the command of the group at this path, such as `mmo records`. Raises UsageProblem
        when a package that it needs is not installed."""
        # A name with a dot is a module of another package, such as the merchants' tools.
        name = self.module
        if "." not in name:
            name = f"mmo_trio.cli.commands.{name}"

        with needs_extra(f"{group_path} {self.name}", self.extra):
            module = import_module(name)

        command: click.Command = getattr(module, self.name.replace("-", "_"))
        summarise(command)
        check_texts(command)
        return command


class LazyGroup(click.Group):
    """Is a group of commands in sections."""

    def __init__(
        self, *args: Any, sections: Mapping[str, Sequence[LazyCommand]], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.sections = sections
        self.members = {member.name: member for section in sections.values() for member in section}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.members)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None when there is none of this name. Raises UsageProblem as of
        `LazyCommand.load`."""
        if cmd_name in self.members:
            return self.members[cmd_name].load(ctx.command_path)
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with its commands."""
        for section, members in self.sections.items():
            with formatter.section(section):
                formatter.write_dl([(member.name, member.help) for member in members])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, or an option of the group."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self.members[name].help) for name in names]
        # Options come after: whoever types a letter means a command.
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


def summarise(command: click.Command) -> None:
    """Have lists of commands show the whole first sentence of a command's help, which click would
    cut."""
    paragraph = " ".join((command.help or "").partition("\n\n")[0].split())
    sentence, dot, _ = paragraph.partition(". ")
    command.short_help = command.short_help or sentence + dot.strip()
    if isinstance(command, click.Group):
        for member in command.commands.values():
            summarise(member)
