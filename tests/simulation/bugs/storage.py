"""Bugs of the store on SQLite, and of what it shares with the other SQL databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast
from unittest.mock import patch

import trio
from attrs import evolve

from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import BrandHold
from mmo_trio.storage.sql import monitoring, serialization
from mmo_trio.storage.sql import store as sql_store
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.net_effect import NetEffect
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import SqlQuery
from mmo_trio.storage.sqlite import statements
from mmo_trio.storage.sqlite import store as sqlite_store
from mmo_trio.storage.sqlite.statements import RecentTransactions
from mmo_trio.storage.sqlite.writer import SqliteWriter


def _written(change: Callable[[NetEffect], NetEffect]) -> AbstractContextManager[object]:
    """Write another effect of each batch."""
    write = statements.write_batch

    def write_changed(
        connection: sqlite3.Connection, effect: NetEffect, *, is_claimed: bool
    ) -> None:
        write(connection, change(effect), is_claimed=is_claimed)

    return patch.object(sqlite_store, "write_batch", write_changed)


def intent_not_deleted() -> AbstractContextManager[object]:
    """A durable intent stays when it is concluded."""
    return _written(lambda effect: evolve(effect, concluded=set()))


def conclusion_outside_of_its_commit() -> AbstractContextManager[object]:
    """A conclusion is committed before what follows from it."""
    write = statements.write_batch

    def write_apart(connection: sqlite3.Connection, effect: NetEffect, *, is_claimed: bool) -> None:
        if effect.concluded:
            statement = "DELETE FROM intents WHERE gateway_reference = ? AND kind = ?"
            connection.executemany(
                statement, [(reference, kind.value) for reference, kind in effect.concluded]
            )
            connection.executescript("COMMIT; BEGIN IMMEDIATE")
        write(connection, effect, is_claimed=is_claimed)

    return patch.object(sqlite_store, "write_batch", write_apart)


@contextmanager
def reference_written_after_its_payment() -> Iterator[None]:
    """The use of a merchantReference is written with the next batch."""
    late: list[Any] = []

    def postpone(effect: NetEffect) -> NetEffect:
        written = evolve(effect, references=[*late])
        late[:] = effect.references
        return written

    with _written(postpone):
        yield


def stale_row_cached() -> AbstractContextManager[object]:
    """What a commit has not stored stays in the cache of the thread that writes."""
    return patch.object(RecentTransactions, "clear", lambda self: None)


def rollback_taken_for_a_commit() -> AbstractContextManager[object]:
    """A disk that fails in a commit counts as one that has written it."""
    commit = SqliteWriter._commit

    def commit_somehow(self: SqliteWriter, connection: sqlite3.Connection) -> None:
        try:
            commit(self, connection)
        except Exception:
            connection.rollback()

    return patch.object(SqliteWriter, "_commit", commit_somehow)


def mark_kept_at_a_restart() -> AbstractContextManager[object]:
    """What a process has claimed is marked in a way that the start of the next one does not
    free."""
    write = statements.write_batch

    def write_marked(
        connection: sqlite3.Connection, effect: NetEffect, *, is_claimed: bool
    ) -> None:
        write(connection, effect, is_claimed=cast(bool, 2))

    return patch.object(sqlite_store, "write_batch", write_marked)


def horizon_not_kept() -> AbstractContextManager[object]:
    """A process does not tell the next one up to when it has served records."""
    save = sql_store._save_clock_record

    def save_most(schema: SqlSchema, record: ClockRecord) -> SqlQuery[None]:
        return save(schema, evolve(record, served_until=Instant(0)))

    return patch.object(sql_store, "_save_clock_record", save_most)


def breaker_not_read() -> AbstractContextManager[object]:
    """A process begins with all breakers closed, whatever is stored."""

    def read_nothing(table: str) -> SqlQuery[dict[str, Any]]:
        yield from ()
        return {}

    return patch.object(monitoring, "breakers", read_nothing)


def evidence_not_stored() -> AbstractContextManager[object]:
    """What an operator has said of a pending payment is not in its row."""
    return patch.object(serialization, "_evidence", lambda known: "null")


def hold_not_stored() -> AbstractContextManager[object]:
    """A brand that is put on hold is not."""

    async def hold_nothing(self: AdminStore, hold: BrandHold) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    return patch.object(AdminStore, "hold_brand", hold_nothing)
