"""Defines the directory of the archive: it holds numbered parts, each complete or absent.

A part is a directory of compressed CSV files and a manifest with their SHA-256. Each manifest names the SHA-256 of the
manifest before it, so that no part can be changed, removed or put elsewhere unnoticed: the digest of the last one
stands for all. A part is written under another name, synced to the disk, read back, and then gets its name in one step.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from mmo_sansio.values.clock import SECOND, Instant, format_with_microseconds
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.archive.rows import ArchiveRows, PartContent, decode_rows
from mmo_trio.storage.interface.admin_types import AuditRow
from mmo_trio.storage.interface.retention import EMPTY_ARCHIVE, ArchiveHead

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
_COMPRESSION_LEVEL: Final = 6
"""Of zlib; 9 takes four times as long and saves a fiftieth, 3 a third of the time for a tenth more."""
_PART: Final = re.compile(r"part-([0-9]{9,})")


class ArchiveUnusable(Exception):
    """The archive can't be used as it is; the message says why. Nothing was removed from the store."""


@frozen
class ArchivePart:
    """Describes a part of the archive by its manifest."""

    head: ArchiveHead
    """Its number, and the digest of its manifest."""
    previous: ArchiveHead
    manifest: Mapping[str, Any]

    @property
    def day(self) -> str:
        """Return the day (UTC) of its oldest row."""
        return str(self.manifest["day"])

    def may_hold(self, gateway_reference: str) -> bool:
        """Tell whether a payment with this reference would be in this part: references grow with time."""
        named = self.manifest["payments"]
        return bool(named["count"]) and named["first"] <= gateway_reference <= named["last"]


@frozen
class ArchiveDirectory:
    """Writes and reads the parts of one archive."""

    path: Path

    def prepare(self) -> None:
        """Make the directory if it is missing, and remove what an interrupted process has left there. Only to be called
        by the one process that writes. Raises ArchiveUnusable."""
        with _reporting(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for each in self.path.glob(".part-*.tmp"):
                shutil.rmtree(each, ignore_errors=True)

    def numbers(self) -> Sequence[int]:
        """Return the numbers of the parts that are there, ascending. Raises ArchiveUnusable."""
        with _reporting(self.path):
            names = os.listdir(self.path) if self.path.is_dir() else ()
        return sorted(int(found[1]) for name in names if (found := _PART.fullmatch(name)))

    def head(self) -> ArchiveHead:
        """Return the last part. Raises ArchiveUnusable."""
        numbers = self.numbers()
        return self.part(numbers[-1]).head if numbers else EMPTY_ARCHIVE

    def part(self, number: int) -> ArchivePart:
        """Return a part as its manifest says, without a look at its files. Raises ArchiveUnusable."""
        file = self._part_path(number) / MANIFEST
        with _reporting(file):
            content = file.read_bytes()
            manifest = json.loads(content)
            if manifest["format"] != FORMAT or manifest["part"] != number:
                raise ArchiveUnusable(f"{file} is not the manifest of part {number}, or of a later version.")
            previous = ArchiveHead(number - 1, manifest["previous"])
        return ArchivePart(ArchiveHead(number, sha256(content).hexdigest()), previous, manifest)

    def read(self, part: ArchivePart) -> ArchiveRows:
        """Return the rows of a part, once its files are what its manifest says. Raises ArchiveUnusable."""
        rows = ArchiveRows()
        for kind, content in _verified_files(self._part_path(part.head.number), part.manifest):
            for row in decode_rows(kind, content):
                rows.add(kind, row)
        return rows

    def transactions(self, *, begin: Instant, end: Instant) -> Iterator[Transaction]:
        """Yield the archived payments that were created in this time, part by part; a payment may come twice. Every
        part that begins before the end is read. Raises ArchiveUnusable."""
        for number in self.numbers():
            part = self.part(number)
            if part.manifest["payments"]["count"] and part.day <= _day(end):
                yield from (each for each in self.read(part).transactions if begin <= each.order.created_at < end)

    def audit_rows(self) -> Iterator[Sequence[AuditRow]]:
        """Yield the archived rows of the audit log in order, some at a time. Raises ArchiveUnusable."""
        for number in self.numbers():
            part = self.part(number)
            if part.manifest["auditRows"]["first"] is not None:
                yield self.read(part).audit

    def verify(self, part: ArchivePart, previous: ArchiveHead) -> None:
        """Check that a part is whole and follows the one before it. Raises ArchiveUnusable."""
        number = part.head.number
        if part.previous != previous:
            raise ArchiveUnusable(f"Part {number} doesn't follow part {previous.number}: one of them was changed.")
        for _ in _verified_files(self._part_path(number), part.manifest):
            pass

    def write(self, content: PartContent, previous: ArchiveHead, *, day: Instant, now: Instant) -> ArchivePart:
        """Write the next part, so that it is on the disk and read back before it has its name.

        Raises ArchiveUnusable, and leaves nothing then.
        """
        number = previous.number + 1
        final = self._part_path(number)
        unfinished = self.path / f".part-{number:09d}-{secrets.token_hex(4)}.tmp"
        with _reporting(final):
            try:
                unfinished.mkdir(mode=0o700)
                encoded = dict(content.files())
                files = [
                    _write_file(unfinished, f"{kind}.csv.gz", gzip.compress(each, _COMPRESSION_LEVEL, mtime=0))
                    for kind, each in encoded.items()
                ]
                manifest = {
                    "format": FORMAT,
                    "part": number,
                    "previous": previous.digest,
                    "day": _day(day),
                    "writtenAt": format_with_microseconds(now),
                    "payments": {
                        "count": len(content.references),
                        "first": min(content.references, default=None),
                        "last": max(content.references, default=None),
                    },
                    "auditRows": {
                        "first": min(content.audit_numbers, default=None),
                        "last": max(content.audit_numbers, default=None),
                    },
                    "files": files,
                }
                _write_file(unfinished, MANIFEST, json.dumps(manifest, indent=1).encode())
                _sync_directory(unfinished)
                if dict(_verified_files(unfinished, manifest)) != encoded:
                    raise ArchiveUnusable(f"{unfinished} does not hold what was written to it.")
                os.rename(unfinished, final)  # Fails where a part of this name is there already.
                _sync_directory(self.path)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
        return self.part(number)

    def _part_path(self, number: int) -> Path:
        return self.path / f"part-{number:09d}"


def _write_file(directory: Path, name: str, content: bytes) -> Mapping[str, object]:
    """Write a file that only the gateway's user may read, and return its entry of the manifest."""
    descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"name": name, "sha256": sha256(content).hexdigest(), "bytes": len(content)}


def _verified_files(directory: Path, manifest: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the kind and the content of each file that the manifest names. Raises ArchiveUnusable."""
    for entry in manifest["files"]:
        file = directory / entry["name"]
        with _reporting(file):
            compressed = file.read_bytes()
            if sha256(compressed).hexdigest() != entry["sha256"]:
                raise ArchiveUnusable(f"{file} is not what its manifest says: it was changed or damaged.")
            content = gzip.decompress(compressed)
        yield entry["name"].removesuffix(".csv.gz"), content


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """Raise what a file system or a damaged file causes as ArchiveUnusable."""
    try:
        yield
    except OSError as error:
        raise ArchiveUnusable(f"{path}: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise ArchiveUnusable(f"{path} is damaged: {error}.") from error


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _day(at: Instant) -> str:
    return datetime.fromtimestamp(at // SECOND, UTC).date().isoformat()
