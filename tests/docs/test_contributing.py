"""The files that the page for contributors names are there, and two of its tasks need no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen

from tests.support.time_limits import HANGS_AFTER_S

NAMED = re.compile(r"`((?:src|tests|docs|deploy)/[^`\s]+)`")
COMMAND = '''"""`mmo greet` greets."""

import click


@click.command(short_help="Greet.")
def greet() -> None:
    """Greet whoever reads this."""
    click.echo("Good morning.")
'''
ITS_TEST = """from tests.support.mmo_process import mmo


async def test_it_greets() -> None:
    assert await mmo("greet") == "Good morning.\\n"
"""


@frozen
class Task:
    """A task of the page, done by replacing a text in some files and writing others."""

    title: str
    changed: Mapping[str, tuple[str, str]]
    tests: Sequence[str]
    """What is green afterwards."""
    written: Mapping[str, str] = {}
    generated: Mapping[str, Sequence[str]] = {}
    """Files that a command of the page prints: the arguments of Python."""


TASKS = (
    Task(
        "Add a setting, or a field of a brand",
        {
            "src/mmo_trio/settings/sections.py": (
                "    page_session: Span | None = setting(",
                '    pause: Span = setting(SPAN, Span(7_000_000), "How long it pauses.")\n'
                "    page_session: Span | None = setting(",
            ),
            "tests/runtime/settings/test_settings.py": (
                '    ("limits.body", ',
                '    ("limits.pause", 7 * clock.SECOND),\n    ("limits.body", ',
            ),
        },
        ("tests/runtime/settings", "tests/docs/test_completeness.py"),
        generated={"docs/settings.md": ("-m", "mmo_trio.settings")},
    ),
    Task(
        "Add a command",
        {
            "src/mmo_trio/cli/contents.py": (
                '        ("trigger", ',
                '        ("greet", "greet", "Greet.", "server"),\n        ("trigger", ',
            ),
            "docs/operating.md": ("\n## ", "\n`mmo greet` greets.\n\n## "),
        },
        (
            "tests/runtime/cli/test_greet.py",
            "tests/runtime/cli/test_help.py",
            "tests/docs/test_completeness.py",
        ),
        written={
            "src/mmo_trio/cli/commands/greet.py": COMMAND,
            "tests/runtime/cli/test_greet.py": ITS_TEST,
        },
    ),
)


def test_the_files_of_each_task_are_there(root: Path) -> None:
    page = (root / "docs/internals/contributing.md").read_text(encoding="utf-8")
    named = [path for path in NAMED.findall(page) if "NAME" not in path and "ROOM" not in path]
    assert len(named) > 40
    assert [path for path in named if not (root / path).exists()] == []


def test_there_are_ten_tasks(root: Path) -> None:
    page = (root / "docs/internals/contributing.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\d+)\. ", page, re.MULTILINE) == [str(n) for n in range(1, 11)]


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_a_task_needs_the_files_that_the_page_names_and_no_others(
    root: Path, tmp_path: Path, task: Task
) -> None:
    page = (root / "docs/internals/contributing.md").read_text(encoding="utf-8")
    named = NAMED.findall(page.partition(f". {task.title}\n")[2].partition("\n### ")[0])
    patterns = [
        re.compile(re.escape(each).replace("NAME", r"\w+") + (".+" if each[-1] == "/" else ""))
        for each in named
    ]
    touched = [*task.changed, *task.written, *task.generated]
    assert [file for file in touched if not any(each.fullmatch(file) for each in patterns)] == []

    copy = tmp_path / "copy"
    shutil.copytree(
        root,
        copy,
        ignore=shutil.ignore_patterns(".*", "build", "dist", "_build", "*.egg-info", "__pycache__"),
    )
    for file, text in task.written.items():
        (copy / file).write_text(text, encoding="utf-8")
    for file, (before, after) in task.changed.items():
        text = (copy / file).read_text(encoding="utf-8")
        assert before in text
        (copy / file).write_text(text.replace(before, after, 1), encoding="utf-8")
    for file, arguments in task.generated.items():
        (copy / file).write_text(run(copy, *arguments).stdout, encoding="utf-8")
    done = run(copy, "-m", "pytest", "-q", "-m", "not long", *task.tests)
    assert done.returncode == 0, done.stdout


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What Python said in a copy of the project."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}"},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )
