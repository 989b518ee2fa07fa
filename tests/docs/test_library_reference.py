"""The reference of the library has every public name of every face, as the docstrings of today say
it."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sansio.structure.test_exports import FACES, exports


@pytest.fixture(scope="module")
def generator(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "docs" / "make_library.py"))


@pytest.fixture(scope="module")
def pages(generator: dict[str, Any]) -> Mapping[str, str]:
    made: Mapping[str, str] = generator["pages"]()
    return made


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
