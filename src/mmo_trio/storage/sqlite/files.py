"""Watches the files of a served database: which process may serve them, and whether they are still
where they were.

SQLite keeps what it has open when somebody removes or replaces a file: it would go on to commit
into a file that nobody finds again. And two processes that come to one file by different names must
find one lock."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, StoreUnusable

# The device and inode of a file, which no name changes.
FileIdentity: TypeAlias = tuple[int, int]

# A byte of the database file that SQLite never locks; no file is as long.
_LOCKED_BYTE: Final = 1 << 62

# Bytes that the disk must have free: the write-ahead log grows by 8 MB before it is emptied, and
# the database grows when that happens.
FREE_BYTES_MIN: Final = 16 * 1024 * 1024

_LOG_SUFFIXES: Final = ("-wal", "-shm")


def real_path(path: Path) -> Path:
    """Return the file's own path, whichever links lead to it."""
    return Path(os.path.realpath(path))


def create_file(path: Path) -> None:
    """Make an empty file for its owner only, unless there is one. Raises StoreUnavailable.

    An existing file is not opened: closing it would end the locks that SQLite holds on it in this
    process."""
    # For the owner only from its first moment: personal data is in it.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreUnavailable(f"{path} can't be opened: {error.strerror}") from error


class ServingLock:
    """Is held as long as this process serves the file; the system releases it with the process.

    The lock is on the database file itself, so it is found by every name of the file.
    `<database>.lock` is locked as well, for systems that have no locks of an open file (OFD)."""

    def __init__(self, path: Path) -> None:
        """Raises StoreUnusable when another process serves the file, StoreUnavailable when it can't
        be opened."""
        self._descriptors: list[int] = []
        try:
            self._lock_companion(path)
            self._lock_itself(path)
        except BlockingIOError as error:
            self.release()
            raise StoreUnusable(
                f"another process serves {path}: stop it first, or give this one a database of its"
                " own (several processes on one database need PostgreSQL)"
            ) from error
        except OSError as error:
            self.release()
            raise StoreUnavailable(f"{path} can't be locked: {error}") from error

    def _lock_companion(self, path: Path) -> None:
        descriptor = self._open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_itself(self, path: Path) -> None:
        # A lock of the open file, not of the process: SQLite's own closing of the file in this
        # process does not end it.
        if hasattr(fcntl, "F_OFD_SETLK"):
            wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_BYTE, 1, 0)
            fcntl.fcntl(self._open(path, os.O_RDWR), fcntl.F_OFD_SETLK, wanted)

    def _open(self, path: Path, flags: int) -> int:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._descriptors.append(descriptor)
        return descriptor

    def release(self) -> None:
        """Let other processes serve the file. Only to be called once SQLite has closed it."""
        while self._descriptors:
            os.close(self._descriptors.pop())


class ServingProbe:
    """Tells a command whether another process serves the file, without taking the lock itself."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def is_served(self) -> bool:
        """Return whether a process serves the file; True where the system can't tell."""
        if not hasattr(fcntl, "F_OFD_GETLK"):
            return True
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

        # The system answers with the lock that is in the way.
        wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_BYTE, 1, 0)
        found = fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, wanted)
        return bool(struct.unpack("hhqqi", found)[0] != fcntl.F_UNLCK)

    def release(self) -> None:
        """Close the file. Only to be called once SQLite has closed it: it would lose its locks."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def require_one_name(path: Path) -> None:
    """Raise StoreUnusable for a file with several names: under each, SQLite would keep another
    write-ahead log."""
    if path.stat().st_nlink > 1:
        raise StoreUnusable(
            f"{path} has several names (hard links), and would have another log under each: "
            f"remove all but one of them"
        )


def require_space(path: Path) -> None:
    """Raise StoreUnavailable when the disk is nearly full. Does not see a limit of the user or
    process."""
    # Some blocks are kept for root, who may use them.
    found = os.statvfs(path)
    if os.geteuid() == 0:
        free_blocks = found.f_bfree
    else:
        free_blocks = found.f_bavail

    # Some file systems, such as those in memory, know no blocks at all.
    free_bytes = free_blocks * found.f_frsize
    if found.f_blocks and free_bytes < FREE_BYTES_MIN:
        raise StoreUnavailable(
            f"the disk of {path} has only {free_bytes} bytes free; at least {FREE_BYTES_MIN} "
            f"are needed"
        )


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
