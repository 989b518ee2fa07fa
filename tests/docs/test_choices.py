"""Each clause that is marked as chosen has its text where merchants can read it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mmo_sansio.values.problems import PROBLEM_TYPES


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


@pytest.mark.finding("specification-F5", "specification-F3", "specification-F4")
def test_what_is_narrower_than_the_letter_says_so(root: Path) -> None:
    choices = (root / "docs/choices.md").read_text(encoding="utf-8")
    narrower = re.findall(r"^### ([A-Z]\d+)\n\n\*\*Narrower", choices, re.MULTILINE)
    assert narrower == ["G7", "M1", "M4", "A2", "C8", "C12", "K5", "W1"]


@pytest.mark.finding("specification-F6-9")
def test_each_status_below_the_handlers_has_its_code_and_its_type(root: Path) -> None:
    choices = (root / "docs/choices.md").read_text(encoding="utf-8")
    text = choices.partition("### P4\n")[2].partition("\n### ")[0]
    unlisted = [each for each in PROBLEM_TYPES if each.status not in (400, 401, 404, 422, 500)]
    assert {each.status for each in unlisted} == {405, 408, 413, 414, 429, 431, 503}
    for each in unlisted:
        assert re.search(rf"\b{each.status}\s+`{each.segment}`", text), each
        own = each.segment if each.status in (405, 429, 503) else "bad_request"
        assert each.error_code == own
