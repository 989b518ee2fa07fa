"""Brings a database to the schema of this version while older versions go on serving it.

The rule is to expand only: a migration adds what an older program doesn't notice, and a later one
removes what no program uses any more. So a program may serve a later schema than its own, unless a
migration says `-- needs: N`: programs that don't know migration N can't serve from then on.

A migration is one transaction, which holds its locks for a moment only. An index of a table that
may be large takes longer, so it has a migration of its own that says `-- concurrently`: its
statements run outside any transaction while others write, and may be repeated after an
interruption. A migration that says `-- alone` moves what earlier programs use: it is refused while
a process serves the database."""

from __future__ import annotations

import re
from collections.abc import Iterator

import trio

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.postgres.ownership import count_serving
from mmo_trio.storage.postgres.partitions import maintain_partitions
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows
from mmo_trio.storage.sql.schema import (
    ReportMigration,
    log_migration,
    migration_scripts,
    report_nothing,
)

_MIGRATION_LOCK = (0x4D4D4F, 2)

# Seconds between two attempts to take the lock.
_LOCK_POLL_INTERVAL_S = 0.1

_CONCURRENTLY = re.compile(r"^-- concurrently$", re.MULTILINE)
_ALONE = re.compile(r"^-- alone$", re.MULTILINE)
_NEEDS = re.compile(r"^-- needs: ([0-9]+)$", re.MULTILINE)

VERSION_TABLE = """
    CREATE TABLE IF NOT EXISTS mmo_schema (
        version integer PRIMARY KEY,
        needs integer NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
"""


def scripts() -> dict[int, str]:
    """Return the migrations by number."""
    return migration_scripts("postgres")


def latest_version() -> int:
    """Return the schema version of this program."""
    return max(scripts())


async def stored_version(connection: PostgresConnection) -> int:
    """Return the schema version of the database; 0 without our tables. Raises StoreUnusable for an
    unknown schema."""
    ((is_there,),) = await fetch_rows(connection, "SELECT to_regclass('mmo_schema') IS NOT NULL")
    if not is_there:
        return 0

    ((version, needs),) = await fetch_rows(
        connection, "SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM mmo_schema"
    )
    if needs > latest_version():
        raise StoreUnusable(
            f"the database has schema {version}, which this version doesn't know: install a later "
            f"mmo-gateway"
        )

    return int(version)


async def migrate(connection: PostgresConnection, report: ReportMigration = report_nothing) -> None:
    """Apply the missing migrations, one after the other; any number of processes may try at once.

    A migration that doesn't get its locks soon yields to the traffic: it fails, nothing of it is
    applied, and the caller raises StoreUnavailable. The lock against other processes belongs to the
    session, so it ends with a killed process."""
    await _acquire_lock(connection)
    try:
        before = await stored_version(connection)
        begin = trio.current_time()
        for number, script in scripts().items():
            # Read before each: one may say that this program can't go on.
            if await stored_version(connection) < number:
                report(number, latest_version())
                await _apply(connection, number, script)

        log_migration(before, latest_version(), trio.current_time() - begin)

        # Where serving processes don't own the tables, nobody else does it.
        await maintain_partitions(connection)
        while await maintain_partitions(connection, of_past=True):
            pass
    finally:
        # A connection in any other state is ended, and its locks with it.
        if connection.is_idle:
            await connection.execute("SELECT pg_advisory_unlock(%s, %s)", _MIGRATION_LOCK)


async def _acquire_lock(connection: PostgresConnection) -> None:
    """Poll for the lock: a statement that waited for it would in turn block the build of an
    index."""
    while True:
        ((is_ours,),) = await fetch_rows(
            connection, "SELECT pg_try_advisory_lock(%s, %s)", *_MIGRATION_LOCK
        )
        if is_ours:
            return

        await trio.sleep(_LOCK_POLL_INTERVAL_S)


async def _apply(connection: PostgresConnection, number: int, script: str) -> None:
    # Outside a transaction nothing is undone: its version is recorded once all of it is done, and
    # until then it is repeated.
    if _CONCURRENTLY.search(script):
        await _execute_script(connection, script)
        await _record_version(connection, number, script)
        return

    # Whoever writes waits behind a migration that waits for its locks, so it gives up soon.
    async with connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = '3s'")
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute(VERSION_TABLE.encode())
        if _ALONE.search(script):
            await _require_alone(connection)

        await _execute_script(connection, script)
        await _record_version(connection, number, script)


async def _execute_script(connection: PostgresConnection, script: str) -> None:
    """Execute a script statement by statement: Citus takes no other command along with one about a
    distributed table."""
    for statement in script_statements(script):
        await connection.execute(statement.encode(), prepare=False)


def script_statements(script: str) -> Iterator[str]:
    """Yield the statements of a migration. One ends with a semicolon at the end of a line, outside
    of `$$`."""
    statement = ""
    for part in script.split(";\n"):
        statement += part

        # An odd number: the end of the line is within the body of a function.
        if statement.count("$$") % 2:
            statement += ";\n"
        else:
            yield statement
            statement = ""


async def _require_alone(connection: PostgresConnection) -> None:
    """Let no process begin to serve until the migration is committed. Raises StoreUnusable while
    one serves."""
    await connection.execute("LOCK TABLE holders IN SHARE MODE")
    serving = await count_serving(connection)
    if serving:
        if serving == 1:
            processes = "1 process serves"
        else:
            processes = f"{serving} processes serve"

        raise StoreUnusable(
            f"{processes} this database with an earlier version, which can't use the tables of "
            f"this one: stop them,"
            " run `mmo db migrate`, and start them with this version"
        )


async def _record_version(connection: PostgresConnection, number: int, script: str) -> None:
    needs = 0
    if found := _NEEDS.search(script):
        needs = int(found[1])

    await connection.execute(
        "INSERT INTO mmo_schema (version, needs) VALUES (%s, %s)", (number, needs)
    )
