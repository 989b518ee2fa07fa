"""Each clause that is marked as chosen has its text where merchants can read it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.mark.finding("specification-A10", "specification-A6", "specification-A7", "specification-A11")
def test_each_chosen_clause_has_its_text(root: Path) -> None:
    table = (root / "docs/supported.md").read_text(encoding="utf-8")
    choices = (root / "docs/choices.md").read_text(encoding="utf-8")
    marked = re.findall(r"^\| ([A-Z]\d+) \| .* \| \[chosen\]\(choices\.md#([a-z]\d+)\) \|", table, re.MULTILINE)
    assert [clause.lower() for clause, _ in marked] == [anchor for _, anchor in marked]
    assert not re.search(r"\| chosen \|", table)
    texts = dict(re.findall(r"^### ([A-Z]\d+)\n\n((?:(?!^#).*\n)+)", choices, re.MULTILINE))
    assert {clause for clause, _ in marked} == set(texts)
    assert all(len(text) > 80 for text in texts.values())
    # Chosen as well, and once not marked:
    assert {"M2", "M3", "C10", "C14", "K2", "K7", "L1", "R4", "A2"} <= set(texts)
