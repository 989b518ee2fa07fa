"""Releases of psycopg that nobody has read are refused in words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from mmo_trio.system.known_releases import PSYCOPG
from tests.support.faked_release import fake_release
from tests.support.time_limits import HANGS_AFTER_S

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_what_the_distribution_asks_for_is_known() -> None:
    """The bounds of `pyproject.toml` begin with the oldest known release, and end after the
    latest."""
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    wanted = rf"{PSYCOPG.project}\[\w+\]>=(\d+\.\d+)[.\d]*,<(\d+)\.(\d+)"
    (found,) = [match for each in extras["server"] if (match := re.fullmatch(wanted, each))]
    oldest, major, beyond = found.groups()
    assert (oldest, f"{major}.{int(beyond) - 1}") == (PSYCOPG.minors[0], PSYCOPG.minors[-1])
    assert PSYCOPG.fault() is None


def test_another_release_is_refused_before_it_is_used(tmp_path: Path) -> None:
    fake_release(tmp_path, "psycopg", "3.40.1")
    program = """
import mmo_trio.storage.interface.store as store
try:
    import mmo_trio.storage.postgres
except store.StoreUnusable as fault:
    print(fault)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_AFTER_S,
    )
    assert done.stdout == "psycopg 3.40.1 is not known; this gateway knows 3.2.x and 3.3.x\n"
