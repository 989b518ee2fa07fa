"""Defines the options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import click

from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant

# What click's decorators take and return: their types do not tell a command's own parameters.
Command: TypeAlias = Callable[..., None]

# Reads the path of a file of an option.
file_type = click.Path(path_type=Path, dir_okay=False)

config_option = click.option("--config", type=file_type, help="The gateway's mmo.toml.")
data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="The sandbox's data directory; by default the user's own.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")

# Reads a date or time of an option.
datetime_type = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"])


class Text(click.types.StringParamType):
    """Reads an option that is text: what isn't can be neither stored nor sent."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text. Raises BadParameter, which names the option, for bytes that are no
        UTF-8: the interpreter reads them as surrogates (PEP 383)."""
        text: str = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode(errors="backslashreplace").decode()
            self.fail(
                f"'{shown}' is not UTF-8. Set the terminal to UTF-8, or convert the text.",
                param,
                ctx,
            )

        return text


def check_texts(command: click.Command) -> None:
    """Have a command, and those below it, refuse texts that aren't UTF-8."""
    for param in command.params:
        # Choices and numbers are checked by themselves.
        if param.type is click.STRING:
            param.type = Text()
    if isinstance(command, click.Group):
        for member in command.commands.values():
            check_texts(member)


def to_instant(value: datetime | None, default: Instant) -> Instant:
    """Return the instant of an option that is UTC, or the default."""
    if value is None:
        return default
    return clock.from_datetime(value.replace(tzinfo=UTC))
