"""The help of a group shows one whole sentence about each of its commands."""

from __future__ import annotations

import re
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
    _, _, commands = done.stdout.partition("Commands:" if path else "Build a shop:")
    assert commands
    assert "..." not in commands
    assert commands.rstrip().endswith(".")


@pytest.mark.finding("new-users-help")
def test_every_command_stands_in_one_section() -> None:
    done = CliRunner().invoke(main, ["--help"], terminal_width=80)
    for section in ("Build a shop:", "Run a gateway:", "Look after payments:"):
        assert f"\n{section}\n" in done.stdout
    listed = re.findall(r"^  ([a-z][a-z-]*) {2}", done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(main.commands)
