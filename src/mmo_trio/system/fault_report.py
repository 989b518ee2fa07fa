"""Describes unexpected exceptions for the log by their types and places, never by values (P3,
A5)."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Final

# The exit code of a process that a fault of our own has ended (EX_SOFTWARE of sysexits.h).
EXIT_SOFTWARE_ERROR: Final = 70


def describe_fault(error: BaseException) -> str:
    """Return the types of an exception, its causes and its members, each with its stack.

    Messages are left out, as `invalid literal: '254700…'` would log a customer's number."""
    return "\n".join(_descriptions(error, set()))


def _descriptions(error: BaseException, seen: set[int]) -> Iterator[str]:
    # An exception may be its own cause, over others; while they live, ids tell them apart.
    if id(error) in seen:
        return

    seen.add(id(error))
    kind = type(error)
    yield f"{kind.__module__}.{kind.__qualname__}"
    yield "".join(traceback.format_tb(error.__traceback__)).rstrip("\n")
    if isinstance(error, BaseExceptionGroup):
        parts = error.exceptions
    else:
        parts = ()

    for other in (*parts, error.__cause__ or error.__context__):
        if other is not None:
            yield from _descriptions(other, seen)
