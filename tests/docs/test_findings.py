"""The table of findings lists every script, as its own head describes it."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.time_limits import HANGS_AFTER_S

FINDINGS = Path(__file__).resolve().parents[2] / "findings"
SCRIPTS = sorted(FINDINGS.glob("*.sh"))
VERSION = re.compile(r"\d+(?:\.\d+)+")


@pytest.fixture(scope="module")
def make_table() -> dict[str, Any]:
    """Return what the program that writes the table defines."""
    return runpy.run_path(str(FINDINGS / "make_table.py"))


def test_the_table_of_findings_is_up_to_date(make_table: dict[str, Any]) -> None:
    written = (FINDINGS / "README.md").read_text(encoding="utf-8")
    assert written == make_table["make_page"](), "run: python findings/make_table.py"


def test_a_head_without_a_field_is_refused(make_table: dict[str, Any], tmp_path: Path) -> None:
    script = tmp_path / "surprise.sh"
    script.write_text("#!/usr/bin/env bash\n# Package: PyPI a 1.0\n# Seen: one,\n#   two.\n")
    with pytest.raises(ValueError, match=r"surprise\.sh lacks Expected, Matters in its head"):
        make_table["read_head"](script)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_finding_can_be_run(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n# Package: ")
    command = ["bash", "-n", str(script)]
    subprocess.run(command, timeout=HANGS_AFTER_S, check=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_finding_installs_the_versions_that_it_names(
    script: Path, make_table: dict[str, Any]
) -> None:
    versions = VERSION.findall(make_table["read_head"](script)["Package"])
    assert versions
    _, commands = script.read_text(encoding="utf-8").split("\nset -euo pipefail\n")
    assert [version for version in versions if version not in commands] == []
