"""`mmo` alone says how to begin, and shells complete its commands."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmo_trio.cli.group import main
from tests.support.command_tree import commands_of
from tests.support.time_limits import HANGS_AFTER_S


def test_without_arguments_it_names_three_first_steps_that_exist() -> None:
    done = CliRunner().invoke(main, [])
    assert done.exit_code == 0
    steps = re.findall(r"^\d\. mmo ([a-z-]+)$", done.stdout, re.MULTILINE)
    assert len(steps) == 3
    assert set(steps) <= set(commands_of(main))
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory with `mmo`, as an installation has it in the PATH."""
    program = tmp_path / "mmo"
    program.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m mmo_trio.cli "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    return tmp_path


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"There is no {shell} (Debian: apt install {shell}).")


def test_bash_completes_commands_and_options(installed: Path) -> None:
    script = """
        export PATH="$1:$PATH"
        eval "$(mmo completion bash)"
        for words in "mmo rec" "mmo records ex" "mmo demo --onc"; do
            COMP_WORDS=($words); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
            _mmo_completion mmo
            echo "${COMPREPLY[@]}"
        done
    """
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(installed)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["records", "export", "--once"]


def test_fish_completes_commands_and_options(installed: Path) -> None:
    need("fish")
    script = """
        set -x PATH $argv[1] $PATH
        mmo completion fish | source
        for words in "mmo rec" "mmo records ex" "mmo demo --onc"
            complete --do-complete $words
        end
    """
    command = ["fish", "--no-config", "-c", script, str(installed)]
    done = subprocess.run(
        command,
        env=os.environ | {"HOME": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert names == ["records", "export", "--once"]


def test_zsh_completes_commands_and_options(installed: Path) -> None:
    need("zsh")
    environment = os.environ | {
        "PATH": f"{installed}:{os.environ['PATH']}",
        "TERM": "dumb",
        "ZDOTDIR": str(installed),
    }
    terminal, side = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=side, stdout=side, stderr=side, env=environment
    ) as zsh:
        os.close(side)
        seen = ""

        def type_in(text: str, wanted: str) -> None:
            """Type, and read until the terminal shows what is wanted."""
            nonlocal seen
            seen = ""
            os.write(terminal, text.encode())
            while wanted not in seen:
                ready, _, _ = select.select([terminal], [], [], HANGS_AFTER_S)
                assert ready, seen
                seen += os.read(terminal, 4096).decode()

        type_in("PS1=; autoload -U compinit; compinit -u -D; echo lo''aded\n", "loaded")
        type_in("eval \"$(mmo completion zsh)\"; echo regis''tered\n", "registered")
        type_in("mmo recor\t", "records")
        type_in("ex\t", "export")
        type_in("\x15mmo demo --onc\t", "--once")
        type_in("\x15exit\n", "exit")
        assert zsh.wait(HANGS_AFTER_S) == 0
    os.close(terminal)
