"""The names that the glossary gives are names in the code."""

from __future__ import annotations

import re
from pathlib import Path

TERM = re.compile(r"^- \*\*(.+?):?\*\*", re.MULTILINE)
CODE = re.compile(r"`((?:mmo_\w+(?:\.\w+)*)|(?:[A-Z]\w+))`")


def test_every_name_of_the_glossary_is_in_the_code(root: Path) -> None:
    page = (root / "docs/internals/glossary.md").read_text(encoding="utf-8")
    source = "".join(path.read_text("utf-8") for path in (root / "src").rglob("*.py"))
    assert len(TERM.findall(page)) >= 30
    unknown = []
    for name in CODE.findall(page):
        if name.startswith("mmo_"):
            path = root / "src" / name.replace(".", "/")
            if not (path.is_dir() or path.with_suffix(".py").is_file()):
                unknown.append(name)
        elif not re.search(rf"^(?:class {name}\b|{name}\b.* = )", source, re.MULTILINE):
            unknown.append(name)
    assert unknown == []
