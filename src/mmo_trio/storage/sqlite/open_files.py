"""Watches the files that SQLite has open: whether they are still where they were, which log it is,
and how long that is.

SQLite keeps what it has open when somebody removes or replaces a file: it would go on to commit
into a file that nobody finds again.

And it begins its log anew only at a moment when nobody reads. While reads overlap without a gap
there is none, and each commit makes the log longer. So once it is long, no further read begins, the
present ones get a short time, and who leaves last, the reader or the writer, empties the log."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from attrs import Factory, define

from mmo_sansio.values.clock import MILLISECOND, SECOND, MonotonicInstant, Span, elapsed, later
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

# The device and inode of a file, which no name changes.
FileIdentity: TypeAlias = tuple[int, int]

_LOG_SUFFIXES: Final = ("-wal", "-shm")

# The salts in the header of the log, which are others whenever it is begun anew
# (https://www.sqlite.org/fileformat.html#the_write_ahead_log).
_SALTS_AT: Final = 16
_SALTS_BYTES: Final = 8

# The length from which the log is emptied: half as long again as it is without long reads. It grows
# a little further while the present reads end.
LOG_BYTES_MAX: Final = 12 * 1024 * 1024

# How long reads may go on once the log is too long.
READS_END_WITHIN: Final = Span(500 * MILLISECOND)

# How long another process may be waited for.
_BUSY_TIMEOUT_MS: Final = 200


def log_name(path: Path) -> str:
    """Return what tells the present log of a database from those before; empty where there is
    none."""
    try:
        log = os.open(log_path(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""

    try:
        return os.pread(log, _SALTS_BYTES, _SALTS_AT).hex()
    finally:
        os.close(log)


def log_path(path: Path) -> str:
    """Return where SQLite keeps the log of a database."""
    return f"{path}-wal"


class OpenFiles:
    """Knows which files SQLite has open, and whether their names still lead to them.

    Only the thread that writes calls `record` and `forget_log`."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._log_paths = [f"{path}{suffix}" for suffix in _LOG_SUFFIXES]
        self._database = _identity(self._path)

        # The write-ahead log and its index; None while SQLite may have closed them.
        self._log: Sequence[FileIdentity | None] | None = None

        # Whether they were in their places when last looked at.
        self.in_place = True

        # The length of the write-ahead log when last looked at.
        self.log_bytes = 0

    def record(self) -> None:
        """Note the log that SQLite has just opened. Raises StoreUnavailable when the files are no
        longer in place."""
        if self._log is None:
            self._log = self._log_identities()

        self.verify()

    def forget_log(self) -> None:
        """Expect another log from the next connection on, as SQLite removes it with its last
        connection."""
        # Where they are not in place, the log that is known is what shows it.
        if self.look():
            self._log = None

    def look(self) -> bool:
        """Return whether each file is in its place."""
        self.in_place = _identity(self._path) == self._database and (
            self._log is None or self._log_identities() == self._log
        )
        return self.in_place

    def verify(self) -> None:
        """Raise StoreUnavailable when a file is not in its place."""
        if not self.look():
            raise StoreUnavailable(self._description)

    def verify_committed(self) -> None:
        """Raise OutcomeUnknown when what was just committed may be in a file that nobody finds
        again."""
        if not self.look():
            raise OutcomeUnknown(self._description)

    def require_in_place(self) -> None:
        """Raise StoreUnavailable when the files were not in place at the last look, without another
        one."""
        if not self.in_place:
            raise StoreUnavailable(self._description)

    def _log_identities(self) -> Sequence[FileIdentity | None]:
        found = [_stat(path) for path in self._log_paths]
        if found[0] is None:
            self.log_bytes = 0
        else:
            self.log_bytes = found[0].st_size

        return [None if status is None else (status.st_dev, status.st_ino) for status in found]

    @property
    def _description(self) -> str:
        return (
            f"{self._path} or its -wal or -shm was removed or replaced while it was served: "
            f"put it back,"
            " or stop the gateway and restore a backup"
        )


def _identity(path: str) -> FileIdentity | None:
    found = _stat(path)
    if found is None:
        return None
    return (found.st_dev, found.st_ino)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


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
