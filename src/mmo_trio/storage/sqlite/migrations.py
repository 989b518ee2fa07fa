"""Brings a database file to the schema of this version; the file itself holds its version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.sql.schema import ReportMigration, migration_scripts, report_nothing

SQLITE_VERSION_MIN = (3, 38, 0)
"""STRICT tables came with 3.37, the operator `->>` with 3.38."""

APPLICATION_ID = 0x4D4D4F47
"""`MMOG` in the file's header: databases of other programs are not touched."""


def scripts() -> dict[int, str]:
    """Return the migrations by number."""
    return migration_scripts("sqlite")


def stored_version(connection: sqlite3.Connection) -> int:
    """Return the schema version of the file; 0 for an empty one. Raises StoreUnusable when it isn't ours to use."""
    if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
        needed = ".".join(map(str, SQLITE_VERSION_MIN))
        raise StoreUnusable(f"this Python has SQLite {sqlite3.sqlite_version}; {needed} or later is needed")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and tables:
        raise StoreUnusable("the file is a database of another program: name another file")
    if version > max(scripts()):
        raise StoreUnusable(
            f"the database has schema {version}, which this version doesn't know: install a later mmo-gateway"
        )
    return version


def migrate(connection: sqlite3.Connection, report: ReportMigration = report_nothing) -> None:
    """Apply the missing migrations, each in a transaction of its own; two processes may try at once. Where none is
    missing it does not wait for whoever writes."""
    if stored_version(connection) == max(scripts()):
        return
    for number, script in scripts().items():
        connection.execute("BEGIN IMMEDIATE")
        try:
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


def _split_statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
