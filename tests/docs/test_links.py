"""Every relative link in the pages has a target, headings included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = ["README.md", "CHANGES.md", "docs/**/*.md"]
LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def pages(root: Path) -> list[Path]:
    """Return every page; those of the site alone have a test of their own."""
    made = root / "docs" / "library"
    return sorted(page for pattern in PAGES for page in root.glob(pattern) if made not in page.parents)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", found[1].lower()) for found in HEADING.finditer(text))
    return {each.replace(" ", "-") for each in plain}


def test_every_relative_link_has_a_target(root: Path) -> None:
    broken = []
    for page in pages(root):
        for found in LINK.finditer(FENCED.sub("", page.read_text(encoding="utf-8"))):
            target = found[1]
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            leads_to = (page.parent / path).resolve() if path else page
            if not leads_to.exists() or (anchor and anchor not in anchors(leads_to)):
                broken.append(f"{page.relative_to(root)}: {target}")
    assert not broken


def test_the_readme_leads_to_every_page(root: Path) -> None:
    """The list of all pages is one of them."""
    linked = {
        (page.parent / found[1].partition("#")[0]).resolve()
        for page in (root / "README.md", root / "docs" / "README.md")
        for found in LINK.finditer(page.read_text(encoding="utf-8"))
    }
    unlinked = [page.name for page in pages(root) if page.resolve() not in linked]
    assert unlinked == ["README.md"]


@pytest.mark.parametrize("name", ["README.md", "CHANGES.md", "docs/**/*.md", "examples/*"])
def test_no_line_ends_in_spaces(root: Path, name: str) -> None:
    for page in root.glob(name):
        if page.is_file():
            lines = page.read_text(encoding="utf-8").splitlines()
            assert [n for n, line in enumerate(lines, 1) if line != line.rstrip()] == [], page.name
