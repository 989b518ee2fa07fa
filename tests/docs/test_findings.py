"""The table of findings lists every script, as its own head describes it."""

from __future__ import annotations

import os
import runpy
from pathlib import Path


def test_the_table_of_findings_is_up_to_date(root: Path) -> None:
    made = runpy.run_path(str(root / "findings/make_table.py"))["make_page"]()
    written = (root / "findings/README.md").read_text(encoding="utf-8")
    assert written == made, "run: python findings/make_table.py"


def test_a_finding_can_be_run(root: Path) -> None:
    for script in (root / "findings").glob("*.sh"):
        assert os.access(script, os.X_OK), script.name
        assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n"), script.name
