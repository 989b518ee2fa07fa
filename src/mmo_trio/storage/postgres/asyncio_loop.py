"""Runs asyncio code for a Trio task, on an event loop of its own that trio-asyncio runs.

psycopg connects, and asks a server to cancel, with asyncio only. trio-asyncio replaces functions of
asyncio when it is imported, and psycopg keeps those that it finds when *it* is imported. So
trio-asyncio comes first: this package imports this module before any other of its own, and this
module refuses a program that has imported psycopg before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import trio_asyncio

from mmo_trio.storage.interface.store import StoreUnusable

# In the order in which their imports ended.
_imported = list(sys.modules)
if "psycopg" in _imported and _imported.index("psycopg") < _imported.index("trio_asyncio"):
    raise StoreUnusable(
        "this program imported psycopg before trio_asyncio: import mmo_trio.storage.postgres first"
    )

T = TypeVar("T")


async def run_in_asyncio(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end; a cancellation of the Trio task cancels it, and waits for its
    end, too."""
    with unwrap_single_exception():
        async with trio_asyncio.open_loop() as loop:
            result: T = await loop.run_aio_coroutine(work())
    return result


@contextmanager
def unwrap_single_exception() -> Iterator[None]:
    """Raise an exception that a nursery has wrapped by itself as it was raised."""
    inner: BaseException | None = None
    try:
        yield
    except BaseExceptionGroup as group:
        inner = group

    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]

    if inner is not None:
        raise inner
