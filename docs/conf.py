"""Makes the pages a site: `nox -s long`.

The list of all pages, `README.md`, is its table of contents. What lies outside of `docs` is linked
where the project's source is, and the reference of the library is made from the docstrings."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = PROJECT.get("urls", {}).get("Source", "").rstrip("/")
"""Where the source is published; empty: nowhere yet."""

project = "mmo-gateway"
project_copyright = "the mmo-gateway developers"
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
exclude_patterns = ["_build"]
root_doc = "README"
html_theme = "furo"
html_title = "mmo-gateway"
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
suppress_warnings = [
    "misc.highlighting_failure"
]  # JSON with an ellipsis, and lexers that Pygments lacks.

_LINK = re.compile(r"\[([^\]\n]*)\]\(([^()\s]+)\)")
_PAGE = re.compile(r"\]\(((?!\.\.)[^()\s#]+)\.md\)")
_SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n?)+)", re.MULTILINE)


def _link_outside(app: Any, page: str, content: list[str]) -> None:
    """Lead what is outside of `docs` to the source, or leave its name; and give the first page a
    table of contents."""
    folder = (HERE / page).parent

    def target(found: re.Match[str]) -> str:
        path, _, anchor = found[2].partition("#")
        file = (folder / path).resolve()
        if re.match(r"[a-z]+:", path) or not path or file.is_relative_to(HERE):
            return found[0]
        place = file.relative_to(HERE.parent)
        if not SOURCE:
            return f"{found[1]} (`{place}`)"
        return f"[{found[1]}]({SOURCE}/blob/main/{place}{'#' * bool(anchor)}{anchor})"

    text = _LINK.sub(target, content[0])
    if page == root_doc:
        for title, section in _SECTION.findall(text):
            pages = "\n".join(dict.fromkeys(_PAGE.findall(section)))
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"
        text += "\n```{toctree}\n:hidden:\n:caption: The library\n:glob:\n\nlibrary/*\n```\n"
    content[0] = text


def _lead_from_the_root(app: Any, fault: Exception | None) -> None:
    if fault is None:
        leads = (
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; '
            f'url={root_doc}/">'
        )
        (Path(app.outdir) / "index.html").write_text(
            leads + f"<title>{project}</title>\n", encoding="utf-8"
        )


def setup(app: Any) -> None:
    """Make the reference of the library, and read each page as a part of the site."""
    library = HERE / "library"
    library.mkdir(exist_ok=True)
    for name, text in runpy.run_path(str(HERE / "make_library.py"))["pages"]().items():
        (library / name).write_text(text, encoding="utf-8")
    app.connect("source-read", _link_outside)
    app.connect("build-finished", _lead_from_the_root)
