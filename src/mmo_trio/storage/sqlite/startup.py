"""Opens the SQLite file: takes the lock of the serving process, and migrates the schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.sql.schema import ReportMigration, report_nothing
from mmo_trio.storage.sqlite.connection import translate_errors
from mmo_trio.storage.sqlite.files import OpenFiles, ServingLock, create_file, real_path, require_one_name
from mmo_trio.storage.sqlite.migrations import migrate, scripts, stored_version
from mmo_trio.storage.sqlite.store import STORE_TIMEOUT_S, SqliteStore
from mmo_trio.storage.sqlite.system import SqliteSystem


@asynccontextmanager
async def open_sqlite(
    path: str | Path,
    *,
    serving: bool,
    timeout_s: float = STORE_TIMEOUT_S,
    report_migration: ReportMigration = report_nothing,
    system: SqliteSystem | None = None,
) -> AsyncIterator[SqliteStore]:
    """Open the file, and make it when it isn't there.

    The one serving process migrates the schema and claims what its predecessor left. `report_migration` is called in
    another thread. A command may open the file at the same time: the serving process claims the durable intents that it
    writes. `system` is the machine's; a test gives another. Raises StoreUnusable when another process serves the file,
    its schema isn't ours or it has several names, StoreUnavailable when it can't be opened.
    """
    system = system or SqliteSystem()
    opening = partial(_open_in_thread, system, Path(path), serving, timeout_s, report_migration)
    with trio.CancelScope(shield=True):  # Whoever gave up would leave the file locked.
        store = await system.make_readers().run(opening)
    try:
        yield store
    finally:
        with trio.CancelScope(shield=True):
            await store.aclose()


def _open_in_thread(
    system: SqliteSystem, path: Path, serving: bool, timeout_s: float, report: ReportMigration
) -> SqliteStore:
    path = real_path(path)
    with translate_errors(), ExitStack() as undo:
        create_file(path)
        lock = None
        if serving:
            lock = ServingLock(path)
            undo.callback(lock.release)
        require_one_name(path)
        files = OpenFiles(path)
        writer = system.connect(path)
        undo.callback(writer.close)
        version = stored_version(writer)
        if not serving and 0 < version < max(scripts()):
            raise StoreUnusable(f"{path} has schema {version}: bring it up to date with `mmo db migrate`")
        if writer.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise StoreUnusable(f"{path} can't have a write-ahead log: put it on a local disk")
        migrate(writer, report)
        if serving:  # What a dead process had claimed is free.
            writer.execute("UPDATE intents SET is_held = 0 WHERE is_held = 1")
        files.record()
        undo.pop_all()
    return SqliteStore(system, path, writer, files, lock, timeout_s)
