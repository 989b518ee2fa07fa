"""The simulated operator's journal is a file with one line for each entry; `kill -9` loses nothing.

The file belongs to one process at a time. Lines that the operating system has survive the process; a power failure may
lose the last lines, which a sandbox tolerates.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mmo_sansio.providers.sandbox.journal import SandboxJournalEntry, format_entry, parse_entry
from mmo_trio.system.fault_report import DamagedFile

_LINE_FEED = b"\n"


class OperatorJournal:
    """An open journal. Entries that can't be written are written first by the next `append`."""

    def __init__(self, path: Path) -> None:
        """Open or create the file, and cut off an incomplete last line. Raises OSError."""
        self.path = path
        self._unwritten_bytes = b""
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._descriptor, _complete_lines_size(path.read_bytes()))

    def append(self, entries: Iterable[SandboxJournalEntry]) -> None:
        """Write the entries. Raises OSError while they can't be written."""
        self._unwritten_bytes += b"".join(map(format_entry, entries))
        while self._unwritten_bytes:
            self._unwritten_bytes = self._unwritten_bytes[os.write(self._descriptor, self._unwritten_bytes) :]

    def close(self) -> None:
        """Close the file; `append` raises OSError from now on."""
        os.close(self._descriptor)
        self._descriptor = -1  # The number may soon be another file's.


def read_operator_journal(path: Path) -> list[SandboxJournalEntry]:
    """Return every entry of a journal, also while its owner writes; [] when there is no file.

    Raises DamagedFile, naming the line, for a damaged entry; an incomplete last line is no entry yet.
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
            fault = f"{path}, line {number}, is no entry of the simulated operator ({error})"
            raise DamagedFile(f"{fault}: remove the file to begin with an empty one.") from None
    return entries


def _complete_lines_size(content: bytes) -> int:
    return content.rfind(_LINE_FEED) + 1
