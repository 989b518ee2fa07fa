"""Of other projects, only names that they promise are used; a module that checks the release is
excepted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.sansio.structure.sources import ROOT, TREES

CHECKED = {"mmo_trio.storage.postgres.driver": "psycopg"}
"""The modules that use what nobody promises, and of which project."""

UNPROMISED = (
    "hypercorn.app_wrappers",
    "hypercorn.events",
    "hypercorn.protocol",
    "hypercorn.trio.task_group",
    "hypercorn.trio.worker_context",
    "psycopg.adapt.Transformer",
    "psycopg.errors.error_from_result",
    "psycopg.generators",
    "psycopg.waiting",
)
"""What has no underscore, and is not in the project's documentation either."""

DOCUMENTED = frozenset({"_asdict", "_exit", "_fields", "_make", "_replace", "_value_"})
"""Names with an underscore that Python's documentation has: of named tuples, members of an
enumeration, and `os`."""


def is_private(name: str) -> bool:
    """Return whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that is imported from another project, as it is called here, and its whole
    name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [(each.asname or each.name.partition(".")[0], each.name) for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found = [
                (each.asname or each.name, f"{node.module}.{each.name}") for each in node.names
            ]
        else:
            continue
        yield from (
            (known_as, name)
            for known_as, name in found
            if not name.startswith("mmo_") and not name.startswith("__future__")
        )


def own_names(tree: ast.Module) -> set[str]:
    """Return the names that a module gives to functions, classes and attributes."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name):
                found.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


INHERITED = frozenset().union(*map(own_names, TREES.values()))
"""The names of all modules, as a class has those of its bases."""


def private_uses(tree: ast.Module) -> Iterator[str]:
    """Yield private names of other projects that a module imports, asks an object for by a text,
    or finds by a name that it has imported or inherited."""
    foreign = dict(imported_names(tree))
    yield from (name for name in foreign.values() if any(map(is_private, name.split("."))))
    own = own_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                if is_private(name) and name not in own | INHERITED:
                    yield ast.unparse(node)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                pass  # Of its class, below.
            case ast.Attribute(attr=name) if is_private(name) and name not in own:
                yield ast.unparse(node)
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ) if is_private(name):
                yield ast.unparse(node)
            case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"))):
                yield ast.unparse(node)
            case ast.ClassDef(bases=bases) if any(_root(base) in foreign for base in bases):
                yield from (f"{node.name}.{each}" for each in _calls_of_super(node))


def _root(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].partition(".")[0]


def _calls_of_super(class_: ast.ClassDef) -> Iterator[str]:
    """Yield the private methods that a class has from a foreign one, and calls."""
    for node in ast.walk(class_):
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                if is_private(name):
                    yield name


def unpromised_uses(tree: ast.Module) -> Iterator[str]:
    """Yield imports of what its project does not document."""
    for _, name in imported_names(tree):
        if any(f"{name}.".startswith(f"{each}.") for each in UNPROMISED):
            yield name


PACKAGES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.glob("packages/*/src/**/*.py"))
}
ALL_TREES = {**TREES, **PACKAGES}


@pytest.mark.parametrize("name", ALL_TREES)
def test_a_module_uses_only_names_that_other_projects_promise(name: str) -> None:
    tree = ALL_TREES[name]
    uses = [*private_uses(tree), *unpromised_uses(tree)]
    project = CHECKED.get(name)
    if project is None:
        assert uses == []
    else:
        assert uses, "it needs no exception"
        assert f"{project.upper()}.fault()" in ast.unparse(tree)


@pytest.mark.parametrize(
    ("source", "use"),
    [
        ("from trio._core import run", "trio._core.run"),
        ("import h11._util", "h11._util"),
        ("import click\nclick.core._verify()", "click.core._verify"),
        ("def f(stream): return stream._state", "stream._state"),
        ("def f(stream): return getattr(stream, '_state')", "getattr(stream, '_state')"),
        ("import ssl\nvars(ssl)['x']", "vars(ssl)['x']"),
        ("from trio.abc import Clock\nclass C(Clock):\n  def _a(self): super()._a()", "C._a"),
    ],
)
def test_a_private_name_is_found(source: str, use: str) -> None:
    assert use in [*private_uses(ast.parse(source))]


def test_what_is_not_documented_is_found() -> None:
    tree = ast.parse("from psycopg.waiting import Wait")
    assert [*unpromised_uses(tree)] == ["psycopg.waiting.Wait"]
