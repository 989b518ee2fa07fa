"""Keeps a merchant's inbox in SQLite or PostgreSQL: the protocol is :class:`mmo_merchant.Inbox`."""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mmo_merchant.api.gap_closing import GapProgress, WatchedPayment
from mmo_sansio.values.clock import SECOND, Instant, from_datetime, to_datetime

if TYPE_CHECKING:
    import psycopg

# Seconds that a transaction of SQLite waits for another one, whose handler may call other systems.
WAIT_FOR_LOCK_S: Final = 30.0

# By how much this machine's clock, which says when a result was taken, may be behind the gateway's.
LISTED_MARGIN: Final = timedelta(days=1)

# The advisory lock of PostgreSQL under which the tables are created: of two sessions that create
# one at once, one may fail in spite of IF NOT EXISTS. The number is arbitrary.
_TABLES_LOCK: Final = 7_236_120_519

# Times are microseconds since 1970-01-01T00:00:00Z.
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS mmo_taken_results (
        gateway_reference TEXT PRIMARY KEY,
        taken_at BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS mmo_watched_payments (
        gateway_reference TEXT PRIMARY KEY,
        created_at BIGINT NOT NULL,
        ask_at BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS mmo_gap_progress (
        name TEXT PRIMARY KEY,
        version BIGINT NOT NULL,
        through BIGINT NOT NULL,
        list_at BIGINT NOT NULL,
        window_end BIGINT,
        through_after BIGINT,
        page TEXT
    )""",
)

# The unique key decides who handles a result: the second transaction waits here for the first.
_TAKE: Final = "INSERT INTO mmo_taken_results VALUES (?, ?) ON CONFLICT DO NOTHING"
_UNWATCH: Final = "DELETE FROM mmo_watched_payments WHERE gateway_reference = ?"

# Only as it was read: of two programs that ask about one payment, one changes the row.
_ASK: Final = (
    "UPDATE mmo_watched_payments SET ask_at = ? WHERE gateway_reference = ? AND ask_at = ?"
)
_WATCH: Final = """INSERT INTO mmo_watched_payments VALUES (?, ?, ?)
    ON CONFLICT (gateway_reference) DO UPDATE SET ask_at = excluded.ask_at"""
_LOAD: Final = """SELECT through, list_at, window_end, through_after, page, version
    FROM mmo_gap_progress WHERE name = 'progress'"""

# The first program makes the row; a later one finds it and changes nothing.
_FIRST: Final = (
    "INSERT INTO mmo_gap_progress VALUES ('progress', ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)

# Each change raises the version by one, so of two programs that read the same one, one changes it.
_NEXT: Final = """UPDATE mmo_gap_progress
    SET version = ?, through = ?, list_at = ?, window_end = ?, through_after = ?, page = ?
    WHERE name = 'progress' AND version = ?"""

# A result that a callback has brought needs no look-up, whatever is watched.
_NEXT_WATCHED: Final = """SELECT gateway_reference, created_at, ask_at FROM mmo_watched_payments
    WHERE created_at < ? AND NOT EXISTS (
        SELECT 1 FROM mmo_taken_results AS taken
        WHERE taken.gateway_reference = mmo_watched_payments.gateway_reference
    )
    ORDER BY ask_at, gateway_reference LIMIT 1"""

# A watch may have been stored after its result was taken; without the mark it would bring the
# result again.
_PURGE_WATCHED: Final = """DELETE FROM mmo_watched_payments
    WHERE gateway_reference IN (SELECT gateway_reference FROM mmo_taken_results
    WHERE taken_at < ?)"""

_PURGE: Final = "DELETE FROM mmo_taken_results WHERE taken_at < ?"

ConnectionT = TypeVar("ConnectionT", "sqlite3.Connection", "psycopg.Connection[Any]")


class _SqlInbox(ABC, Generic[ConnectionT]):
    """Holds what both databases share; a subclass opens transactions and writes placeholders."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[ConnectionT]:
        """Open a transaction, which ends with the block."""

    def _execute(
        self, connection: ConnectionT, statement: str, parameters: Sequence[object] = ()
    ) -> Any:
        return connection.execute(statement, tuple(parameters))

    @contextmanager
    def take(self, gateway_reference: str) -> Iterator[ConnectionT | None]:
        """Open a transaction in which the result is taken; see :class:`mmo_merchant.Inbox`.

        The block does its own work by the connection that it gets, and ends the transaction only by
        its own end."""
        with self._transaction() as connection:
            is_new = self._execute(connection, _TAKE, (gateway_reference, _now())).rowcount == 1
            self._execute(connection, _UNWATCH, (gateway_reference,))
            # Here, in the same transaction, the merchant does his own work.
            yield connection if is_new else None

    def load_progress(self) -> GapProgress | None:
        """Return the progress that was stored last; None when there is none."""
        with self._transaction() as connection:
            row = self._execute(connection, _LOAD).fetchone()

        if row is None:
            return None

        through, list_at, window_end, through_after, page, version = row
        return GapProgress(
            through=to_datetime(Instant(through)),
            list_at=to_datetime(Instant(list_at)),
            window_end=_optional_time(window_end),
            through_after=_optional_time(through_after),
            page=page,
            version=version,
        )

    def save_progress(
        self, progress: GapProgress, *, watched: Sequence[WatchedPayment] = ()
    ) -> bool:
        """Store progress and watched payments, unless another program has been faster; return
        whether they were."""
        columns: tuple[object, ...] = (
            progress.version,
            from_datetime(progress.through),
            from_datetime(progress.list_at),
            _optional_instant(progress.window_end),
            _optional_instant(progress.through_after),
            progress.page,
        )
        with self._transaction() as connection:
            if progress.version == 0:
                changed = self._execute(connection, _FIRST, columns)
            else:
                changed = self._execute(connection, _NEXT, (*columns, progress.version - 1))

            # Another program was faster: its progress and its watched payments count.
            if changed.rowcount != 1:
                return False

            # With the progress, or neither: a payment before `through` is either taken or watched.
            self._watch(connection, watched)

        return True

    def begin_look_up(self, watched: WatchedPayment, asked: WatchedPayment) -> bool:
        """Store when a payment may be asked about again, unless another program has been faster;
        return whether it was."""
        ask_at = from_datetime(asked.ask_at)
        read_ask_at = from_datetime(watched.ask_at)
        with self._transaction() as connection:
            changed = self._execute(
                connection, _ASK, (ask_at, watched.gateway_reference, read_ask_at)
            )
        return bool(changed.rowcount == 1)

    def save_watched(
        self, watched: Sequence[WatchedPayment], *, forgotten: Sequence[str] = ()
    ) -> None:
        """Store the watched payments, and no longer watch the forgotten ones."""
        with self._transaction() as connection:
            self._watch(connection, watched)
            for reference in forgotten:
                self._execute(connection, _UNWATCH, (reference,))

    def _watch(self, connection: ConnectionT, watched: Sequence[WatchedPayment]) -> None:
        for watch in watched:
            row = (
                watch.gateway_reference,
                from_datetime(watch.created_at),
                from_datetime(watch.ask_at),
            )
            self._execute(connection, _WATCH, row)

    def next_watched(self, created_before: datetime) -> WatchedPayment | None:
        """Return the watched payment that may be asked about first, of those that were created
        before this time."""
        with self._transaction() as connection:
            row = self._execute(
                connection, _NEXT_WATCHED, (from_datetime(created_before),)
            ).fetchone()

        if row is None:
            return None

        reference, created_at, ask_at = row
        return WatchedPayment(
            gateway_reference=reference,
            created_at=to_datetime(Instant(created_at)),
            ask_at=to_datetime(Instant(ask_at)),
        )

    def purge(self, taken_before: datetime) -> None:
        """Forget the results that were taken before this time, to keep the table small; those that
        the gap closer may still list stay. A forgotten result that comes again would be handled
        again, so keep them for a month at least."""
        progress = self.load_progress()
        if progress is not None:
            # What may be listed again must still be known as taken.
            taken_before = min(taken_before, progress.through - LISTED_MARGIN)

        with self._transaction() as connection:
            # First the watches: they are found by the marks that the second statement removes.
            self._execute(connection, _PURGE_WATCHED, (from_datetime(taken_before),))
            self._execute(connection, _PURGE, (from_datetime(taken_before),))


class SqliteInbox(_SqlInbox[sqlite3.Connection]):
    """Keeps the inbox in an SQLite file, which may be the merchant's own database; threads and
    processes may share it."""

    def __init__(self, path: str | Path) -> None:
        """Create the tables in the file, unless they exist."""
        self._path = path
        with self._transaction() as connection:
            for table in _TABLES:
                connection.execute(table)

    def _connect(self) -> sqlite3.Connection:
        # Without Python's own transactions: `_transaction` begins and ends each.
        return sqlite3.connect(self._path, timeout=WAIT_FOR_LOCK_S, isolation_level=None)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # One for each transaction: a connection of sqlite3 belongs to the thread that has made it.
        with closing(self._connect()) as connection:
            # Locks at once. A transaction that reads first and writes later fails instead of
            # waiting.
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


class PostgresInbox(_SqlInbox["psycopg.Connection[Any]"]):
    """Keeps the inbox in a PostgreSQL database, by connections of psycopg 3.

    `connect` opens one as a context: `lambda: psycopg.connect(address)`, or the method `connection`
    of a pool."""

    def __init__(
        self, connect: Callable[[], AbstractContextManager[psycopg.Connection[Any]]]
    ) -> None:
        """Keep how to connect; `create_tables` is called once, when the program is installed."""
        self._connect = connect

    def create_tables(self) -> None:
        """Create the tables, unless they exist; several programs may do so at the same time."""
        with self._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLES_LOCK,))
            for table in _TABLES:
                connection.execute(table.encode())

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        with self._connect() as connection, connection.transaction():
            yield connection

    def _execute(
        self, connection: psycopg.Connection[Any], statement: str, parameters: Sequence[object] = ()
    ) -> Any:
        return connection.execute(statement.replace("?", "%s").encode(), parameters)


def _now() -> Instant:
    return Instant(int(time.time() * SECOND))


def _optional_time(microseconds: int | None) -> datetime | None:
    if microseconds is None:
        return None
    return to_datetime(Instant(microseconds))


def _optional_instant(time: datetime | None) -> Instant | None:
    if time is None:
        return None
    return from_datetime(time)
