"""Write `docs/library/`, the reference of the packages, from the faces and their docstrings.
Nothing is imported: the source is read, so the pages are the same wherever they are made. They are
part of the site, not of the repository.

python docs/make_library.py
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path

FOLDER = Path(__file__).with_name("library")
SOURCE = Path(__file__).parent.parent / "src"

FACES = {
    "mmo_sansio": "the core: payments, inputs, decisions, time and money",
    "mmo_sansio.messages": "what a service of your own needs beside them",
    "mmo_sansio.providers": "for adapters; the guide is [adding an "
    "operator](../internals/adding.md)",
    "mmo_sansio.testing": "builders, a world in virtual time, and the checks of adapters, "
    "for tests "
    "of your own",
    "mmo_merchant": "for merchants' programs: clients, inboxes and the gap closer; the "
    "guide is [the "
    "client for"
    " merchants](../merchant_client.md)",
    "mmo_trio": "the service: to serve a gateway from a program of your own, with providers "
    "of your own",
    "mmo_simulators": "operators to test a gateway against; the guide is [a simulator in a "
    "test of your"
    " own](../internals/operators.md#a-simulator-in-a-test-of-your-own)",
}
"""What each face is for, in the order of the reference; `mmo_sansio` says that these are the
faces."""

HEAD = """\
# The library

This page and those that it links are made from the docstrings. They list every public name of the
packages `mmo_sansio`, `mmo_merchant`, `mmo_trio` and `mmo_simulators`. A name that is not here is
internal, and may change in any version.

Begin with [a payment with no I/O](../tutorial.md), and read [how it is built](../internals/design.md)."""

LINE_LENGTH_MAX = 100
"""Longer signatures have one line for each argument."""

_MODULE_ROLE = re.compile(r":mod:`~?([a-z_.]+)`")
_ROLE = re.compile(r":[a-z]+:`~?(?:[a-z_]+\.)*([A-Za-z_.]+)`")
_CLAUSE = re.compile(r"\b[GPMACTLRSKWQEV][0-9]{1,2}\b")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Export:
    """Holds a public name with its definition and what documents it."""

    name: str
    module: str
    """The module that defines it."""
    definition: Definition
    docstring: str
    overloads: Sequence[ast.FunctionDef] = ()
    """The signatures of a function that has several."""


def exports(face: str) -> Sequence[Export]:
    """Return what a face exports, in the order in which it imports or defines it."""
    names = _listed_names(_tree(face))
    found = {each: _definition(face, each) for each in names}
    order = {name: index for index, name in enumerate(_bound_names(_tree(face)))}
    return sorted(found.values(), key=lambda each: order[each.name])


def pages() -> Mapping[str, str]:
    """Return the pages as Markdown, by the name of their file."""
    made = {"README.md": _index()}
    first_faces: dict[tuple[str, str], str] = {}
    for face in FACES:
        for each in exports(face):
            first_faces.setdefault((each.module, each.name), face)
        made[f"{face}.md"] = _face_page(face, first_faces)
    return made


def _index() -> str:
    rows = [f"| [`{face}`]({face}.md) | {purpose} |" for face, purpose in FACES.items()]
    return "\n".join((HEAD, "", "| Import from | What it is |", "|---|---|", *rows, ""))


def _face_page(face: str, first_faces: Mapping[tuple[str, str], str]) -> str:
    links, entries = [], []
    for each in exports(face):
        first = first_faces[each.module, each.name]
        links.append(f"[{each.name}]({'' if first == face else f'{first}.md'}#{each.name.lower()})")
        if first == face:
            entries.append("\n\n".join((f"## {each.name}", *_entry(each))))
    docstring = _text(ast.get_docstring(_tree(face)) or "")
    return (
        "\n\n".join((f"# {face}", docstring, f"It exports {', '.join(sorted(links))}.", *entries))
        + "\n"
    )


def _entry(each: Export) -> Iterator[str]:
    match each.definition:
        case ast.ClassDef() as definition:
            yield f"```text\n{_class_head(definition)}\n```"
            yield _text(each.docstring)
            if members := [*_inherited_members(each.module, definition), *_members(definition)]:
                yield "\n".join(members)
        case ast.FunctionDef() | ast.AsyncFunctionDef() as definition:
            signatures = "\n".join(_signature(one) for one in each.overloads or (definition,))
            yield f"```text\n{signatures}\n```"
            yield _text(each.docstring)
        case definition:
            yield f"```text\n{ast.unparse(definition)}\n```"
            if each.docstring:
                yield _text(each.docstring)


def _class_head(definition: ast.ClassDef) -> str:
    bases = [ast.unparse(base) for base in definition.bases]
    shown = ", ".join(base for base in bases if not base.startswith("_"))
    return f"class {definition.name}({shown})" if shown else f"class {definition.name}"


def _inherited_members(module: str, definition: ast.ClassDef) -> Iterator[str]:
    """Yield the members that a class has from bases of ours."""
    for base in definition.bases:
        name = ast.unparse(base).partition("[")[0]
        if (found := _find_definition(module, name)) is not None and isinstance(
            found.definition, ast.ClassDef
        ):
            yield from _inherited_members(found.module, found.definition)
            yield from _members(found.definition)


def _members(definition: ast.ClassDef) -> Iterator[str]:
    """Yield a line for each public member: fields, members of an enumeration, properties and
    methods."""
    followers: list[ast.stmt | None] = [*definition.body[1:], None]
    for statement, follower in zip(definition.body, followers, strict=True):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                default = _default_text(statement.value)
                yield _item(
                    f"{name}: {ast.unparse(statement.annotation)}{default}", _literal(follower)
                )
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                yield _item(f"{name} = {ast.unparse(statement.value)}", _literal(follower))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if (
                name == "__init__" or not name.startswith("_")
            ):
                docstring = ast.get_docstring(statement) or ""
                if any(ast.unparse(each) == "property" for each in statement.decorator_list):
                    yield _item(
                        f"{name}: {ast.unparse(statement.returns) if statement.returns else ''}",
                        docstring,
                    )
                else:
                    code = _signature(statement, is_method=True)
                    yield _item(code.replace("__init__(", f"{definition.name}(", 1), docstring)
            case _:
                pass


def _default_text(value: ast.expr | None) -> str:
    """Return the default of a field where it is a plain value; a call such as `field(...)` is
    not."""
    return "" if value is None or isinstance(value, ast.Call) else f" = {ast.unparse(value)}"


def _signature(
    definition: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool = False
) -> str:
    arguments = definition.args
    if is_method and not any(
        ast.unparse(each) == "staticmethod" for each in definition.decorator_list
    ):
        positional = arguments.posonlyargs + arguments.args
        without_self = ast.arguments(
            posonlyargs=[],
            args=positional[1:],
            vararg=arguments.vararg,
            kwonlyargs=arguments.kwonlyargs,
            kw_defaults=arguments.kw_defaults,
            kwarg=arguments.kwarg,
            defaults=arguments.defaults,
        )
        arguments = without_self
    prefix = "async " if isinstance(definition, ast.AsyncFunctionDef) else ""
    is_init = definition.name == "__init__"
    result = f" -> {ast.unparse(definition.returns)}" if definition.returns and not is_init else ""
    head = "" if is_method else "def "
    whole = f"{prefix}{head}{definition.name}({ast.unparse(arguments)}){result}"
    if is_method or len(whole) <= LINE_LENGTH_MAX:
        return whole
    lines = "".join(f"    {each},\n" for each in _argument_texts(arguments))
    return f"{prefix}{head}{definition.name}(\n{lines}){result}"


def _argument_texts(arguments: ast.arguments) -> Iterator[str]:
    """Yield the text of each argument, in their order."""
    positional = arguments.posonlyargs + arguments.args
    padding: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    for argument, default in zip(positional, [*padding, *arguments.defaults], strict=True):
        yield ast.unparse(
            ast.arguments([], [argument], None, [], [], None, [default] if default else [])
        )
    if arguments.vararg or arguments.kwonlyargs:
        yield (
            ast.unparse(ast.arguments([], [], arguments.vararg, [], [], None, []))
            if arguments.vararg
            else "*"
        )
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield ast.unparse(
            ast.arguments([], [], None, [argument], [default], None, [])
        ).removeprefix("*, ")
    if arguments.kwarg:
        yield ast.unparse(ast.arguments([], [], None, [], [], arguments.kwarg, []))


def _item(code: str, docstring: str) -> str:
    text = " ".join(_text(docstring).split())
    return f"- `{code}`: {text}" if text else f"- `{code}`"


def _text(docstring: str) -> str:
    """Return a docstring as Markdown: names instead of roles, and links to clauses."""
    plain = _ROLE.sub(r"`\1`", _MODULE_ROLE.sub(r"`\1`", cleandoc(docstring)))
    return _CLAUSE.sub(lambda found: f"[{found[0]}](../clauses.md#{found[0].lower()})", plain)


def _literal(statement: ast.stmt | None) -> str:
    """Return the text of a statement that is nothing but a text, as the documentation of a field
    is."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return ""


@cache
def _tree(module: str) -> ast.Module:
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _listed_names(tree: ast.Module) -> Sequence[str]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return [str(each) for each in ast.literal_eval(value)]
            case _:
                pass
    raise AssertionError("a face lists its names in __all__")


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module imports or defines, in their order."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
            ):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass


def _definition(module: str, name: str) -> Export:
    """Return the definition of a name, which a module has or imports."""
    found = _find_definition(module, name)
    assert found is not None, f"{module} has no {name}"
    return found


def _find_definition(module: str, name: str) -> Export | None:
    """Return the definition of a name; None when it is not ours."""
    tree = _tree(module)
    followers: list[ast.stmt | None] = [*tree.body[1:], None]
    overloads: list[ast.FunctionDef] = []
    for statement, follower in zip(tree.body, followers, strict=True):
        match statement:
            case ast.FunctionDef(name=defined, decorator_list=[ast.Name(id="overload")]):
                overloads += [statement] if defined == name else []
            case (
                ast.ClassDef(name=defined)
                | ast.FunctionDef(name=defined)
                | ast.AsyncFunctionDef(name=defined)
            ) as definition if defined == name:
                return Export(
                    name, module, definition, ast.get_docstring(definition) or "", overloads
                )
            case (
                ast.Assign(targets=[ast.Name(id=defined)])
                | ast.AnnAssign(target=ast.Name(id=defined))
            ) as definition if defined == name:
                return Export(name, module, definition, _literal(follower))
            case _:
                pass
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mmo_"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _find_definition(str(node.module), alias.name)
    return None


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, page in pages().items():
        (FOLDER / file).write_text(page, encoding="utf-8")
