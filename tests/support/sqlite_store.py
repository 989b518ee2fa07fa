"""Gives tests the shipped store on SQLite without threads: in a file in memory, opened in some
milliseconds, with calls that are made at once, in the turn of their caller. So Trio's clock for
tests never jumps while a statement runs."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final, TypeVar
from weakref import finalize

import trio
from attrs import define, field

from mmo_sansio.values.clock import SECOND, Instant, MonotonicInstant
from mmo_trio.storage.sqlite import SqliteStore, open_sqlite
from mmo_trio.storage.sqlite.connection import CallRunner, SqliteSystem, connect
from mmo_trio.storage.sqlite.startup import migrate
from mmo_trio.system.clock import GatewayClock

T = TypeVar("T")

STARTED_AT: Final = Instant(1_767_225_600 * SECOND)
"""2026-01-01T00:00:00Z, when Trio's clock shows 0."""
_MEMORY: Final = Path("/dev/shm")
_numbers: Final = count(1)


class TrioClock(GatewayClock):
    """Shows the time of Trio's clock, which a test may move."""

    def raw_wall_time(self) -> Instant:
        return Instant(STARTED_AT + round(trio.current_time() * SECOND))

    def monotonic(self) -> MonotonicInstant:
        return MonotonicInstant(round(trio.current_time() * SECOND))


class CallsAtOnce(CallRunner):
    """Makes each call at once, in the turn of its caller."""

    async def run(self, call: Callable[[], T], *, turn_within_s: float = math.inf) -> T:
        await trio.lowlevel.checkpoint()
        return call()

    def drop_waiting(self) -> None:
        """Do nothing, as none waits."""

    def end(self) -> None:
        """Do nothing."""


def connect_to_copy(path: Path, *, query_only: bool = False) -> sqlite3.Connection:
    """Open a connection as the gateway does, but for what only a loss of power would show."""
    connection = connect(path, query_only=query_only)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


@define(eq=False)
class StoreFile:
    """Is a new file with a database, in memory where the system has a place for that; it outlives
    every store that is opened on it, as it outlives the processes of a gateway. Its directory has
    files of this one only."""

    path: Path = field(factory=lambda: _directory() / f"{next(_numbers)}" / "gateway.db")

    def __attrs_post_init__(self) -> None:
        self.path.parent.mkdir()
        self.path.touch(mode=0o600)
        self.path.write_bytes(migrated_database())
        finalize(self, _remove, self.path.parent)

    @asynccontextmanager
    async def open(
        self, *, serving: bool = True, clock: GatewayClock | None = None
    ) -> AsyncIterator[SqliteStore]:
        """Open the store; its clock is Trio's unless there is another."""
        system = SqliteSystem(connect_to_copy, CallsAtOnce, CallsAtOnce, clock or TrioClock())
        async with open_sqlite(self.path, serving=serving, system=system) as store:
            yield store


@cache
def _temporary() -> TemporaryDirectory[str]:
    folder = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(gettempdir())
    return TemporaryDirectory(prefix="mmo-stores-", dir=folder)


def _directory() -> Path:
    return Path(_temporary().name)


@cache
def migrated_database() -> bytes:
    """Return a database with the schema of this version and no rows but those that it begins with.
    To be called before randomness is seeded, as it makes a directory for this interpreter."""
    path = _directory() / "template.db"
    path.touch(mode=0o600)
    connection = connect_to_copy(path)
    connection.execute("PRAGMA journal_mode = WAL")
    migrate(connection)
    connection.close()
    return path.read_bytes()


def _remove(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink(missing_ok=True)
    folder.rmdir()
