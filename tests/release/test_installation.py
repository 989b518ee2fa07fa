"""Each usual program installs the wheels on each Python, and what it has installed pays."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen

from mmo_sansio import __version__
from tests.packages.environments import own_modules_only
from tests.support.effort import by_effort
from tests.support.time_limits import HANGS_AFTER_S

PYTHONS = ("3.11", "3.12", "3.13")
INSTALLERS = ("pip", "uv", "pipx")
EACH_ONCE = tuple(zip(PYTHONS, INSTALLERS, strict=True))
COMBINATIONS = [(python, installer) for python in PYTHONS for installer in INSTALLERS]


@frozen
class Installation:
    """A folder for what is installed, and the Python to install for."""

    folder: Path
    python: str

    def run(self, *words: str | Path) -> str:
        """Run a program with its own folders and nothing of this one's modules, and return what it
        printed."""
        own = {
            "UV_TOOL_DIR": f"{self.folder}/uv",
            "UV_TOOL_BIN_DIR": f"{self.folder}/bin",
            "PIPX_HOME": f"{self.folder}/pipx",
            "PIPX_BIN_DIR": f"{self.folder}/bin",
        }
        done = subprocess.run(
            list(map(str, words)),
            env={**own_modules_only(), **own},
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def install(self, installer: str, gateway: Path, package: Path) -> None:
        """Install the gateway with the package of a provider, so that `bin` has `mmo`."""
        gateway_and_extra = f"{gateway}[server]"
        tools = Path(sys.executable).parent
        steps: Mapping[str, Sequence[Sequence[str | Path]]] = {
            "pip": [
                (self.python, "-m", "venv", self.folder),
                (self.folder / "bin/pip", "install", "--quiet", gateway_and_extra, package),
            ],
            "uv": [
                (
                    tools / "uv",
                    "tool",
                    "install",
                    "--python",
                    self.python,
                    gateway_and_extra,
                    "--with",
                    package,
                )
            ],
            "pipx": [
                (tools / "pipx", "install", "--python", self.python, gateway_and_extra),
                (tools / "pipx", "inject", "mmo-gateway", package),
            ],
        }
        for step in steps[installer]:
            self.run(*step)


@pytest.mark.parametrize(("version", "installer"), by_effort(EACH_ONCE, COMBINATIONS))
def test_what_is_installed_pays(
    version: str, installer: str, wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    python = shutil.which(f"python{version}")
    assert python, f"there is no python{version}"
    here = Installation(tmp_path / "installed", python)
    here.install(installer, wheels["mmo_gateway"], wheels["mmo_provider_pawapay"])
    mmo = here.folder / "bin/mmo"
    assert here.run(mmo, "--version").startswith(f"mmo {__version__} (")
    assert "success" in here.run(mmo, "demo", "--once")
