"""Imports point one way: values, messages, law, sides, shell. Read from every module's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("mmo_sansio.values",),
    ("mmo_sansio.resilience",),
    ("mmo_sansio.http",),
    ("mmo_sansio.messages",),
    ("mmo_sansio.providers", "mmo_sansio.api", "mmo_sansio.payments"),
    ("mmo_sansio.testing",),
    ("mmo_trio.system",),
    ("mmo_trio.storage",),
    ("mmo_trio.settings",),
    ("mmo_trio.engine", "mmo_trio.http", "mmo_trio.brands", "mmo_trio.admin"),
    ("mmo_trio.workers", "mmo_trio.simulators"),
    ("mmo_trio.api", "mmo_trio.sandbox", "mmo_trio.metrics"),
    ("mmo_trio.pages", "mmo_trio.console"),
    ("mmo_trio.service",),
    ("mmo_trio.cli",),
)
"""The packages from the bottom up: each imports only packages of earlier lines, and its own modules."""

STRANGERS: tuple[tuple[str, str], ...] = (
    ("mmo_sansio.api", "mmo_sansio.payments.rules"),
    ("mmo_sansio.api", "mmo_sansio.payments.decide"),
    ("mmo_sansio.api", "mmo_sansio.payments.decision"),
    ("mmo_sansio.api", "mmo_sansio.payments.ledger"),
    ("mmo_sansio.api", "mmo_sansio.payments.states"),
    ("mmo_sansio.providers", "mmo_sansio.payments.ledger"),
    ("mmo_sansio.providers", "mmo_sansio.payments.decide"),
    ("mmo_sansio.providers", "mmo_sansio.payments.decision"),
    ("mmo_sansio.providers", "mmo_sansio.payments.rules"),
    ("mmo_sansio.providers", "mmo_sansio.api"),
    ("mmo_trio", "mmo_sansio.payments.rules"),
)
"""(who, whom it never imports): HTTP shape and business rule meet in inputs and replies only."""

PURE = frozenset(
    (
        "__future__",
        "abc",
        "base64",
        "binascii",
        "collections",
        "contextlib",
        "datetime",
        "decimal",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "ipaddress",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "string",
        "struct",
        "types",
        "typing",
        "unicodedata",
        "zlib",
    )
)
"""What the core may import of the standard library: no I/O, clock, chance or threads."""

IMPURE_CALLS = frozenset({"open", "print", "input", "now", "utcnow", "today", "urlopen"})


def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()
CORE = [name for name in MODULES if name.split(".")[0] == "mmo_sansio"]


def imports_of(path: Path, known: Mapping[str, object]) -> Iterator[str]:
    """Everything that a module imports, at whatever depth; of our own, the module and not the name within it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            origin = node.module or ""
            for each in node.names:
                deeper = f"{origin}.{each.name}"
                yield deeper if deeper in known else origin


def our_own(graph: Mapping[str, set[str]], name: str) -> set[str]:
    """Of what a module imports, what is ours."""
    return {each for each in graph[name] if each in graph}


GRAPH = {name: set(imports_of(path, MODULES)) for name, path in MODULES.items()}


def place(name: str) -> tuple[int, str] | None:
    """The layer of a module, and the entry that puts it there: its own or that of a package around it."""
    best: tuple[int, str] | None = None
    for layer, entries in enumerate(LAYERS):
        for entry in entries:
            full = entry
            if (name == full or name.startswith(full + ".")) and (
                best is None or len(full) > len(best[1])
            ):
                best = layer, full
    return best


def arrows_against(graph: Mapping[str, set[str]]) -> list[str]:
    """Imports that point against the layers."""
    wrong = []
    for name in graph:
        here = place(name)
        for other in sorted(our_own(graph, name)):
            there = place(other)
            if here is None or there is None or here[1] == there[1]:
                continue
            if there[0] >= here[0]:
                wrong.append(f"{name} imports {other}, which stands beside or below it")
    return wrong


def cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other, directly or around."""
    left = {name: our_own(graph, name) for name in graph}
    while free := [name for name, wanted in left.items() if not wanted & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def test_every_module_is_placed() -> None:
    roots = {"mmo_sansio", "mmo_trio"}
    homeless = [name for name in MODULES if name not in roots and place(name) is None]
    assert homeless == [], (
        f"decide where they belong, in LAYERS of {Path(__file__).name}: {homeless}"
    )


def test_imports_point_one_way() -> None:
    assert arrows_against(GRAPH) == []


def test_nothing_imports_in_a_circle() -> None:
    assert cycles(GRAPH) == []


@pytest.mark.parametrize(("who", "whom"), STRANGERS, ids=[f"{a} - {b}" for a, b in STRANGERS])
def test_strangers_never_meet(who: str, whom: str) -> None:
    met = [
        f"{name} imports {other}"
        for name in GRAPH
        if (name + ".").startswith(who + ".")
        for other in our_own(GRAPH, name)
        if (other + ".").startswith(whom + ".")
    ]
    assert met == []


def test_rules_import_no_other_rule_but_waking() -> None:
    rules = [name for name in MODULES if name.startswith("mmo_sansio.payments.rules.")]
    others = {
        (name, other) for name in rules for other in our_own(GRAPH, name) if other in set(rules)
    }
    assert {other for _, other in others} <= {"mmo_sansio.payments.rules.timers"}


@pytest.mark.parametrize("name", CORE)
def test_the_core_imports_attrs_and_what_is_pure(name: str) -> None:
    foreign = {each.split(".")[0] for each in GRAPH[name]} - {"mmo_sansio", "attrs"}
    assert foreign <= PURE, f"{name} imports {sorted(foreign - PURE)}"


@pytest.mark.parametrize("name", CORE)
def test_the_core_calls_nothing_impure(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {call.id for call in calls if isinstance(call, ast.Name)} | {
        call.attr for call in calls if isinstance(call, ast.Attribute)
    }
    assert not called & IMPURE_CALLS
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(tree))


def test_these_tests_can_see() -> None:
    """A made-up graph with each fault in it."""
    wrong = {
        "mmo_sansio.values.money": {"mmo_sansio.messages.inputs"},
        "mmo_sansio.messages.inputs": {"mmo_sansio.values.money"},
        "mmo_sansio.values.clock": set[str](),
    }
    assert arrows_against(wrong) == [
        "mmo_sansio.values.money imports mmo_sansio.messages.inputs, which stands beside or below it"
    ]
    assert cycles(wrong) == ["mmo_sansio.messages.inputs", "mmo_sansio.values.money"]
    assert place("mmo_sansio.nowhere") is None
    assert place("mmo_sansio.values_else.clock") is None
    assert place("mmo_sansio.payments.rules.timers") == (4, "mmo_sansio.payments")
