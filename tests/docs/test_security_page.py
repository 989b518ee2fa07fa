"""Every finding of the security reviews has a heading in docs/security.md, and every finding a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

FINDINGS = {
    *(f"security-{number}" for number in range(1, 31)),
    *(f"hostile-F{number}" for number in range(1, 14)),
    *(f"audit-{number}" for number in range(1, 12)),
}
STORE_FINDINGS = {f"postgres-F{number}" for number in range(1, 12)}
"""Of the review of the store on PostgreSQL; docs/operating.md says what operators need to know of them."""
OF_USERS = re.compile(r"(specification|new-users|operators|money|postgres|rules|audit)-[A-Za-z0-9-]+")
"""Of the reviews of the specification, by new users, of the operators' interfaces, of what is told about money, of the
store on PostgreSQL once more, of the payment rules, and of the second security audit."""
MARK = re.compile(r"mark\.finding\(([^)]*)\)")


def test_every_finding_has_a_heading_and_three_paragraphs(root: Path) -> None:
    page = (root / "docs/security.md").read_text(encoding="utf-8")
    headed = re.findall(r"^### .+ \(([^)]+)\)\n((?:(?!^#).*\n?)+)", page, re.MULTILINE)
    assert sorted(each for ids, _ in headed for each in ids.split(", ")) == sorted(FINDINGS)
    for ids, text in headed:
        what, how, rest = text.strip().split("\n\n")
        assert (bool(what), how.startswith("*How:* "), rest.startswith("*Not defended:* ")) == (True, True, True), ids
    assert not [cell for cell in re.findall(r"[^|\n]+", page) if len(cell) > 120]


def test_every_finding_has_a_test(root: Path) -> None:
    named: set[str] = set()
    for file in (root / "tests").rglob("*.py"):
        for marks in MARK.findall(file.read_text(encoding="utf-8")):
            named |= set(re.findall(r'"([^"]+)"', marks))
    assert {each for each in named if not OF_USERS.fullmatch(each)} <= FINDINGS | STORE_FINDINGS
    assert named >= FINDINGS
