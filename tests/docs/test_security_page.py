"""Every finding of the security reviews has a heading in docs/internals/security_findings.md, and a
test that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FINDINGS = {
    *(f"security-{number}" for number in range(1, 31)),
    *(f"hostile-F{number}" for number in range(1, 14)),
    *(f"audit-{number}" for number in range(1, 12)),
}
"""Those that have a heading in docs/internals/security_findings.md."""
OF_SECOND_LOOKS = {
    *(f"audit-{number}" for number in range(12, 17)),
    *(f"audit-http-{number}" for number in range(1, 8)),
    *(f"specification-F{number}" for number in (1, 2, 3, 4, 5, 7)),
    *(f"specification-F6-{number}" for number in range(1, 13)),
}
"""Of the second security audit, its part on HTTP, and the second look at the specification."""
STORE_FINDINGS = {f"postgres-F{number}" for number in range(1, 12)}
"""Of the review of the store on PostgreSQL; docs/postgresql.md says what operators need to know of
them."""
OF_USERS = re.compile(
    r"(specification|new-users|newcomers|screens|operators|money|postgres|rules|audit)-[A-Za-z0-9-]+"
)
"""Of the reviews of the specification, by new users and newcomers, of the screens, of the
operators' interfaces, of what is told about money, of the store on PostgreSQL once more, of the
payment rules, and of the second security audit."""
MARK = re.compile(r"mark\.finding\(([^)]*)\)")


def test_every_finding_has_a_heading_and_three_paragraphs(root: Path) -> None:
    page = (root / "docs/internals/security_findings.md").read_text(encoding="utf-8")
    headed = re.findall(r"^### .+ \(([^)]+)\)\n((?:(?!^#).*\n?)+)", page, re.MULTILINE)
    assert sorted(each for ids, _ in headed for each in ids.split(", ")) == sorted(FINDINGS)
    for ids, text in headed:
        what, how, rest = text.strip().split("\n\n")
        assert (bool(what), how.startswith("*How:* "), rest.startswith("*Not defended:* ")) == (
            True,
            True,
            True,
        ), ids
    page += (root / "docs/security.md").read_text(encoding="utf-8")
    assert not [cell for cell in re.findall(r"[^|\n]+", page) if len(cell) > 120]


@pytest.mark.finding("audit-12", "audit-13", "audit-14", "audit-15", "audit-16")
def test_the_small_findings_of_the_second_audit_are_said_in_a_sentence(root: Path) -> None:
    page = (root / "docs/security.md").read_text(encoding="utf-8")
    matters = page.partition("## Small matters that stay as they are\n")[2].split("\n- ")
    named = [re.findall(r"\((audit-\d+)\)", each) for each in matters]
    assert [ids for ids in named if ids] == [[f"audit-{number}"] for number in range(12, 17)]


def test_every_finding_has_a_test(root: Path) -> None:
    named: set[str] = set()
    for file in (root / "tests").rglob("*.py"):
        for marks in MARK.findall(file.read_text(encoding="utf-8")):
            named |= set(re.findall(r'"([^"]+)"', marks))
    assert {each for each in named if not OF_USERS.fullmatch(each)} <= FINDINGS | STORE_FINDINGS
    assert named >= FINDINGS | OF_SECOND_LOOKS
