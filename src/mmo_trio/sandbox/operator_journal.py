"""The sandbox operator's book as a file: one line for each entry, appended, so that a `kill -9` loses nothing.

The file belongs to one process at a time. What was handed to the operating system survives the process; a machine
that loses its power may lose the last lines, which a sandbox can bear.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mmo_sansio.providers.sandbox.journal import BookEntry, entry_read, entry_written

_LINE_FEED = b"\n"


class Book:
    """An open book. What can't be written is kept and written first the next time."""

    def __init__(self, path: Path) -> None:
        """Open or make the file, and cut off a line that was torn; raises OSError when that can't be."""
        self.path = path
        self._unwritten = b""
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._descriptor, _whole_lines_size(path.read_bytes()))

    def append(self, entries: Iterable[BookEntry]) -> None:
        """Write the entries; raises OSError while they can't be."""
        self._unwritten += b"".join(map(entry_written, entries))
        while self._unwritten:
            self._unwritten = self._unwritten[os.write(self._descriptor, self._unwritten) :]

    def close(self) -> None:
        """Close the file; `append` raises OSError from now on."""
        os.close(self._descriptor)
        self._descriptor = -1  # The number may soon be another file's.


def read_book(path: Path) -> list[BookEntry]:
    """Every entry of a book, also while its owner writes; [] when there is none.

    Raises ValueError, naming the line, for one that is damaged; a last line without its end is not there yet.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    lines = content[: _whole_lines_size(content)].splitlines()
    entries: list[BookEntry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(entry_read(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return entries


def _whole_lines_size(content: bytes) -> int:
    return content.rfind(_LINE_FEED) + 1
