"""Every command line of `mmo` in the documentation is valid."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from mmo_trio.cli.group import main
from tests.support.command_tree import commands_of

FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(mmo [^`]+)`")
COMMAND = re.compile(r"(?:^|&& |\.venv/bin/)(mmo .*?)(?=$| && | \| )", re.MULTILINE)


def mentions(root: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each command line that the pattern finds: its page, and its words without `mmo`."""
    for page in (root / "README.md", root / "CHANGES.md", *sorted((root / "docs").rglob("*.md"))):
        for found in pattern.finditer(page.read_text(encoding="utf-8")):
            for command in COMMAND.finditer(found[1].replace("\\\n", " ")):
                yield page.name, shlex.split(command[1])[1:]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that the words name, and the remaining words."""
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        members = commands_of(command)
        assert name in members, f"mmo {' '.join(words)}: no command {name}"
        command = members[name]
    return command, rest


def test_pages_name_only_existing_commands_and_options(root: Path) -> None:
    named = [*mentions(root, INLINE), *mentions(root, FENCED)]
    assert len(named) > 20
    for page, words in named:
        command, rest = command_of(words)
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        given = {word.partition("=")[0] for word in rest if word.startswith("-")}
        assert given <= known | {"--help"}, f"{page}: mmo {' '.join(words)}"


def test_command_lines_to_copy_are_complete(root: Path) -> None:
    for page, words in mentions(root, FENCED):
        command, rest = command_of(words)
        assert not isinstance(command, click.Group), f"{page}: mmo {' '.join(words)}"
        with command.make_context("mmo", rest, resilient_parsing=False):
            pass  # It raises click.UsageError for what can't be given like this.
