"""The reference of the library has every public name of every face, as the docstrings of today say
it."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_links import FENCED, HEADING, LINK, anchors
from tests.sansio.structure.test_exports import FACES, exports


@pytest.fixture(scope="module")
def generator(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "docs" / "make_library.py"))


@pytest.fixture(scope="module")
def pages(generator: dict[str, Any]) -> Mapping[str, str]:
    made: Mapping[str, str] = generator["pages"]()
    return made


@pytest.mark.finding("new-users-api-reference")
def test_each_link_of_the_pages_has_a_target(root: Path, pages: Mapping[str, str]) -> None:
    """They are made when the site is built, and are not in the repository."""
    names = {
        f"{name}#{heading.lower()}"
        for name, page in pages.items()
        for heading in HEADING.findall(page)
    }
    dead = []
    for name, page in pages.items():
        for target in LINK.findall(FENCED.sub("", page)):
            path, _, anchor = target.partition("#")
            if path.startswith("../"):
                linked = root / "docs" / path[3:]
                found = linked.exists() and (not anchor or anchor in anchors(linked))
            else:
                found = f"{path or name}#{anchor}" in names if anchor else path in pages
            dead += [] if found or re.match(r"[a-z]+:", target) else [f"{name}: {target}"]
    assert dead == []


@pytest.mark.parametrize("face", FACES)
def test_each_public_name_has_its_entry_and_is_explained(
    generator: dict[str, Any], pages: Mapping[str, str], face: str
) -> None:
    assert set(generator["FACES"]) == set(FACES)
    assert [each for each in exports(face) if f"[{each}](" not in pages[f"{face}.md"]] == []
    entries: Sequence[Any] = generator["exports"](face)
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    assert [
        each.name
        for each in entries
        if isinstance(each.definition, definitions) and not each.docstring
    ] == []


def test_the_reference_is_found_from_the_first_pages(root: Path) -> None:
    for page in (
        "README.md",
        "docs/tutorial.md",
        "docs/internals/design.md",
        "docs/merchant_client.md",
    ):
        assert "`help(mmo_" in (root / page).read_text(encoding="utf-8"), page
