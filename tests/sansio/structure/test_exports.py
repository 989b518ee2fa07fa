"""Users rely on the faces: what a face exports is there, sorted and documented; all else is
internal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

import mmo_sansio
from tests.sansio.structure.sources import MODULES, ROOT, TREES

SHELL = "mmo_trio"
MERCHANT = "mmo_merchant"
SIMULATORS = "mmo_simulators"
FACES = (
    "mmo_sansio",
    "mmo_sansio.messages",
    "mmo_sansio.providers",
    "mmo_sansio.testing",
    MERCHANT,
    SHELL,
    SIMULATORS,
)
"""The packages whose `__all__` is public."""

PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

USERS_CODE = {
    **{
        str(path.relative_to(ROOT)): "\n".join(
            PYTHON_BLOCK.findall(path.read_text(encoding="utf-8"))
        )
        for path in sorted((ROOT / "docs").rglob("*.md"))
    },
    **{
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "examples").rglob("*.py"))
    },
}
"""Code that users copy: what the pages and the examples show."""


def exports(name: str) -> list[str]:
    """Return the `__all__` of a face as it is written, in its order."""
    (value,) = (
        node.value
        for node in TREES[name].body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    found: list[str] = ast.literal_eval(value)
    return found


def names_in(name: str) -> set[str]:
    """Return the public names that the module of a face imports or defines."""
    found: set[str] = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("mmo_"):
            found |= {each.asname or each.name for each in node.names}
    for statement in TREES[name].body:
        if isinstance(statement, ast.AnnAssign):
            found.add(ast.unparse(statement.target))
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(statement.name)
    return {each for each in found if not each.startswith("_") and f"{name}.{each}" not in MODULES}


def imports_beside_faces(code: str) -> Iterator[str]:
    """Yield the imports of ours that a piece of code takes from elsewhere than a face."""
    ours = {face.partition(".")[0] for face in FACES}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
            yield from (f"import {name}" for name in names if name.partition(".")[0] in ours)
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in ours:
            for each in node.names:
                if node.module not in FACES or each.name not in exports(str(node.module)):
                    yield f"{node.module}.{each.name}"


@pytest.mark.parametrize("name", FACES)
def test_exports_are_sorted(name: str) -> None:
    found = exports(name)
    constants, classes, others = (
        [each for each in found if each.isupper()],
        [each for each in found if not each.isupper() and each[0].isupper()],
        [each for each in found if each[0].islower()],
    )
    assert found == sorted(constants) + sorted(classes) + sorted(others)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "name", [each for each in FACES if each not in (SHELL, MERCHANT, SIMULATORS)]
)
def test_every_export_is_reachable(name: str) -> None:
    """The exports of the others need packages: tests/runtime/service/test_face.py and
    tests/simulators/test_face.py reach for them."""
    face = import_module(name)
    assert [each for each in exports(name) if getattr(face, each, None) is None] == []


@pytest.mark.parametrize("name", FACES)
def test_a_face_exports_all_its_public_names(name: str) -> None:
    assert names_in(name) == set(exports(name))


@pytest.mark.parametrize("name", FACES)
def test_no_other_export_exists(name: str) -> None:
    with pytest.raises(AttributeError):
        import_module(name).not_exported  # noqa: B018


def test_the_face_of_the_core_names_the_faces() -> None:
    named = re.findall(r":mod:`([\w.]+)`", mmo_sansio.__doc__ or "")
    assert ["mmo_sansio", *named] == list(FACES)


@pytest.mark.parametrize("where", USERS_CODE)
def test_what_users_copy_imports_from_faces_only(where: str) -> None:
    assert list(imports_beside_faces(USERS_CODE[where])) == []


def test_no_module_of_ours_imports_from_a_root_face() -> None:
    wrong = [
        f"{name}: {each.name}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in ("mmo_merchant", "mmo_sansio", "mmo_simulators", "mmo_trio")
        for each in node.names
        if each.name != "__version__" and f"{node.module}.{each.name}" not in MODULES
    ]
    assert wrong == []


def test_these_tests_find_each_fault() -> None:
    code = "import mmo_sansio\nfrom mmo_sansio import Money, Nothing\nfrom mmo_trio.cli import main"
    assert list(imports_beside_faces(code)) == [
        "import mmo_sansio",
        "mmo_sansio.Nothing",
        "mmo_trio.cli.main",
    ]
