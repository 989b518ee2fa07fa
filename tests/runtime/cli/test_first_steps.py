"""`mmo` alone says how to begin, and shells complete its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmo_trio.cli import main


def test_without_arguments_it_names_three_first_steps_that_exist() -> None:
    done = CliRunner().invoke(main, [])
    assert done.exit_code == 0
    steps = re.findall(r"^\d\. mmo ([a-z-]+)$", done.stdout, re.MULTILINE)
    assert len(steps) == 3
    assert set(steps) <= set(main.commands)
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    program = tmp_path / "mmo"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mmo_trio.cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = """
        export PATH="$1:$PATH"
        eval "$(mmo completion bash)"
        for words in "mmo rec" "mmo records ex" "mmo top --onc"; do
            COMP_WORDS=($words); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
            _mmo_completion mmo
            echo "${COMPREPLY[@]}"
        done
    """
    done = subprocess.run(["bash", "-c", script, "bash", str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["records", "export", "--once"]


@pytest.mark.parametrize(("shell", "line"), [("zsh", "compdef _mmo_completion mmo"), ("fish", "complete --no-files")])
def test_the_script_of_another_shell_registers_the_command(shell: str, line: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert line in done.stdout
