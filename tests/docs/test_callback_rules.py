"""The page about callbacks has every rule that `mmo conform` holds an endpoint to."""

from __future__ import annotations

import re
from pathlib import Path

from mmo_merchant.endpoint_check.situations import SITUATIONS


def test_each_situation_of_the_check_belongs_to_a_rule_of_the_page(root: Path) -> None:
    page = (root / "docs" / "callbacks.md").read_text(encoding="utf-8")
    rules = re.findall(r"^\| [^|]+ \| (`[^|]+`) \|$", page, re.MULTILINE)
    played = [name for cell in rules for name in re.findall(r"`([^`]+)`", cell)]
    assert sorted(played) == sorted(situation.name for situation in SITUATIONS)
