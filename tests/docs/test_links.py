"""Every link to a page of the project has a target, headings included, and no address is named that
the project does not have."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.release.published_readme import absolute_links

PAGES = ["README.md", "CHANGES.md", "docs/**/*.md", "findings/*.md"]
LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
OWN_ADDRESS = re.compile(r"https?://[^\s\"'`<>()]*mmo[-_]gateway[^\s\"'`<>()]*")
"""An address with the project's name in it."""
MAY_NAME_IT = [
    "*.md",
    "*.toml",
    ".github/**/*.*",
    "deploy/**/*.*",
    "docs/**/*.md",
    "docs/*.py",
    "packages/*/*.*",
    "packages/*/src/**/*.py",
    "src/**/*.*",
]
BINARY = {".png", ".pyc", ".woff2"}
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def pages(root: Path) -> list[Path]:
    """Return every page; those of the site alone have a test of their own."""
    made = root / "docs" / "library"
    return sorted(
        page for pattern in PAGES for page in root.glob(pattern) if made not in page.parents
    )


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", found[1].lower()) for found in HEADING.finditer(text))
    return {each.replace(" ", "-") for each in plain}


def targets(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each link of a page to the project, with the file that it leads to and its anchor."""
    for found in LINK.finditer(FENCED.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = found[1].partition("#")
        if not re.match(r"[a-z]+:", path):
            yield found[1], (page.parent / path).resolve() if path else page, anchor


def test_every_link_to_the_project_has_a_target(root: Path) -> None:
    broken = [
        f"{page.relative_to(root)}: {link}"
        for page in (*pages(root), *root.glob("packages/*/README.md"))
        for link, leads_to, anchor in targets(page)
        if not leads_to.exists() or (anchor and anchor not in anchors(leads_to))
    ]
    assert not broken


def test_what_an_index_shows_has_no_relative_link(root: Path) -> None:
    """Pages and pictures: an index has no files beside them, so a release rewrites the links."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    shown = [absolute_links(readme, "https://example.com/gateway", "v0.1.0")]
    shown += [page.read_text(encoding="utf-8") for page in root.glob("packages/*/README.md")]
    links = [link for page in shown for link in LINK.findall(FENCED.sub("", page))]
    assert [link for link in links if not link.startswith("https://")] == []


def test_no_address_is_named_that_is_not_the_projects(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    published = tuple(project.get("urls", {}).values())
    files = {file for pattern in MAY_NAME_IT for file in root.glob(pattern) if file.is_file()}
    invented = [
        f"{file.relative_to(root)}: {address}"
        for file in sorted(files)
        if file.suffix not in BINARY
        for address in OWN_ADDRESS.findall(file.read_text(encoding="utf-8"))
        if not address.startswith(published)
    ]
    assert invented == []
