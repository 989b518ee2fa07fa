"""Makes sure that a database may be served before it is: by one process, under one name, and with
room on its disk.

Two processes that come to one file by different names must find one lock."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable

# A byte of the database file that SQLite never locks; no file is as long.
_LOCKED_BYTE: Final = 1 << 62

# Bytes that the disk must have free: the write-ahead log grows by 8 MB before it is emptied, and
# the database grows when that happens.
FREE_BYTES_MIN: Final = 16 * 1024 * 1024


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
