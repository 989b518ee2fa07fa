"""The layout holds: empty roots, one name for one thing, and modules of a readable size."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from tests.sansio.structure.sources import MODULES, ROOT, TREES

LINES_MAX = 400
SHORT_LINES = 40
SHORT_MODULES_MAX = 30

_ADAPTERS = "mmo_sansio.providers.*"
_SIMULATORS = "mmo_trio.simulators.*"
_STORES = "mmo_trio.storage.*"
_COMMANDS = "mmo_trio.cli.commands"

MAY_REPEAT: Mapping[str, tuple[str, ...]] = {
    # The parts of an operator's adapter have the same names in each adapter.
    "account": (_ADAPTERS, "mmo_trio.workers.providers"),
    "adapter": (_ADAPTERS,),
    "codes": (_ADAPTERS,),
    "notifications": (_ADAPTERS,),
    "operations": (_ADAPTERS,),
    "references": (_ADAPTERS,),
    "requests": (_ADAPTERS, "mmo_sansio.api.incoming"),
    "results": (_ADAPTERS, "mmo_sansio.payments.rules"),
    "wire": (_ADAPTERS,),
    # The parts of an operator's simulator.
    "accounts": (_SIMULATORS,),
    "api": (_SIMULATORS,),
    "request_checks": (_SIMULATORS,),
    "responses": (_SIMULATORS, "mmo_sansio.api.outgoing", "mmo_trio.http"),
    # The parts of a store; its interface and its conformance suite follow the same division.
    "admin": (_STORES,),
    "batches": (_STORES,),
    "migrations": (_STORES,),
    "startup": (_STORES,),
    "store": (_STORES,),
    "retention": (_STORES,),
    "ownership": (_STORES, "mmo_sansio.resilience"),
    "queries": (_STORES, "mmo_sansio.messages"),
    "inputs": (_STORES, "mmo_sansio.messages"),
    "errors": (_STORES, "mmo_trio.cli.support", "mmo_trio.settings"),
    "connection": (_STORES, "mmo_trio.http.server"),
    # A web application, and what its views share.
    "app": ("mmo_trio.console", "mmo_trio.http.asgi", "mmo_trio.pages"),
    "context": ("mmo_trio.console", "mmo_trio.pages"),
    # A command, a page of the console or a rule is named for the thing that it shows.
    "suspense": (_COMMANDS, "mmo_sansio.payments"),
    "providers": (_COMMANDS, "mmo_trio.console", "mmo_trio.service.wiring", "mmo_trio.settings"),
    # The pure half in the core and the waiting half in the shell mirror each other.
    "ciphers": ("mmo_sansio.providers.common", "mmo_trio.system"),
    "clock": ("mmo_sansio.values", "mmo_trio.system", "mmo_trio.sandbox"),
    "exchange": ("mmo_sansio.http", "mmo_trio.http.client"),
    "registry": ("mmo_sansio.providers", "mmo_trio.simulators"),
    "deposits": ("mmo_sansio.providers.common", "mmo_sansio.payments.rules"),
    # A payment's journal, and the simulated operator's.
    "journal": ("mmo_sansio.providers.sandbox", "mmo_sansio.payments"),
    # What the payment page is sent, and what reaches the supervisor.
    "events": ("mmo_trio.pages.payment", "mmo_trio.service.supervisor"),
}
"""Module names that occur more than once, with the packages that may hold one each."""

CLASSES_TWICE: Mapping[str, str] = {}
"""Class names that are defined more than once, with the reason."""


def misplaced_at_root(names: Iterable[str]) -> list[str]:
    """List the modules that lie at a package's root; only its face may."""
    packages = {name.rpartition(".")[0] for name in names}
    return sorted(each for each in names if each.count(".") == 1 and each not in packages)


def repeated_names(names: Iterable[str], may_repeat: Mapping[str, tuple[str, ...]] = MAY_REPEAT) -> list[str]:
    """List the repetitions that MAY_REPEAT does not allow, and its entries without a use."""
    names = set(names)
    packages = {name.rpartition(".")[0] for name in names}
    by_name: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names - packages):
        package, _, module = name.rpartition(".")
        if module != "__main__":
            by_name[module].append(package)
    wrong = []
    for module, holders in sorted(by_name.items()):
        allowed = may_repeat.get(module, ())
        for package in holders:
            if len(holders) > 1 and not any(_matches(package, each) for each in allowed):
                wrong.append(f"{package}.{module}: {len(holders)} modules have this name")
    for module, allowed in may_repeat.items():
        holders = by_name[module]
        unused = [each for each in allowed if not any(_matches(one, each) for one in holders)]
        if unused or len(holders) < 2:
            wrong.append(f"MAY_REPEAT[{module!r}]: no longer needed for {unused or 'anything'}")
    return wrong


def _matches(package: str, pattern: str) -> bool:
    return fnmatchcase(package, pattern) and package.count(".") == pattern.count(".")


def classes_twice(trees: Mapping[str, ast.Module]) -> list[str]:
    """List the class names with more than one definition, as `Name: modules`."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    return [f"{each}: {', '.join(where)}" for each, where in found.items() if len(where) > 1]


def lines_of(name: str) -> int:
    """Return how many lines a module has."""
    return len(MODULES[name].read_text(encoding="utf-8").splitlines())


def test_a_package_root_holds_only_its_face() -> None:
    assert misplaced_at_root(MODULES) == []


def test_a_module_name_repeats_only_where_it_may() -> None:
    assert repeated_names(MODULES) == []


def test_no_class_name_is_defined_twice() -> None:
    twice = {each.split(":")[0]: each for each in classes_twice(TREES)}
    assert [line for name, line in twice.items() if name not in CLASSES_TWICE] == []
    assert CLASSES_TWICE.keys() <= twice.keys(), "an exception is no longer needed"


def test_no_module_is_too_long() -> None:
    assert [f"{name}: {lines_of(name)}" for name in MODULES if lines_of(name) > LINES_MAX] == []


def test_few_modules_are_very_short() -> None:
    short = [
        name
        for name, path in MODULES.items()
        if path.stem not in ("__init__", "__main__") and ".languages." not in name and lines_of(name) < SHORT_LINES
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
    tree = [
        "mmo_trio",
        "mmo_trio.clock",
        "mmo_trio.http",
        "mmo_trio.http.client",
        "mmo_trio.http.client.wire",
        "mmo_trio.http.server.wire",
    ]
    assert misplaced_at_root(tree) == ["mmo_trio.clock"]
    assert repeated_names(tree, {}) == [
        "mmo_trio.http.client.wire: 2 modules have this name",
        "mmo_trio.http.server.wire: 2 modules have this name",
    ]
    assert repeated_names(tree, {"wire": ("mmo_trio.http.*",)}) == []
    assert repeated_names(tree, {"wire": ("mmo_trio.http.client",)}) == [
        "mmo_trio.http.server.wire: 2 modules have this name"
    ]
    assert repeated_names(tree, {"wire": ("mmo_trio.http.*", "mmo_trio.api")}) == [
        "MAY_REPEAT['wire']: no longer needed for ['mmo_trio.api']"
    ]
    assert repeated_names(tree, {"wire": ("mmo_trio.http.*",), "clock": ("mmo_trio",)}) == [
        "MAY_REPEAT['clock']: no longer needed for anything"
    ]
    twice = {"one": ast.parse("class A: ...\nclass B: ..."), "two": ast.parse("class A: ...")}
    assert classes_twice(twice) == ["A: one, two"]
