"""The help of a group shows one whole sentence about each of its commands."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mmo_trio.cli import main


def groups(command: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, each in command.commands.items():
        if isinstance(each, click.Group):
            yield from groups(each, (*path, name))


@pytest.mark.finding("new-users-help")
@pytest.mark.parametrize("path", list(groups(main)), ids=" ".join)
def test_no_summary_is_cut(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--help"], terminal_width=80)
    assert done.exit_code == 0
    _, _, commands = done.stdout.partition("Commands:")
    assert commands
    assert "..." not in commands
    assert commands.rstrip().endswith(".")
