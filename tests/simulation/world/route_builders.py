"""Lets werkzeug compile the code that builds the addresses of a route once for all apps of an
interpreter.

It compiles two functions for each of the fifty routes that a gateway's pages and console have, and
these functions hold nothing of the app: they get the route as an argument. A world starts gateways
again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from werkzeug.routing import Rule

_compile_builder: Final[Callable[[Rule, bool], Any]] = Rule._compile_builder
_known: Final[dict[object, Any]] = {}


def builder_of(rule: Rule, append_unknown: bool = True) -> Any:
    """Return what `Rule._compile_builder` does, for which this stands."""
    if rule.defaults:  # They become part of the code.
        return _compile_builder(rule, append_unknown)
    key = rule.rule, tuple(rule._trace), append_unknown
    found = _known.get(key)
    if found is None:
        found = _known[key] = _compile_builder(rule, append_unknown)
    return found
