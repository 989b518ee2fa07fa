"""The layout holds: package roots have only their faces, and the files that are named are there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.sansio.structure.sources import MODULES, ROOT


def misplaced_at_root(names: Iterable[str]) -> list[str]:
    """List the modules that lie at a package's root; only its face may."""
    packages = {name.rpartition(".")[0] for name in names}
    return sorted(each for each in names if each.count(".") == 1 and each not in packages)


def test_a_package_root_holds_only_its_face() -> None:
    assert misplaced_at_root(MODULES) == []


def test_the_files_that_the_sessions_name_are_there() -> None:
    named = [
        path
        for file in ("noxfile.py", "pyproject.toml")
        for path in re.findall(r"(?:src|tests)/[\w/*.]+\.py", (ROOT / file).read_text("utf-8"))
    ]
    assert named
    assert [path for path in named if not any(ROOT.glob(path))] == []


def test_these_tests_find_each_fault() -> None:
    tree = ["mmo_trio", "mmo_trio.clock", "mmo_trio.http", "mmo_trio.http.client"]
    assert misplaced_at_root(tree) == ["mmo_trio.clock"]
