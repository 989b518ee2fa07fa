"""The language of the source: verbs in docstrings, no retired words, log events to search for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tests.sansio.structure.docstring_verbs import has_verb, without_verb
from tests.sansio.structure.retired_words import findings, retired_in, unused_allowances
from tests.sansio.structure.sources import TREES

EVENT = re.compile(r"[a-z]+(?:_[a-z0-9]+)+")
FORWARDED = "event"
"""A variable of this name holds the event of a LogMessage, which is checked where it is made."""
LOG_METHODS = frozenset(("debug", "info", "warning", "error", "exception", "critical"))


def log_events(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Yield `(module:line, event)` of every log call; a computed event is yielded as ''."""
    constants = dict(_string_constants(trees))
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _is_log_call(node.func):
                first = node.args[0] if node.args else None
                for event in [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]:
                    if not (isinstance(event, ast.Name) and event.id == FORWARDED):
                        yield f"{name}:{node.lineno}", _event_text(event, constants)


def _event_text(event: ast.expr | None, constants: Mapping[str, str]) -> str:
    match event:
        case ast.Constant(value):
            return str(value)
        case ast.Name(name) | ast.Attribute(attr=name):
            return constants.get(name, "")
        case _:
            return ""


def _string_constants(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    for tree in trees.values():
        for node in ast.walk(tree):
            match node:
                case ast.Assign([ast.Name(name)], ast.Constant(str(value))):
                    yield name, value
                case ast.AnnAssign(ast.Name(name), value=ast.Constant(str(value))):
                    yield name, value


def _is_log_call(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id == "LogMessage"
    return (
        isinstance(function, ast.Attribute)
        and function.attr in LOG_METHODS
        and isinstance(function.value, ast.Name)
        and function.value.id in ("logger", "log")
    )


def not_searchable(trees: Mapping[str, ast.Module]) -> list[str]:
    """List the log events that are not words in snake_case."""
    return [f"{where}: {event}" for where, event in log_events(trees) if not EVENT.fullmatch(event)]


def test_a_docstring_without_a_verb_is_found() -> None:
    assert has_verb("Return the key.")
    assert has_verb("A brand is the merchant's account.")
    assert has_verb("Counts requests.")
    assert has_verb("The connection, which it closes.")
    assert not has_verb("The key of a brand.")
    assert not has_verb("Limits of the listener.")
    assert not has_verb("Requests and answers.")
    assert not has_verb("What is wrong with a request.")
    assert not has_verb("`run` and `close`.")
    tree = ast.parse('"""Holds a class."""\nclass A:\n    """The first."""\n    def _b(self): "Two."')
    assert list(without_verb({"one": tree})) == ["one:2: one.A: The first."]


def test_a_retired_word_is_found() -> None:
    assert list(retired_in("def is_told(Patience): ...")) == ["told: reported, informed", "patience: timeout, deadline"]
    assert list(retired_in("by the law of payments")) == ["the law: the payment rules"]
    assert list(retired_in("a lawful listener outdoors")) == []


def test_a_log_event_in_words_of_its_own_is_found() -> None:
    tree = ast.parse(
        'logger.info("callback_released", brand=1)\nlogger.error("gone away")\nlog.info(f"{one}")\n'
        'A = "all right"\nlogger.error(A)\nlogger.info(event)\n'
        'logger.info("off" if one else "so_on")'
    )
    assert not_searchable({"one": tree}) == ["one:2: gone away", "one:3: ", "one:5: all right", "one:7: off"]


def test_log_events_are_words_to_search_for() -> None:
    assert not_searchable(TREES) == []


def test_every_public_docstring_has_a_verb() -> None:
    assert list(without_verb(TREES)) == []


def test_no_retired_word_is_left() -> None:
    assert list(findings()) == []
    assert unused_allowances() == []
