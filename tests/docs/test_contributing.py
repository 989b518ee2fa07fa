"""The files that the page for contributors names are there."""

from __future__ import annotations

import re
from pathlib import Path

NAMED = re.compile(r"`((?:src|tests|docs|deploy)/[^`\s]+)`")


def test_the_files_of_each_task_are_there(root: Path) -> None:
    page = (root / "docs/internals/contributing.md").read_text(encoding="utf-8")
    named = [path for path in NAMED.findall(page) if "NAME" not in path]
    assert named
    assert [path for path in named if not (root / path).exists()] == []
