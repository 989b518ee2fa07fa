"""Imports point one way, from the command line down to the values: read from every syntax tree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping

import pytest

from tests.sansio.structure.sources import MODULES, TREES

LAYERS: tuple[tuple[str, ...], ...] = (
    ("mmo_sansio.values",),
    ("mmo_sansio.resilience",),
    ("mmo_sansio.http",),
    ("mmo_sansio.messages",),
    ("mmo_sansio.providers", "mmo_sansio.api", "mmo_sansio.payments", "mmo_sansio.accounting"),
    ("mmo_sansio.testing",),
    ("mmo_merchant.tables",),
    ("mmo_merchant.api", "mmo_merchant.reconciliation", "mmo_merchant.endpoint_check"),
    ("mmo_merchant.clients",),
    ("mmo_merchant.inbox", "mmo_merchant.payroll"),
    ("mmo_simulators.common",),
    ("mmo_simulators.operators", "mmo_simulators.server"),
    ("mmo_trio.system",),
    ("mmo_trio.storage",),
    ("mmo_trio.settings",),
    ("mmo_trio.engine", "mmo_trio.http", "mmo_trio.brands", "mmo_trio.admin"),
    ("mmo_trio.workers",),
    ("mmo_trio.api", "mmo_trio.sandbox", "mmo_trio.metrics"),
    ("mmo_trio.design",),
    ("mmo_trio.pages", "mmo_trio.console"),
    ("mmo_trio.service",),
    ("mmo_trio.rehearsal",),
    ("mmo_trio.cli",),
)
"""The rooms from the bottom up: each imports only rooms of earlier lines, and its own modules."""

FORBIDDEN_IMPORTS: tuple[tuple[str, str], ...] = (
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
    ("mmo_merchant", "mmo_sansio.providers"),
    ("mmo_merchant", "mmo_sansio.payments"),
    ("mmo_merchant", "mmo_sansio.messages"),
    ("mmo_merchant", "mmo_trio"),
    ("mmo_trio", "mmo_sansio.payments.rules"),
    ("mmo_simulators", "mmo_sansio.payments"),
    ("mmo_simulators", "mmo_sansio.messages"),
)
"""(importer, what it never imports): HTTP and payment rules meet only in inputs and replies."""

PURE = frozenset(
    (
        "__future__",
        "abc",
        "array",
        "base64",
        "binascii",
        "collections",
        "contextlib",
        "csv",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "html",
        "ipaddress",
        "itertools",
        "json",
        "marshal",
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
"""Modules of the standard library that pure code may import: no I/O, clock, randomness or
threads."""

IMPURE_CALLS = frozenset({"open", "print", "input", "now", "utcnow", "today", "urlopen"})


MERCHANTS_PACKAGES = frozenset({"mmo_merchant", "mmo_sansio", "anyio", "attrs", "httpx"})
"""What merchants' programs import besides the standard library."""

FURTHER_PACKAGES = {
    "mmo_merchant.inbox.sql_inbox": {"psycopg"},
    "mmo_merchant.payroll.command": {"click", "rich"},
    "mmo_merchant.tables.sheet_rows": {"openpyxl"},
}
"""The modules that import more: the inbox names psycopg's types, a command has the extra `tools`,
and sheets need `xlsx`."""

PURE_ROOMS = (
    "mmo_sansio",
    "mmo_merchant.api",
    "mmo_merchant.reconciliation",
    "mmo_merchant.endpoint_check.situations",
    "mmo_merchant.payroll.pay_roll",
    "mmo_merchant.tables.cells",
    "mmo_merchant.tables.csv_rows",
    "mmo_merchant.tables.faults",
    "mmo_merchant.tables.numbers",
    "mmo_merchant.tables.words",
)
"""The packages and modules without I/O."""

PURE_MODULES = [
    name for name in MODULES if any((name + ".").startswith(room + ".") for room in PURE_ROOMS)
]
SIMULATORS = [name for name in MODULES if name.split(".")[0] == "mmo_simulators"]


def imports_of(tree: ast.Module, known: Mapping[str, object]) -> Iterator[str]:
    """Yield every import at any depth; of our own modules, the module and not the name in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            for each in node.names:
                deeper = f"{origin}.{each.name}"
                yield deeper if deeper in known else origin


def our_own(graph: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the imports of a module that belong to this project."""
    return {each for each in graph[name] if each in graph}


GRAPH = {name: set(imports_of(tree, MODULES)) for name, tree in TREES.items()}


def room_of(name: str) -> tuple[int, str] | None:
    """Return the line of LAYERS and the room that a module belongs to."""
    for layer, rooms in enumerate(LAYERS):
        for room in rooms:
            if name == room or name.startswith(room + "."):
                return layer, room
    return None


def upward_imports(graph: Mapping[str, set[str]]) -> list[str]:
    """List the imports that point against the layers."""
    wrong = []
    for name in graph:
        here = room_of(name)
        for other in sorted(our_own(graph, name)):
            there = room_of(other)
            if here is None or there is None or here[1] == there[1]:
                continue
            if there[0] >= here[0]:
                wrong.append(f"{name} imports {other}, which is not in a lower layer")
    return wrong


def cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """List the modules that import each other, directly or through others."""
    left = {name: our_own(graph, name) for name in graph}
    while free := [name for name, needed in left.items() if not needed & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def test_every_module_has_a_room() -> None:
    roots = {"mmo_merchant", "mmo_sansio", "mmo_simulators", "mmo_trio"}
    homeless = [name for name in MODULES if name not in roots and room_of(name) is None]
    assert homeless == [], f"put them into a room of LAYERS: {homeless}"


def test_each_room_is_listed_once_and_in_use() -> None:
    rooms = [room for layer in LAYERS for room in layer]
    assert len(set(rooms)) == len(rooms)
    assert set(rooms) <= MODULES.keys()


def test_no_import_is_relative() -> None:
    relative = [
        f"{name} imports {each}" for name in GRAPH for each in GRAPH[name] if each[0] == "."
    ]
    assert relative == []


def test_nothing_that_is_installed_imports_a_test() -> None:
    assert [
        f"{name} imports {each}"
        for name in GRAPH
        for each in GRAPH[name]
        if each.split(".")[0] == "tests"
    ] == []


def test_imports_point_one_way() -> None:
    assert upward_imports(GRAPH) == []


def test_nothing_imports_in_a_circle() -> None:
    assert cycles(GRAPH) == []


@pytest.mark.parametrize(
    ("importer", "imported"), FORBIDDEN_IMPORTS, ids=[f"{a} - {b}" for a, b in FORBIDDEN_IMPORTS]
)
def test_forbidden_imports(importer: str, imported: str) -> None:
    wrong = [
        f"{name} imports {other}"
        for name in GRAPH
        if (name + ".").startswith(importer + ".")
        for other in our_own(GRAPH, name)
        if (other + ".").startswith(imported + ".")
    ]
    assert wrong == []


def test_rules_import_no_other_rule_but_timers() -> None:
    rules = [name for name in MODULES if name.startswith("mmo_sansio.payments.rules.")]
    others = {
        (name, other) for name in rules for other in our_own(GRAPH, name) if other in set(rules)
    }
    assert {other for _, other in others} <= {"mmo_sansio.payments.rules.timers"}


@pytest.mark.parametrize("name", PURE_MODULES)
def test_what_is_pure_imports_attrs_and_what_is_pure(name: str) -> None:
    of_ours = {"mmo_sansio", name.split(".")[0]}
    foreign = {each.split(".")[0] for each in GRAPH[name]} - of_ours - {"attrs"}
    assert foreign <= PURE, f"{name} imports {sorted(foreign - PURE)}"


@pytest.mark.parametrize("name", SIMULATORS)
def test_the_simulators_import_the_core_and_nothing_of_the_gateway(name: str) -> None:
    known = {
        "mmo_simulators",
        "mmo_sansio",
        "attrs",
        "cryptography",
        "h11",
        "segno",
        "trio",
        *sys.stdlib_module_names,
    }
    foreign = {each.split(".")[0] for each in GRAPH[name]} - known
    assert foreign == set(), f"{name} imports {sorted(foreign)}"


def test_of_the_gateway_only_commands_import_what_is_for_merchants() -> None:
    users = {
        name
        for name in GRAPH
        for each in our_own(GRAPH, name)
        if each.split(".")[0] == "mmo_merchant"
    }
    assert {
        each for each in users if not each.startswith(("mmo_merchant", "mmo_trio.cli."))
    } == set()


def test_of_the_gateway_only_a_command_imports_the_simulators() -> None:
    users = {
        name
        for name in GRAPH
        for each in our_own(GRAPH, name)
        if each.split(".")[0] == "mmo_simulators"
    }
    assert users - set(SIMULATORS) == {"mmo_trio.cli.commands.simulate"}


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[0] == "mmo_merchant"])
def test_a_merchants_program_needs_few_packages(name: str) -> None:
    foreign = (
        {each.split(".")[0] for each in GRAPH[name]} - sys.stdlib_module_names - MERCHANTS_PACKAGES
    )
    assert foreign <= FURTHER_PACKAGES.get(name, set())


@pytest.mark.parametrize("name", PURE_MODULES)
def test_what_is_pure_calls_nothing_impure(name: str) -> None:
    tree = TREES[name]
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {call.id for call in calls if isinstance(call, ast.Name)} | {
        call.attr for call in calls if isinstance(call, ast.Attribute)
    }
    assert not called & IMPURE_CALLS
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(tree))


def test_these_tests_find_each_fault() -> None:
    wrong = {
        "mmo_sansio.values.money": {"mmo_sansio.messages.inputs"},
        "mmo_sansio.messages.inputs": {"mmo_sansio.values.money"},
        "mmo_sansio.values.clock": set[str](),
    }
    assert upward_imports(wrong) == [
        "mmo_sansio.values.money imports mmo_sansio.messages.inputs, which is not in a lower layer"
    ]
    assert cycles(wrong) == ["mmo_sansio.messages.inputs", "mmo_sansio.values.money"]
    assert room_of("mmo_sansio.nowhere") is None
    assert room_of("mmo_sansio.values_else.clock") is None
    assert room_of("mmo_sansio.payments.rules.timers") == (4, "mmo_sansio.payments")
    assert list(imports_of(ast.parse("def f():\n    from .clock import Span"), {})) == [".clock"]
