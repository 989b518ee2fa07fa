"""Keeps SQLite's write-ahead log below a bound.

SQLite begins its log anew only at a moment when nobody reads. While reads overlap without a gap
there is none, and each commit makes the log longer. So once it is long, no further read begins, the
present ones get a short time, and who leaves last, the reader or the writer, empties the log."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from attrs import Factory, define

from mmo_sansio.values.clock import MILLISECOND, SECOND, MonotonicInstant, Span, elapsed, later
from mmo_trio.storage.interface.store import StoreUnavailable

# The length from which the log is emptied: half as long again as it is without long reads. It grows
# a little further while the present reads end.
LOG_BYTES_MAX: Final = 12 * 1024 * 1024

# How long reads may go on once the log is too long.
READS_END_WITHIN: Final = Span(500 * MILLISECOND)

# How long another process may be waited for.
_BUSY_TIMEOUT_MS: Final = 200


@define(eq=False)
class ActiveRead:
    """A read that holds its snapshot of the database."""

    ends_at: MonotonicInstant
    """When it is broken off, as time since the machine started."""


@define(eq=False)
class LogBound:
    """Knows the active reads and the active write of one process, and lets no further one begin
    while the log is emptied. Reads of other processes hold it up only until the log has grown by as
    much again."""

    since_boot: Callable[[], MonotonicInstant]
    """Returns the time since the machine started."""
    connect: Callable[[], sqlite3.Connection]
    """Opens a connection to the file."""
    log_bytes: int = 0
    """The length of the log after the last commit."""
    _reads: set[ActiveRead] = Factory(set)
    _is_written: bool = False
    """Whether the one write of the process is active."""
    _is_emptied_at: int = LOG_BYTES_MAX
    """The length at which it is to be emptied next."""
    _is_closed: bool = False
    """Whether no further read may begin."""
    _is_emptying: bool = False
    """Whether the log is being emptied, and no write may begin either."""
    _changed: threading.Condition = Factory(threading.Condition)

    @contextmanager
    def reading(self, deadline: MonotonicInstant) -> Iterator[ActiveRead]:
        """Let a read begin and end within the block; it may be told to end earlier. Raises
        StoreUnavailable when it can't begin before its deadline."""
        read = ActiveRead(deadline)
        with self._changed:
            while self._is_closed:
                left_s = elapsed(self.since_boot(), deadline) / SECOND
                if left_s <= 0 or not self._changed.wait(left_s):
                    raise StoreUnavailable("SQLite: the log is being emptied")

            self._reads.add(read)

        try:
            yield read
        finally:
            with self._changed:
                self._reads.remove(read)

            self._empty_if_last()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let the one write begin and end within the block, in the thread that writes."""
        with self._changed:
            while self._is_emptying:
                self._changed.wait()

            self._is_written = True

        try:
            yield
        finally:
            with self._changed:
                self._is_written = False

            self._empty_if_last()

    def note_commit(self, log_bytes: int) -> None:
        """Note how long the log is after a commit; called within the write. A long one is emptied
        once nobody reads."""
        self.log_bytes = log_bytes
        if log_bytes < LOG_BYTES_MAX:
            self._is_emptied_at = LOG_BYTES_MAX
        elif log_bytes >= self._is_emptied_at and not self._is_closed:
            # If a read of another process prevents it, this one stays open until as much is added.
            self._is_emptied_at = log_bytes + LOG_BYTES_MAX
            self._close()

    def _close(self) -> None:
        """Let no further read begin, and tell the present ones to end."""
        with self._changed:
            self._is_closed = True
            ends_at = later(self.since_boot(), READS_END_WITHIN)
            for read in self._reads:
                read.ends_at = min(read.ends_at, ends_at)

    def _empty_if_last(self) -> None:
        """Empty the log if it has to be, and nobody else of this process uses it; then let reads
        and writes begin. The thread that writes would take the log again at once, and a checkpoint
        that only waits for it might wait for ever: so one of the two stands aside."""
        with self._changed:
            is_used = self._is_written or bool(self._reads)
            if not self._is_closed or is_used or self._is_emptying:
                return

            self._is_emptying = True

        try:
            # What is wrong with the file, the next commit says.
            with suppress(sqlite3.Error):
                self._empty()
        finally:
            with self._changed:
                self._is_emptying = False
                self._is_closed = False
                self._changed.notify_all()

    def _empty(self) -> None:
        """Move the log into the file and cut it off, unless another process reads."""
        connection = self.connect()
        try:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()
