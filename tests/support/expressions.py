"""Finds every regular expression of a package, grows hostile texts for it from its own syntax tree,
and measures whether its time grows faster than the text.

An expression with two unbounded parts that can match the same characters tries every way to divide
a run of them, once for each start. So the texts are runs: a text that leads to an unbounded part,
then what that part matches again and again, then something that the expression does not expect."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from time import process_time
from types import ModuleType
from typing import Any, TypeAlias

from attrs import field, frozen

Expression: TypeAlias = re.Pattern[str] | re.Pattern[bytes]

_parser: Any = importlib.import_module("re._parser")  # It has no type stubs.

METHODS = ("match", "fullmatch", "search", "sub", "findall", "finditer", "split")
PUMPS = (*' \t0 9aAzé"\\[]{}(%,;:.-+_=@/\r\n', "\r\n", "\\\\", "a ", " a", "0.", "a.", "%2", '\\"')
"""Repeated in every expression, whatever it matches."""
SUFFIXES = ("", "\0", "\n", "\r", "!", "x", "=", "\x7f", " ", "b\r")
SIZES = (20, 200, 2_000)
"""Repetitions: time that grows exponentially shows at 20, and in a square at 2,000."""
CHARACTERS = [chr(code) for code in range(256)]


@frozen
class FoundExpression:
    """Is one expression, with the place that holds it and the methods that are called on it."""

    place: str
    """Such as `mmo_sansio.values.money._NUMBER`, or the module and line of a literal in a
    function."""
    expression: Expression = field(eq=False)
    methods: tuple[str, ...]


def find_expressions(
    package: ModuleType, samples: Mapping[str, Sequence[str]]
) -> list[FoundExpression]:
    """Return every expression that the package compiles.

    `samples` has, by module, examples of the expressions that its functions build from values, as
    no tool can read those. Raises AssertionError for a module that builds some and has no
    sample."""
    found: list[FoundExpression] = []
    trees: dict[str, ast.Module] = {}
    modules: dict[str, ModuleType] = {}
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("__main__"):
            module = modules[info.name] = importlib.import_module(info.name)
            with open(str(module.__file__), encoding="utf-8") as source:
                trees[info.name] = ast.parse(source.read())
    uses = _method_uses(trees)
    for name, module in modules.items():
        for variable, expression in _compiled(vars(module)):
            root = variable.partition(".")[0]
            used = uses[name, root] | (set() if root.startswith("_") else uses["", root])
            found.append(
                FoundExpression(
                    f"{name}.{variable}", expression, tuple(sorted(used)) or METHODS[:3]
                )
            )
        for line, method, text in _calls_in_functions(trees[name]):
            if text is not None:
                found.append(FoundExpression(f"{name}:{line}", re.compile(text), (method,)))
            else:
                assert name in samples, f"{name}:{line} builds an expression: add an example of it"
        found += [
            FoundExpression(f"{name} ({each})", re.compile(each), METHODS[:4])
            for each in samples.get(name, ())
        ]
    return list({(id(each.expression), each.methods): each for each in found}.values())


def superlinear_text(found: FoundExpression) -> str | None:
    """Return a description of the text for which the time grows faster than its length; None when
    there is none."""
    is_text = isinstance(found.expression.pattern, str)
    for method in found.methods:
        call = _caller(found.expression, method)
        for prefix, pump, suffix in product(*_parts(found.expression)):

            def text(
                repetitions: int, prefix: str = prefix, pump: str = pump, suffix: str = suffix
            ) -> Any:
                grown = prefix + pump * repetitions + suffix
                return grown if is_text else grown.encode("latin-1")

            for size in SIZES:
                if _grows_too_fast(call, text, size):
                    return f"{method}({prefix!r} + {pump!r} * n + {suffix!r})"
    return None


def _grows_too_fast(call: Any, text: Any, size: int) -> bool:
    """Whether the time is more than a text of this length needs, and four times the text takes
    eight times as long."""
    few = text(size)
    bound = 0.0003 + len(few) * 0.3e-6
    if (
        best_time(lambda: call(few), rounds=1) < bound
        or best_time(lambda: call(few), rounds=3) < bound
    ):
        return False
    if size == SIZES[0]:
        return True
    many = text(4 * size)
    return best_time(lambda: call(many), rounds=3) > 8 * best_time(lambda: call(few), rounds=5)


def best_time(run: Any, *, rounds: int) -> float:
    """Return the least CPU time of a call in seconds, so that other work of the machine does not
    count."""
    least = float("inf")
    for _ in range(rounds):
        started = process_time()
        run()
        least = min(least, process_time() - started)
    return least


def _caller(expression: Any, method: str) -> Any:
    if method == "sub":
        return lambda text: expression.sub(text[:0], text)
    if method == "finditer":
        return lambda text: list(expression.finditer(text))
    return getattr(expression, method)


def _compiled(values: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Expression]]:
    for name, value in values.items():
        match value:
            case re.Pattern():
                yield name, value
            case Mapping() if depth < 2:
                yield from (
                    (f"{name}.{key}", each) for key, each in _compiled(_by_text(value), depth + 1)
                )
            case tuple() | list() | frozenset() if depth < 2:
                items = {str(index): each for index, each in enumerate(value)}
                yield from ((f"{name}.{key}", each) for key, each in _compiled(items, depth + 1))
            case type() if depth == 0 and value.__module__.startswith("mmo_"):
                yield from (
                    (f"{name}.{key}", each) for key, each in _compiled(vars(value), depth + 1)
                )


def _by_text(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in mapping.items()}


def _method_uses(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], set[str]]:
    """Return the methods that are called on each name, by module and name, and by name alone for
    all modules."""
    uses: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in METHODS
                and isinstance(node.value, ast.Name)
            ):
                uses[module, node.value.id].add(node.attr)
                uses["", node.value.id].add(node.attr)
            match node:
                case ast.Call(func=ast.Name(id="matching"), args=[ast.Name(id=name), *_]):
                    # A kind of field takes what is wholly of the expression.
                    uses[module, name].add("fullmatch")
    return uses


def _calls_in_functions(tree: ast.Module) -> Iterator[tuple[int, str, Any]]:
    """Yield the calls of `re` in functions: the line, the method, and the expression if it is a
    literal."""
    for outer in ast.walk(tree):
        if not isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for node in ast.walk(outer):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=attr), args=[first, *_]
                ):
                    if attr in (*METHODS, "compile"):
                        literal = first.value if isinstance(first, ast.Constant) else None
                        yield node.lineno, "match" if attr == "compile" else attr, literal


def _parts(expression: Expression) -> tuple[list[str], list[str], Sequence[str]]:
    """Return the prefixes, the texts to repeat and the suffixes for this expression."""
    pattern = expression.pattern
    tree = _parser.parse(
        pattern if isinstance(pattern, str) else pattern.decode("latin-1"), expression.flags & ~32
    )
    prefixes, pumps = {"": None}, dict.fromkeys(PUMPS)
    groups: dict[int, str] = {}
    for prefix, pump in _repeats(tree, "", groups):
        prefixes[prefix] = None
        pumps[pump] = None
    whole = _example(tree, groups)
    prefixes[whole] = None
    if whole:
        pumps[whole] = None
    texts = [
        each
        for each in pumps
        if each.isascii() or isinstance(pattern, str) or len(each.encode("latin-1"))
    ]
    return list(prefixes), texts, SUFFIXES


def _repeats(tree: Iterable[Any], before: str, groups: dict[int, str]) -> Iterator[tuple[str, str]]:
    """Yield, for every repeated part, a text that leads to it and texts that it matches once."""
    for operation, argument in tree:
        name = str(operation)
        if name.endswith("_REPEAT"):
            _, most, body = argument
            if most > 16:
                yield from ((before, each) for each in _variants(body, groups))
            yield from _repeats(body, before, groups)
        elif name == "SUBPATTERN":
            yield from _repeats(argument[3], before, groups)
        elif name in ("ATOMIC_GROUP",):
            yield from _repeats(argument, before, groups)
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _repeats(branch, before, groups)
        before += _example([(operation, argument)], groups)


def _variants(body: Iterable[Any], groups: dict[int, str]) -> Iterator[str]:
    """Yield several texts that the body matches once."""
    items = list(body)
    if len(items) == 1 and str(items[0][0]) == "IN":
        accepted = [each for each in CHARACTERS if _accepts(items[0][1], each)]
        yield from dict.fromkeys(
            (accepted[0], accepted[-1], *(c for c in " 0aA;," if c in accepted))
        )
        return
    example = _example(items, groups)
    if example:
        yield example
    for operation, argument in items:
        if str(operation) == "BRANCH":
            yield from filter(None, (_example(branch, groups) for branch in argument[1]))


def _example(tree: Iterable[Any], groups: dict[int, str]) -> str:
    """Return a short text that the tree matches, assertions aside."""
    text = ""
    for operation, argument in tree:
        match str(operation):
            case "LITERAL":
                text += chr(argument)
            case "NOT_LITERAL":
                text += "a" if chr(argument) != "a" else "b"
            case "ANY":
                text += "a"
            case "IN":
                text += next(each for each in (*"a0A", *CHARACTERS) if _accepts(argument, each))
            case "BRANCH":
                text += _example(argument[1][0], groups)
            case "SUBPATTERN":
                inner = _example(argument[3], groups)
                if argument[0] is not None:
                    groups[argument[0]] = inner
                text += inner
            case "ATOMIC_GROUP":
                text += _example(argument, groups)
            case "GROUPREF":
                text += groups.get(argument, "")
            case repeated if repeated.endswith("_REPEAT"):
                text += _example(argument[2], groups) * argument[0]
    return text


def _accepts(items: Iterable[Any], character: str) -> bool:
    """Whether a set matches the character."""
    is_negated = accepted = False
    for operation, argument in items:
        match str(operation):
            case "NEGATE":
                is_negated = True
            case "LITERAL":
                accepted |= ord(character) == argument
            case "RANGE":
                accepted |= argument[0] <= ord(character) <= argument[1]
            case "CATEGORY":
                with suppress(KeyError):
                    accepted |= bool(re.match(_CATEGORIES[str(argument)], character, re.ASCII))
    return accepted != is_negated


_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d", "CATEGORY_NOT_DIGIT": r"\D", "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S", "CATEGORY_WORD": r"\w", "CATEGORY_NOT_WORD": r"\W",
}  # fmt: skip
