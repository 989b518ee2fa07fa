"""The help of a group shows one whole sentence about each of its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mmo_trio.cli.group import main
from mmo_trio.cli.support.lazy_group import LazyGroup
from tests.support.command_tree import commands_of


def groups(command: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, each in commands_of(command).items():
        if isinstance(each, click.Group):
            yield from groups(each, (*path, name))


@pytest.mark.parametrize("path", list(groups(main)), ids=" ".join)
def test_no_summary_is_cut(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--help"], terminal_width=80)
    assert done.exit_code == 0
    _, _, commands = done.stdout.partition("Commands:" if path else "Build a shop:")
    assert commands
    assert "..." not in commands
    assert commands.rstrip().endswith(".")


def test_every_command_stands_in_one_section() -> None:
    done = CliRunner().invoke(main, ["--help"], terminal_width=80)
    for section in ("Build a shop:", "Run a gateway:", "Look after payments:"):
        assert f"\n{section}\n" in done.stdout
    listed = re.findall(r"^  ([a-z][a-z-]*) {2}", done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(commands_of(main))


@pytest.mark.parametrize(
    "path", [each for each in groups(main) if not each or each == ("records",)], ids=" ".join
)
def test_a_list_says_of_a_command_what_the_command_says(path: tuple[str, ...]) -> None:
    group: click.Command = main
    for name in path:
        group = commands_of(main)[name]
    assert isinstance(group, LazyGroup)
    loaded = commands_of(group)
    assert {name: each.help for name, each in group.members.items()} == {
        name: each.short_help for name, each in loaded.items()
    }
    assert [name for name, each in loaded.items() if each.name != name] == []


def test_a_list_of_commands_loads_none() -> None:
    code = (
        "import sys\n"
        "from mmo_trio.cli.group import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "loaded = [each for each in sys.modules if each.startswith('mmo_trio.cli.commands')]\n"
        "print(loaded, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_the_program_lists_its_commands_before_any_package_is_loaded(option: str) -> None:
    code = "import sys\nsys.modules['click'] = None\nfrom mmo_trio.cli.__main__ import run\nrun()\n"
    done = subprocess.run(
        [sys.executable, "-c", code, option], capture_output=True, text=True, check=True
    )
    assert done.stdout == CliRunner().invoke(main, [option]).stdout


def test_a_command_whose_packages_are_missing_says_what_to_install() -> None:
    code = "import sys\nsys.modules['trio'] = None\nfrom mmo_trio.cli.__main__ import run\nrun()\n"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "`mmo serve` needs packages that are not installed, such as trio." in done.stderr
    assert "pip install 'mmo-gateway[server]'" in done.stderr


def test_the_program_says_what_to_install_where_even_click_is_missing() -> None:
    code = "import sys\nsys.modules['click'] = None\nfrom mmo_trio.cli.__main__ import run\nrun()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "`mmo` needs packages that are not installed, such as click. Run: pip install "
        "'mmo-gateway[server]'\n"
    )


LOADS_ALONE = """
import importlib, sys
sys.modules |= dict.fromkeys(sys.argv[2:])
importlib.import_module(sys.argv[1])
"""
GATEWAYS_PACKAGES = (
    "argon2", "cryptography", "h2", "hypercorn", "jinja2", "outcome", "platformdirs",
    "prometheus_client", "psycopg", "quart", "quart_trio", "segno", "setproctitle", "structlog",
    "trio", "trio_asyncio", "trustme", "ulid",
)  # fmt: skip


@pytest.mark.parametrize("module", ["conform", "reconcile"])
def test_a_merchants_command_loads_without_the_packages_of_the_gateway(module: str) -> None:
    words = [
        sys.executable,
        "-c",
        LOADS_ALONE,
        f"mmo_trio.cli.commands.{module}",
        *GATEWAYS_PACKAGES,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
