"""What a store on SQLite needs of the system: how a connection opens, where its calls run, and a clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import trio
from attrs import Factory, define, frozen

from mmo_trio.storage.sqlite.connection import connect
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.waiting import CallThread

T = TypeVar("T")

READERS_MAX: Final = 4
"""Reads at once; a commit never waits for them."""


class OpenConnection(Protocol):
    """Opens a connection; see `connect`."""

    def __call__(self, path: Path, *, query_only: bool = False) -> sqlite3.Connection: ...


class CallRunner(Protocol):
    """Runs synchronous calls for tasks."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns, or raise what it raises. A task that is cancelled goes on at once; its call is
        run all the same, and its result dropped."""
        ...

    def end(self) -> None:
        """Release what the calls ran in, after those that are there. No further one may come."""


@define(eq=False)
class ReadThreads:
    """Runs calls in threads of Trio, several at once."""

    _limiter: trio.CapacityLimiter = Factory(lambda: trio.CapacityLimiter(READERS_MAX))

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns, or raise what it raises; see `CallRunner`."""
        return await trio.to_thread.run_sync(call, limiter=self._limiter, abandon_on_cancel=True)

    def end(self) -> None:
        """Do nothing: the threads are Trio's."""


@frozen
class SqliteSystem:
    """Holds what a store takes from the system; a test gives it something else."""

    connect: OpenConnection = connect
    make_writer: Callable[[], CallRunner] = partial(CallThread, "SQLite writer")
    """Makes what runs the calls that write, one by one and in their order."""
    make_readers: Callable[[], CallRunner] = ReadThreads
    """Makes what runs the calls that read."""
    clock: GatewayClock = Factory(GatewayClock)
    """Its `wall` is recorded as the store's time, its `monotonic` measures how long a call takes."""
