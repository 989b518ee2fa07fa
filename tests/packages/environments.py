"""Builds wheels, and fresh environments with what is installed into them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from tests.support.time_limits import HANGS_AFTER_S

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = (
    "from importlib.metadata import distributions as d; print(*sorted(each.name for each in d()))"
)


@frozen
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin/python")

    def run(self, *words: str, exit_code: int = 0, typed: str | None = None) -> tuple[str, str]:
        """Run a program of it, and return what it printed on both outputs."""
        command = [str(self.folder / "bin" / words[0]), *words[1:]]
        done = subprocess.run(
            command,
            capture_output=True,
            input=typed,
            text=True,
            timeout=HANGS_AFTER_S,
            check=False,
            env=own_modules_only(),
        )
        assert done.returncode == exit_code, done.stderr
        return done.stdout, done.stderr

    def packages(self) -> set[str]:
        """The names of what is installed."""
        return set(self.run("python", "-c", INSTALLED)[0].split())


def own_modules_only() -> Mapping[str, str]:
    """This process's environment without what would add modules to another one."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }


def an_environment(folder: Path, *requirements: str) -> Environment:
    """A new environment with these packages, or what else `pip install` takes."""
    made = Environment(folder)
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", made.python, *requirements]
    subprocess.run(install, check=True, env=own_modules_only())
    return made


def a_wheel(folder: Path, source: Path, *names: str) -> Path:
    """The wheel of a project, built below the folder from a copy of these parts of it."""
    copy, built = folder / "copy", folder / "wheel"
    copy.mkdir()
    for name in names:
        if (source / name).is_dir():
            shutil.copytree(
                source / name,
                copy / name,
                ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"),
            )
        else:
            shutil.copy(source / name, copy)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(built))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(copy)], check=True)
    [found] = built.glob("*.whl")
    return found
