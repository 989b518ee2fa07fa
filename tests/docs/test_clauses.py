"""Each clause has its text where everybody can read it, and each number that is cited anywhere
leads to one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mmo_sansio.values.problems import PROBLEM_TYPES

CLAUSE = re.compile(r"\b(?<!API )([GPMACTLRSKWQEV][0-9]{1,2})\b")
MARK = re.compile(r"mark\.spec\(([^)]*)\)")
HEADING = re.compile(r"^## .*\[([A-Z0-9, ]+)\]$", re.MULTILINE)
RULE = re.compile(r"^### ([A-Z]\d+)\n\n((?:(?!^#).*\n)+)", re.MULTILINE)


@pytest.fixture(scope="module")
def rules(root: Path) -> Mapping[str, str]:
    """Return the text of each clause."""
    return dict(RULE.findall((root / "docs/clauses.md").read_text(encoding="utf-8")))


def citing_pages(root: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield each page that cites clauses, with these."""
    for page in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        cited = set(CLAUSE.findall(page.read_text(encoding="utf-8")))
        if cited and page.name != "clauses.md" and page.parent.name != "library":
            yield str(page.relative_to(root)), cited


def cited_in_tests(folder: Path) -> set[str]:
    """Return the clauses that the marks of the tests in a folder name, and the tables of rows."""
    modules = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    tables = (path.read_text(encoding="utf-8") for path in folder.rglob("answers.txt"))
    marks = [mark for module in modules for mark in MARK.findall(module)]
    marks += [heading for table in tables for heading in HEADING.findall(table)]
    return {clause for mark in marks for clause in re.findall(r"\b[A-Z]\d+\b", mark)}


def test_each_clause_that_is_cited_has_its_text(root: Path, rules: Mapping[str, str]) -> None:
    cited = {clause for _, clauses in citing_pages(root) for clause in clauses}
    cited |= cited_in_tests(root / "tests")
    for tree in ("src", "packages"):
        for path in (root / tree).rglob("*.py"):
            cited |= set(CLAUSE.findall(path.read_text(encoding="utf-8")))
    assert sorted(cited - set(rules)) == []


def test_each_clause_is_proven_through_a_socket(root: Path, rules: Mapping[str, str]) -> None:
    """The tests of the shell are those that have one."""
    assert sorted(set(rules) - cited_in_tests(root / "tests/runtime")) == []


def test_a_page_that_cites_clauses_says_where_they_stand(root: Path) -> None:
    unlinked = [
        name
        for name, _ in citing_pages(root)
        if "clauses.md" not in (root / name).read_text(encoding="utf-8")
    ]
    assert unlinked == []


def test_each_chosen_clause_has_its_text(rules: Mapping[str, str]) -> None:
    chosen = {
        clause: text for clause, text in rules.items() if "**Chosen" in text or "**Narrower" in text
    }
    assert all(len(text) > 80 for text in chosen.values())
    # Chosen as well, and once not marked:
    assert {"M2", "M3", "C10", "C14", "K2", "K7", "L1", "R4", "A2"} <= set(chosen)


def test_what_is_narrower_than_the_letter_says_so(rules: Mapping[str, str]) -> None:
    narrower = [clause for clause, text in rules.items() if text.startswith("**Narrower")]
    assert narrower == ["G7", "M1", "M3", "M4", "A2", "C8", "C12", "R6", "K5", "W1"]


def test_each_status_below_the_handlers_has_its_code_and_its_type(rules: Mapping[str, str]) -> None:
    unlisted = [each for each in PROBLEM_TYPES if each.status not in (400, 401, 404, 422, 500)]
    assert {each.status for each in unlisted} == {405, 408, 413, 414, 429, 431, 503}
    for each in unlisted:
        assert re.search(rf"\b{each.status}\s+`{each.segment}`", rules["P4"]), each
        own = each.segment if each.status in (405, 429, 503) else "bad_request"
        assert each.error_code == own
