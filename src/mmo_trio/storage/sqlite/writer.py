"""Writes to the SQLite file: one at a time, each a transaction in one hop to the thread that
writes; its caller waits for a limited time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from mmo_sansio.messages.intents import IntentKey
from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import SECOND, Instant, MonotonicInstant, Span, later
from mmo_trio.storage.interface.store import EPOCH_INTERVAL_S, OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.sql.configuration import STORE_STATE_COLUMNS, parse_store_state
from mmo_trio.storage.sqlite.connection import (
    CLOSED_TEXT,
    SqliteCall,
    SqliteSystem,
    must_reconnect_after,
    primary_code,
    raise_translated,
    refuse_closed,
)
from mmo_trio.storage.sqlite.log_origin import NOTE_LOG
from mmo_trio.storage.sqlite.open_files import LogBound, OpenFiles, log_name
from mmo_trio.storage.sqlite.statements import RecentTransactions

T = TypeVar("T")

_RAISE_EPOCH = f"""
    UPDATE store_state SET epoch = epoch + 1, raised_at = ?, {NOTE_LOG}
    RETURNING {STORE_STATE_COLUMNS}
"""
_RAISE_COMMAND_EPOCH = f"""
    UPDATE store_state SET command_epoch = command_epoch + 1, raised_at = ?, {NOTE_LOG}
    RETURNING {STORE_STATE_COLUMNS}
"""
_NOTE_LOG = f"UPDATE store_state SET {NOTE_LOG}"


class SqliteWriter:
    """Owns the one connection that writes."""

    def __init__(
        self,
        system: SqliteSystem,
        path: Path,
        files: OpenFiles,
        connection: sqlite3.Connection,
        timeout_s: float,
        *,
        serves: bool,
        log_bound: LogBound,
    ) -> None:
        self._system = system
        self._path = path
        self._files = files
        self._log_bound = log_bound
        self._is_closed = False

        # None after an error, until the next write opens another.
        self.connection: sqlite3.Connection | None = connection
        self.timeout_s = timeout_s
        self._calls = system.make_writer()
        self.recent = RecentTransactions()

        # Attempts whose caller doesn't know their outcome, and so can't do what they scheduled.
        self.in_doubt: list[WriteAttempt] = []

        # How far the store had come when a commit of this process raised an epoch last; None while
        # none has.
        self.raised_state: StoreState | None = None

        # Whether it may have committed something since.
        self.has_unmarked_commits = False

        # The statement that raises the epoch; None for a command that doesn't count its commits.
        self._raise = _RAISE_EPOCH if serves else None
        self._raise_interval = Span(int(EPOCH_INTERVAL_S * SECOND))

        # When the next commit raises the epoch, by the boot clock.
        self._raise_at = MonotonicInstant(0)

        # The write-ahead log that was noted last; None before the first time.
        self._noted_log: str | None = None

        # Whether the last commit may have raised the epoch, and begun a log that it had not noted.
        self._may_have_raised = True

        # The one that the thread works at.
        self._active: WriteAttempt | None = None

    async def write(self, call: SqliteCall[T], attempt: WriteAttempt | None = None) -> T:
        """Run the call in the thread and commit; after the timeout the thread goes on alone. Raises
        StoreUnavailable when nothing was stored, OutcomeUnknown when nobody can learn that."""
        if self._is_closed:
            await refuse_closed()

        # In doubt until the thread has answered, and only where its commit had begun by then.
        attempt = attempt or WriteAttempt()
        write = partial(self._write, call, attempt)
        in_doubt = True
        with trio.move_on_after(self.timeout_s):
            try:
                result = await self._calls.run(write)
                in_doubt = False
                return result
            except OutcomeUnknown:
                raise
            except Exception:
                in_doubt = False
                raise
            finally:
                # Also when the caller is cancelled. What such an attempt has scheduled is claimed
                # once it has ended, or nobody would do it.
                in_doubt = attempt.abandon() and in_doubt
                if in_doubt:
                    self.in_doubt.append(attempt)

        if in_doubt:
            raise OutcomeUnknown(f"the commit took longer than {self.timeout_s:g} s")

        raise StoreUnavailable(f"the store didn't answer within {self.timeout_s:g} s")

    async def raise_epoch(self) -> None:
        """Raise the epoch in a commit of its own; raises what `write` does."""
        self._raise_at = MonotonicInstant(0)
        await self.write(_touch_state)

    def count_commands(self) -> None:
        """Let each commit raise the command epoch from now on."""
        self._raise, self._raise_interval = _RAISE_COMMAND_EPOCH, Span(0)

    async def wait_for_creations(self, before: Instant) -> None:
        """Return once no write is active that may have dated a payment before this wall time. One
        that begins later dates nothing there once `before` has passed and is marked as served.
        Raises StoreUnavailable."""
        if self._is_closed:
            await refuse_closed()

        # Read without the thread's lock: it is set before the attempt dates anything.
        active = self._active
        if active is None or active.creates_from >= before:
            return

        # The calls run in their order: this one's turn comes when that write has ended.
        with trio.move_on_after(self.timeout_s):
            await self._calls.run(_do_nothing)
            return

        raise StoreUnavailable(f"a commit has been going on for more than {self.timeout_s:g} s")

    def stop_accepting(self) -> None:
        """Let no further write begin, not even one that waits already."""
        self._is_closed = True
        self._calls.drop_waiting()

    async def finish(self, close: Callable[[], None]) -> None:
        """Call `close` in the thread after all writes, then end the thread. A caller that is
        cancelled goes on; what a write that hangs leaves to do is done when it has ended."""
        try:
            await self._calls.run(close)
        finally:
            self._calls.end()

    def close(self) -> None:
        """Close the file. Only to be called while no write is active."""
        if self.connection is not None:
            self.connection.close()

    def _write(self, call: SqliteCall[T], attempt: WriteAttempt) -> T:
        self._active = attempt
        try:
            attempt.require_wanted()
            with self._log_bound.writing():
                return self._write_and_commit(call, attempt)
        except sqlite3.Error as error:
            raise_translated(error)
        finally:
            attempt.has_ended = True
            self._active = None

    def _write_and_commit(self, call: SqliteCall[T], attempt: WriteAttempt) -> T:
        connection = self._require_connection()
        try:
            # IMMEDIATE takes the write lock now: one that began by reading may not get it later.
            connection.execute("BEGIN IMMEDIATE")
            changes = connection.total_changes
            result = call(connection)

            # In the same commit, so that a backup of between two commits has its own epoch.
            raised = None
            has_changed = connection.total_changes > changes
            if has_changed:
                raised = self._raise_epoch(connection)
                self.has_unmarked_commits = self._raise is not None
                self._may_have_raised = True

            # The last moment at which a caller that has given up can prevent it.
            attempt.begin_commit()
            self._commit(connection)
            self._files.verify_committed()
            self._log_bound.note_commit(self._files.log_bytes)
            if raised is not None:
                self.raised_state = raised
                self.has_unmarked_commits = False
            elif has_changed:
                self._may_have_raised = False
        except BaseException as error:
            self._roll_back(connection, error)
            raise

        return result

    def _raise_epoch(self, connection: sqlite3.Connection) -> StoreState | None:
        """Raise the epoch that this process raises, some time after it did last; return how far the
        store has come then, and None when nothing is raised. A log that SQLite has begun anew is
        noted at once."""
        if self._raise is None:
            return None

        clock = self._system.clock
        now = clock.monotonic()
        is_due = now >= self._raise_at
        log = log_name(self._path)
        if not is_due and log == self._noted_log:
            return None

        self._noted_log = log
        named = (log, self._may_have_raised, log)
        if not is_due:
            connection.execute(_NOTE_LOG, named)
            return None

        self._raise_at = later(now, self._raise_interval)
        rows = connection.execute(self._raise, (clock.raw_wall_time(), *named)).fetchall()
        return parse_store_state(rows)

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            # It may be on the disk all the same.
            if primary_code(error) == sqlite3.SQLITE_IOERR:
                raise OutcomeUnknown(f"SQLite: {error}") from error
            raise

    def _roll_back(self, connection: sqlite3.Connection, error: BaseException) -> None:
        """Roll back; a connection that is broken is closed, and the next write opens another."""
        # It may hold what was not committed.
        self.recent.clear()
        self._noted_log = None
        broken = must_reconnect_after(error) or isinstance(error, OutcomeUnknown)
        try:
            connection.rollback()
        except sqlite3.Error:
            broken = True

        if broken:
            self.connection = None
            self._files.forget_log()
            connection.close()

    def _require_connection(self) -> sqlite3.Connection:
        if self._is_closed:
            raise StoreUnavailable(CLOSED_TEXT)
        if not self._files.in_place:
            self._files.verify()
        if self.connection is None:
            self.connection = self._reconnect()

        return self.connection

    def _reconnect(self) -> sqlite3.Connection:
        connection = self._system.connect(self._path)
        try:
            # The first read opens the log.
            connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
            self._files.record()
        except BaseException:
            connection.close()
            raise

        return connection


def _touch_state(connection: sqlite3.Connection) -> None:
    """Change nothing, in a way that counts as a change."""
    connection.execute("UPDATE store_state SET epoch = epoch")


def _do_nothing() -> None:
    """Take the thread's turn."""


class WriteAttempt:
    """Settles which came first: the begin of the thread's commit, or the timeout of its caller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._is_committing = False
        self.has_ended = False

        # Durable intents that it writes if it commits.
        self.scheduled: Sequence[IntentKey] = ()

        # It dates no payment before this wall time; 0 until that is known.
        self.creates_from = Instant(0)

    def require_wanted(self) -> None:
        """Raise StoreUnavailable when the caller has given up."""
        if self._is_abandoned:
            raise StoreUnavailable("the caller has given up")

    def begin_commit(self) -> None:
        """Mark the begin of the commit, in the thread; raises StoreUnavailable when the caller has
        given up."""
        with self._lock:
            self.require_wanted()
            self._is_committing = True

    def abandon(self) -> bool:
        """Mark the end of the caller's wait; return True when it is too late to prevent the
        commit."""
        with self._lock:
            self._is_abandoned = True
            return self._is_committing
