"""Keeps, in a file beside the store, the hints of operators that send each notification once, until
the store has them: a process that stops or dies while the store is away loses none.

The file has one hint a line. It is removed once the store has all of them; a hint that is recorded
again only asks again."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import ProviderHinted
from mmo_sansio.values.model import Evidence
from mmo_sansio.values.money import Money
from mmo_trio.storage.open_store import is_shared_store, sqlite_file

logger = structlog.get_logger(__name__)

# Hints have names and numbers of payers.
FILE_MODE: Final = 0o600

# Lines after which the file is written anew, with what the store lacks still.
LINES_MAX: Final = 2_000

# The longest line: those of operators have some kilobytes.
LINE_BYTES_MAX: Final = 65_536

RunCall = Callable[[Callable[[], None]], Awaitable[None]]


async def _run_in_thread(call: Callable[[], None]) -> None:
    await trio.to_thread.run_sync(call)


@define(eq=False)
class HintFile:
    """Holds the hints that the store does not have yet. One process uses it at a time: the one that
    serves the store."""

    path: Path
    run_call: RunCall = _run_in_thread
    """Makes a call that waits for the disk."""
    _open: dict[int, bytes] = Factory(dict)
    """The lines of the hints that the store lacks, by their numbers."""
    _is_read: bool = False
    """Whether all of the file is known; before, none of it is removed."""
    _lines: int = 0
    _last_number: int = 0
    _lock: trio.Lock = Factory(trio.Lock)

    async def load(self) -> Sequence[tuple[int, ProviderHinted]]:
        """Return what an earlier process has left, with the numbers to conclude them by. A line
        that was written in part is left out: its operator had no answer. Raises OSError."""
        lines: list[bytes] = []

        def read() -> None:
            try:
                lines.extend(filter(None, self.path.read_bytes().splitlines()))
            except FileNotFoundError:
                return

        async with self._lock:
            await self.run_call(read)
            found: list[tuple[int, ProviderHinted]] = []
            for line in lines:
                # Half a line of a killed process holds up none of the others.
                try:
                    hint = parse_hint(line)
                except (ValueError, TypeError, KeyError):
                    logger.warning("kept_hint_unreadable", file=str(self.path))
                    continue

                found.append((self._add(line), hint))

            self._is_read = True
            return found

    async def append(self, hint: ProviderHinted) -> int:
        """Write a hint durably, and return its number. Raises OSError, and ValueError for one that
        is too long."""
        line = format_hint(hint)
        if len(line) > LINE_BYTES_MAX:
            raise ValueError("the hint is too long")

        # Durable before its operator has an answer: it sends each notification once.
        async with self._lock:
            if self._lines >= LINES_MAX and self._is_read:
                await self.run_call(lambda: self._write(b"".join(self._open_lines()), anew=True))
                self._lines = len(self._open)

            await self.run_call(lambda: self._write(_as_line(line), anew=False))
            return self._add(line)

    async def conclude(self, number: int) -> None:
        """Note that the store has a hint; the file goes with the last one, unless it could not be
        read: an earlier process may have left others. Raises OSError."""
        async with self._lock:
            self._open.pop(number, None)
            if self._is_read and not self._open:
                self._lines = 0
                await self.run_call(lambda: self.path.unlink(missing_ok=True))

    def _add(self, line: bytes) -> int:
        self._last_number += 1
        self._lines += 1
        self._open[self._last_number] = line
        return self._last_number

    def _open_lines(self) -> Sequence[bytes]:
        return [_as_line(line) for line in self._open.values()]

    def _write(self, content: bytes, *, anew: bool) -> None:
        """Add the content to the file durably, or put it in the place of what is there."""
        # Anew in another file, which takes the place of this one once it is whole.
        path = self.path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        if anew:
            path = self.path.with_name(f".{self.path.name}.part")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

        is_new = not path.exists()
        descriptor = os.open(path, flags, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, FILE_MODE)
            file.write(content)
            file.flush()
            os.fsync(descriptor)

        if anew:
            path.replace(self.path)

        # A new name is durable only with its folder.
        if anew or is_new:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _as_line(line: bytes) -> bytes:
    """Return the line with an end on both sides: the one before may have been written in part."""
    return b"\n" + line + b"\n"


def format_hint(hint: ProviderHinted) -> bytes:
    """Return the line of a hint."""
    evidence = hint.evidence

    # ASCII without line breaks, whatever the operator wrote: one line is one hint.
    row: dict[str, Any] = {
        "reference": hint.gateway_reference,
        "provider": hint.provider,
        "content": hint.content,
        "nativeCode": hint.native_code,
        "version": hint.version,
        "saysPaid": hint.says_paid,
        "evidence": None,
    }
    if evidence is not None:
        amount = None
        if evidence.amount is not None:
            amount = [evidence.amount.minor, evidence.amount.currency]

        row["evidence"] = {
            "receipt": evidence.receipt,
            "code": evidence.code,
            "amount": amount,
            "settles": evidence.settles,
        }

    return json.dumps(row).encode("ascii")


def parse_hint(line: bytes) -> ProviderHinted:
    """Return the hint of a line. Raises ValueError, TypeError and KeyError."""
    row = json.loads(line)
    known = row["evidence"]
    evidence = None
    if known is not None:
        amount = None
        if known["amount"] is not None:
            amount = Money(*known["amount"])

        evidence = Evidence(known["receipt"], known["code"], amount, settles=known["settles"])

    return ProviderHinted(
        row["reference"],
        row["provider"],
        row["content"],
        native_code=row["nativeCode"],
        evidence=evidence,
        version=row["version"],
        says_paid=row["saysPaid"],
    )


def hint_file_of(database_url: str, data_directory: Path | None) -> Path | None:
    """Return where hints are kept: beside a database that is a file, or in the data directory; None
    where there is neither."""
    if not is_shared_store(database_url):
        database = sqlite_file(database_url)
        return database.with_name(f"{database.name}.hints")
    if data_directory is None:
        return None
    return data_directory / "gateway.hints"
