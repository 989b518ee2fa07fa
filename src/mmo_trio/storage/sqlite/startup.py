"""Opens the SQLite file: takes the lock of the serving process, and migrates the schema."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.sql.schema import (
    ReportMigration,
    log_migration,
    migration_scripts,
    report_nothing,
)
from mmo_trio.storage.sqlite.connection import SqliteSystem, translate_errors
from mmo_trio.storage.sqlite.files import (
    ServingLock,
    create_file,
    real_path,
    require_one_name,
)
from mmo_trio.storage.sqlite.log_origin import require_own_log
from mmo_trio.storage.sqlite.open_files import OpenFiles
from mmo_trio.storage.sqlite.store import STORE_TIMEOUT_S, SqliteStore

# STRICT tables came with 3.37, the operator `->>` with 3.38.
SQLITE_VERSION_MIN = (3, 38, 0)

# `MMOG` in the file's header: databases of other programs are not touched.
APPLICATION_ID = 0x4D4D4F47


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

    The one serving process migrates the schema and claims what its predecessor left.
    `report_migration` is called in another thread. A command may open the file at the same time:
    the serving process claims the durable intents that it writes. `system` is the machine's; a test
    gives another. Raises StoreUnusable when another process serves the file, its schema isn't ours
    or it has several names, StoreUnavailable when it can't be opened."""
    system = system or SqliteSystem()
    opening = partial(_open_in_thread, system, Path(path), serving, timeout_s, report_migration)
    opener = system.make_readers()
    try:
        # Whoever gave up would leave the file locked.
        with trio.CancelScope(shield=True):
            store = await opener.run(opening)
    finally:
        opener.end()

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

        # 1. The lock, before anything is read: another process may be writing.
        lock = None
        if serving:
            lock = ServingLock(path)
            undo.callback(lock.release)

        # 2. The file, of which this is the only name, with its own log, and how it lies now.
        require_one_name(path)
        require_own_log(path)
        files = OpenFiles(path)
        writer = system.connect(path)
        undo.callback(writer.close)

        # 3. The schema. A command leaves an older one to whoever decides to migrate it.
        version = stored_version(writer)
        if not serving and 0 < version < max(scripts()):
            raise StoreUnusable(
                f"{path} has schema {version}: bring it up to date with `mmo db migrate`"
            )

        if writer.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise StoreUnusable(f"{path} can't have a write-ahead log: put it on a local disk")

        migrate(writer, report)

        # 4. What a dead process had claimed is free.
        if serving:
            writer.execute("UPDATE intents SET is_held = 0 WHERE is_held = 1")

        files.record()
        undo.pop_all()

    return SqliteStore(system, path, writer, files, lock, timeout_s)


def scripts() -> dict[int, str]:
    """Return the migrations by number."""
    return migration_scripts("sqlite")


def stored_version(connection: sqlite3.Connection) -> int:
    """Return the schema version of the file; 0 for an empty one. Raises StoreUnusable when it isn't
    ours to use."""
    if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
        needed = ".".join(map(str, SQLITE_VERSION_MIN))
        raise StoreUnusable(
            f"this Python has SQLite {sqlite3.sqlite_version}; {needed} or later is needed"
        )

    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and tables:
        raise StoreUnusable("the file is a database of another program: name another file")

    if version > max(scripts()):
        raise StoreUnusable(
            f"the database has schema {version}, which this version doesn't know: install a later "
            f"mmo-gateway"
        )

    return version


def migrate(connection: sqlite3.Connection, report: ReportMigration = report_nothing) -> None:
    """Apply the missing migrations, each in a transaction of its own; two processes may try at
    once. Where none is missing it does not wait for whoever writes."""
    before = stored_version(connection)
    begin = time.monotonic()
    if before == max(scripts()):
        return

    for number, script in scripts().items():
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read again within the transaction: another process may have been quicker.
            if stored_version(connection) < number:
                report(number, max(scripts()))
                for statement in _split_statements(script):
                    connection.execute(statement)

                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {number}")

            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    log_migration(before, max(scripts()), time.monotonic() - begin)


def _split_statements(script: str) -> Iterator[str]:
    # Not `executescript`, which commits first: a migration is one transaction.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
