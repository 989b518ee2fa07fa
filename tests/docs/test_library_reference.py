"""The reference of the library has every public name of every face, as the docstrings of today say it."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sansio.structure.test_exports import FACES, exports


@pytest.fixture(scope="module")
def generator(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "docs" / "make_library.py"))


@pytest.mark.finding("new-users-api-reference")
def test_the_pages_are_those_of_the_generator(root: Path, generator: dict[str, Any]) -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs" / "library").glob("*.md")}
    assert written == generator["pages"](), "run: PYTHONPATH=src python docs/make_library.py"


@pytest.mark.parametrize("face", FACES)
def test_each_public_name_has_its_entry_and_is_explained(root: Path, generator: dict[str, Any], face: str) -> None:
    assert set(generator["FACES"]) == set(FACES)
    page = (root / "docs" / "library" / f"{face}.md").read_text(encoding="utf-8")
    assert [each for each in exports(face) if f"[{each}](" not in page] == []
    entries: Sequence[Any] = generator["exports"](face)
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    assert [each.name for each in entries if isinstance(each.definition, definitions) and not each.docstring] == []


def test_the_reference_is_found_from_the_first_pages(root: Path) -> None:
    for page in ("README.md", "docs/tutorial.md", "docs/design.md", "docs/merchant_client.md"):
        assert "library/README.md" in (root / page).read_text(encoding="utf-8"), page
