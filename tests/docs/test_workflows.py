"""What publishes uses other people's actions in a version that nobody can move."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WORKFLOWS = sorted(Path(".github").rglob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=str)
def test_an_action_of_others_is_named_by_its_commit(file: Path) -> None:
    used = re.findall(r"uses: *(\S+)", file.read_text())
    others = [action for action in used if not action.startswith("./")]
    assert [action for action in others if not re.search("@[0-9a-f]{40}$", action)] == []


def test_there_are_workflows() -> None:
    assert any("pypi" in file.read_text() for file in WORKFLOWS)
