"""The layout holds: package roots have only their faces, and modules a readable size."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.sansio.structure.sources import MODULES, ROOT

LINES_MAX = 1_000
SHORT_LINES = 40
SHORT_MODULES_MAX = 30


def misplaced_at_root(names: Iterable[str]) -> list[str]:
    """List the modules that lie at a package's root; only its face may."""
    packages = {name.rpartition(".")[0] for name in names}
    return sorted(each for each in names if each.count(".") == 1 and each not in packages)


def lines_of(name: str) -> int:
    """Return how many lines a module has."""
    return len(MODULES[name].read_text(encoding="utf-8").splitlines())


def test_a_package_root_holds_only_its_face() -> None:
    assert misplaced_at_root(MODULES) == []


def test_no_module_is_too_long() -> None:
    assert [f"{name}: {lines_of(name)}" for name in MODULES if lines_of(name) > LINES_MAX] == []


def test_few_modules_are_very_short() -> None:
    short = [
        name
        for name, path in MODULES.items()
        if path.stem not in ("__init__", "__main__")
        and ".languages." not in name
        and lines_of(name) < SHORT_LINES
    ]
    assert len(short) <= SHORT_MODULES_MAX, f"merge some of them: {short}"


def test_the_files_that_the_sessions_name_are_there() -> None:
    named = [
        path
        for file in ("noxfile.py", "pyproject.toml")
        for path in re.findall(r"(?:src|tests)/[\w/*.]+\.py", (ROOT / file).read_text("utf-8"))
    ]
    assert len(named) > 20
    assert [path for path in named if not any(ROOT.glob(path))] == []


def test_these_tests_find_each_fault() -> None:
    tree = ["mmo_trio", "mmo_trio.clock", "mmo_trio.http", "mmo_trio.http.client"]
    assert misplaced_at_root(tree) == ["mmo_trio.clock"]
