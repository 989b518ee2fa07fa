"""Checks at the start whether the server, its database and the role are what the gateway needs, in
a few round trips.

What a session can set for itself is no question here; see `connections`. What is wrong and can't be
set is refused with a sentence that says what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

import psycopg
import structlog
from psycopg import sql

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.postgres.connections import (
    READER_CONNECTIONS,
    STARTUP_SETUP,
    WRITER_CONNECTIONS,
)
from mmo_trio.storage.postgres.migrations import scripts
from mmo_trio.storage.postgres.primary import PrimaryFinder
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows

logger = structlog.get_logger(__name__)

# The oldest version with pipelines of prepared statements and all that the schema uses.
POSTGRES_VERSION_MIN = 140_000

# One to write and one to read; with fewer than there may be, requests wait for each other.
_CONNECTIONS_MIN = 2

# Looks at each connection's session: while other processes start behind the same pooler, a few may
# miss a change.
_POOLING_ROUNDS = 20

_SELECT_FACTS = """
    SELECT pg_backend_pid(), current_setting('server_encoding'),
        current_setting('transaction_read_only') = 'on',
        current_user::text, coalesce(
            (SELECT nspname::text FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
                WHERE pg_class.oid = to_regclass('mmo_schema')),
            current_schema()::text)
"""
_SELECT_CONNECTION_LIMIT = """
    SELECT least(
        current_setting('max_connections')::integer
            - current_setting('superuser_reserved_connections')::integer
            - coalesce(current_setting('reserved_connections', true)::integer, 0),
        (SELECT CASE WHEN rolconnlimit < 0 OR rolsuper THEN NULL ELSE rolconnlimit END
            FROM pg_roles WHERE rolname = current_user),
        (SELECT CASE WHEN datconnlimit < 0 THEN NULL ELSE datconnlimit END
            FROM pg_database WHERE datname = current_database()))
"""
_SELECT_MISSING_RIGHTS = """
    SELECT name, array_agg(privilege ORDER BY privilege) FROM unnest(%s::text[], %s::text[])
        AS wanted (name, privilege)
    WHERE NOT has_table_privilege(to_regclass(name), privilege) GROUP BY name ORDER BY name
"""
_SELECT_MISSING_SEQUENCES = """
    SELECT c.relname::text FROM pg_sequence AS s JOIN pg_class AS c ON c.oid = s.seqrelid
        JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = s.seqrelid
        AND d.deptype = 'a'
    WHERE d.refclassid = 'pg_class'::regclass AND NOT has_sequence_privilege(s.seqrelid, 'USAGE')
        AND d.refobjid = ANY (ARRAY(
            SELECT to_regclass(name)::oid FROM unnest(%s::text[]) AS wanted (name)))
    ORDER BY 1
"""
_SELECT_HIDDEN_ROWS = """
    SELECT name FROM unnest(%s::text[]) AS wanted (name)
        WHERE row_security_active(to_regclass(name)) ORDER BY name
"""

_CREATED = re.compile(r"^CREATE TABLE (\w+) \(", re.MULTILINE)

# Tables whose rows nobody changes: a role that may not is not a mistake.
_ONLY_ADDED_TO = frozenset({"audit", "journal"})


async def prepare_session(primary: PrimaryFinder, connection: PostgresConnection) -> str:
    """Check what can be known before there are tables, and make the connection's session ours;
    return the statement that lets each session find our tables and functions before anybody else's.
    Raises StoreUnusable."""
    version = connection.info.server_version
    if version < POSTGRES_VERSION_MIN:
        raise StoreUnusable(f"PostgreSQL {version // 10_000} is too old: 14 or later is needed")

    # Not prepared: behind a pooler of transactions another session would be asked to run it.
    cursor = await connection.execute(_SELECT_FACTS.encode(), prepare=False, binary=True)
    ((pid, encoding, is_read_only, role, schema),) = await cursor.fetchall()
    if pid != connection.info.backend_pid:
        await _check_pooling(primary, connection)

    if encoding != "UTF8":
        raise StoreUnusable(
            f"the database's encoding is {encoding}, which can't hold every name and reference: "
            f"make another with"
            " CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0, and load a dump of the old "
            "one into it"
        )

    if is_read_only:
        raise StoreUnusable(
            "this session can't write: the server is a standby, so name the primary in "
            "database.url, with"
            " target_session_attrs=read-write; or default_transaction_read_only is set for the "
            "role or the database"
        )

    if schema is None:
        raise StoreUnusable(
            f"no schema of the search_path exists: make one with CREATE SCHEMA mmo AUTHORIZATION "
            f"{role}, and name it"
            f" with ALTER ROLE {role} SET search_path = mmo"
        )

    search_path = f"SET search_path = {sql.Identifier(schema).as_string()}, pg_temp;"
    await connection.execute(f"{STARTUP_SETUP} {search_path}".encode(), prepare=False)
    return search_path


async def _check_pooling(primary: PrimaryFinder, connection: PostgresConnection) -> None:
    """Raise StoreUnusable when a pooler gives each transaction another session of the server.

    Behind a pooler, the process that is named when a connection begins isn't the one that serves
    it. If it pools transactions, two connections that rest between their statements get each
    other's sessions, or always new ones."""
    try:
        other = await primary.connect()
        async with other:
            processes = [set[int](), set[int]()]

            # In turn: a pooler of transactions gives the sessions to whoever asks next.
            for _ in range(_POOLING_ROUNDS):
                for session, found in zip((connection, other), processes, strict=True):
                    found.add(await _server_process(session))

            if len(processes[0]) > 1 or len(processes[1]) > 1 or processes[0] & processes[1]:
                raise psycopg.OperationalError("two connections share one session")
    except psycopg.Error as error:
        raise StoreUnusable(
            f"a connection pooler is between the gateway and the server, and doesn't pool "
            f"sessions ({error}): set"
            " pool_mode = session in it, or let database.url name the server"
        ) from error


async def _server_process(connection: PostgresConnection) -> int:
    cursor = await connection.execute("SELECT pg_backend_pid()", prepare=False)
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def check_role(connection: PostgresConnection) -> None:
    """Check that the role may do in our tables what a serving process does, with all their rows.
    Raises StoreUnusable; says in the log when there are fewer connections than a process may
    need."""
    if faults := await find_missing_rights(connection):
        raise StoreUnusable("; ".join(faults))

    ((limit,),) = await fetch_rows(connection, _SELECT_CONNECTION_LIMIT)
    needed = WRITER_CONNECTIONS + READER_CONNECTIONS
    if limit < _CONNECTIONS_MIN:
        raise StoreUnusable(
            f"the role, the database or the server allows {limit} connections: each process needs "
            f"up to {needed}."
            " Raise CONNECTION LIMIT or max_connections"
        )

    if limit < needed:
        logger.warning("database_connections_limited", allowed=limit, needed=needed)


async def find_missing_rights(connection: PostgresConnection) -> Sequence[str]:
    """Return a sentence for each right in our tables that the role lacks."""
    # 1. The tables that are there: of an older schema some are missing yet.
    existing = await fetch_rows(
        connection,
        "SELECT name, current_user::text FROM unnest(%s::text[]) AS name WHERE to_regclass(name) "
        "IS NOT NULL",
        table_names(),
    )
    tables = [name for name, _ in existing]
    wanted: list[tuple[str, str]] = []
    for name in tables:
        wanted += [(name, "SELECT"), (name, "INSERT")]
        if name not in _ONLY_ADDED_TO:
            wanted += [(name, "UPDATE"), (name, "DELETE")]

    # 2. What the role lacks, all at once, so that it is granted at once.
    rights = await fetch_rows(
        connection,
        _SELECT_MISSING_RIGHTS,
        [name for name, _ in wanted],
        [privilege for _, privilege in wanted],
    )
    missing = [(", ".join(privileges), name) for name, privileges in rights]
    for (name,) in await fetch_rows(connection, _SELECT_MISSING_SEQUENCES, tables):
        missing.append(("USAGE", f"SEQUENCE {name}"))

    if missing:
        return [
            f"the role lacks rights: GRANT {right} ON {name} TO {existing[0][1]}"
            for right, name in missing
        ]

    # 3. With all rights, rows may still be hidden: a hidden payment would be made once more.
    hidden = await fetch_rows(connection, _SELECT_HIDDEN_ROWS, tables)
    return [
        f"row security may hide rows of {name} from the role: give it BYPASSRLS"
        for (name,) in hidden
    ]


def table_names() -> list[str]:
    """Return the names of our tables without their partitions, which nobody needs rights in."""
    return [name for script in scripts().values() for name in _CREATED.findall(script)]
