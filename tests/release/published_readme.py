"""Gives the README of a distribution links that lead somewhere from a package index.

    python -m tests.release.published_readme FOLDER TAG

In a clone the links are relative. Without a published address they stay so.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

LINK = re.compile(r"(!?)\[([^\]\n]*)\]\((?![a-z]+:|#)([^()\s]+)\)")
"""A link to a file beside the page."""


def published_address(project: Path) -> str | None:
    """Return where the project in a folder says that its source is published, if it says so."""
    said = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = said.get("urls", {}).get("Source")
    return None if address is None else str(address).rstrip("/")


def absolute_links(text: str, address: str, tag: str) -> str:
    """Return a page whose links lead to the files of a tag at the published address.

    They have the form of GitHub: pages below `blob`, and pictures below `raw`.
    """

    def absolute(link: re.Match[str]) -> str:
        mark, words, path = link.groups()
        kind = "raw" if mark else "blob"
        return f"{mark}[{words}]({address}/{kind}/{tag}/{path})"

    return LINK.sub(absolute, text)


def main(folder: str, tag: str) -> None:
    """Rewrite the README in a folder with the project."""
    project = Path(folder)
    address = published_address(project)
    if address is None:
        return

    readme = project / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(absolute_links(text, address, tag), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
