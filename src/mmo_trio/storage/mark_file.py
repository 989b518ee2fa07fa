"""Keeps how far a store had come in a file outside of it, where no restore of the store reaches it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from attrs import asdict

from mmo_sansio.resilience.store_mark import StoreMark
from mmo_trio.system.fault_report import DamagedFile


def read_mark(file: Path) -> StoreMark | None:
    """Return the mark; None where there is no file. Raises DamagedFile, and OSError when it can't be read."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return StoreMark(**json.loads(text))
    except (ValueError, TypeError):
        remedy = "was the store restored, run `mmo db restored`; otherwise remove the file."
        raise DamagedFile(f"{file} is not what the gateway wrote: {remedy}") from None


def write_mark(file: Path, mark: StoreMark, *, replaces: bool = False) -> None:
    """Write the mark durably, as a whole or not at all. Several processes may write one file: it never goes back to an
    earlier epoch of the same store, unless it `replaces` what is there. Raises OSError and DamagedFile."""
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = None if replaces else read_mark(file)
        if known is not None and known.store_id == mark.store_id and known.epoch >= mark.epoch:
            return
        draft = file.with_name(f".{file.name}.part")
        with draft.open("w", encoding="utf-8") as to:
            json.dump(asdict(mark), to)
            to.flush()
            os.fsync(to.fileno())
        draft.replace(file)
        os.fsync(folder)
    finally:
        os.close(folder)
