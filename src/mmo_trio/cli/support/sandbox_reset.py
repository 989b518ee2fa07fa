"""Removes the data of a sandbox for `mmo sandbox --reset`."""

from __future__ import annotations

from pathlib import Path

from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.settings import Settings
from mmo_trio.settings.service import CLOCK_OFFSET_FILE, sandbox_presets
from mmo_trio.storage.sqlite.files import ServingLock

DATABASE_FILES = ("gateway.db-wal", "gateway.db-shm", "gateway.db")
"""The files of the store, in the order of their removal: the database itself, which carries the lock, comes last."""


def reset_sandbox(directory: Path, settings: Settings) -> None:
    """Remove the payments, brands and keys of the sandbox in this directory, its operator's journal and the offset of
    its clock. Its authority stays, so that certificates stay valid, and so does every other file.

    Raises UsageProblem when the sandbox keeps its payments elsewhere, and StoreUnusable while it runs.
    """
    from mmo_trio.service.wiring.workers import OPERATOR_JOURNAL_FILE  # Slow to import, and only serving needs it.

    if settings.database.url != sandbox_presets(directory)["database.url"]:
        raise UsageProblem("--reset empties only the store that a sandbox makes itself, not that of database.url.")
    database = directory / DATABASE_FILES[-1]
    if database.exists():
        lock = ServingLock(database)
        try:
            for name in DATABASE_FILES:
                (directory / name).unlink(missing_ok=True)
        finally:
            lock.release()
    for name in (OPERATOR_JOURNAL_FILE, CLOCK_OFFSET_FILE):
        (directory / name).unlink(missing_ok=True)
