"""The sandbox operator's book as a file: one line for each entry, appended, so that a `kill -9` loses nothing.

The file belongs to one process at a time. What was handed to the operating system survives the process; a machine
that loses its power may lose the last lines, which a sandbox can bear.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mmo_sansio.providers.sandbox.journal import SandboxJournalEntry, format_entry, parse_entry

_LINE_FEED = b"\n"


class OperatorJournal:
    """An open book. What can't be written is kept and written first the next time."""

    def __init__(self, path: Path) -> None:
        """Open or make the file, and cut off a line that was torn; raises OSError when that can't be."""
        self.path = path
        self._unwritten_bytes = b""
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._descriptor, _complete_lines_size(path.read_bytes()))

    def append(self, entries: Iterable[SandboxJournalEntry]) -> None:
        """Write the entries; raises OSError while they can't be."""
        self._unwritten_bytes += b"".join(map(format_entry, entries))
        while self._unwritten_bytes:
            self._unwritten_bytes = self._unwritten_bytes[
                os.write(self._descriptor, self._unwritten_bytes) :
            ]

    def close(self) -> None:
        """Close the file; `append` raises OSError from now on."""
        os.close(self._descriptor)
        self._descriptor = -1  # The number may soon be another file's.


def read_operator_journal(path: Path) -> list[SandboxJournalEntry]:
    """Every entry of a book, also while its owner writes; [] when there is none.

    Raises ValueError, naming the line, for one that is damaged; a last line without its end is not there yet.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    lines = content[: _complete_lines_size(content)].splitlines()
    entries: list[SandboxJournalEntry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(parse_entry(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return entries


def _complete_lines_size(content: bytes) -> int:
    return content.rfind(_LINE_FEED) + 1
