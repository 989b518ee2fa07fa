"""The planner's statistics: has the server gather them for tables of which it knows nothing.

The server does so by itself after many changes, and not when it was upgraded or a dump was restored. Until then it may
plan to read all of a table for one of its rows.
"""

from __future__ import annotations

import structlog

from mmo_trio.storage.postgres.queries import fetch_rows
from mmo_trio.storage.postgres.trio_connection import PostgresConnection

logger = structlog.get_logger(__name__)

TABLE_BYTES_MIN = 1 << 20
"""Of a smaller table every plan is good enough."""

_UNKNOWN = """
    SELECT c.oid::regclass::text FROM pg_class AS c
    WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('mmo_schema'))
        AND c.relkind = 'r' AND pg_has_role(c.relowner, 'USAGE') AND pg_relation_size(c.oid) >= %s
        AND NOT EXISTS (
            SELECT 1 FROM pg_stats AS s
            WHERE s.schemaname = c.relnamespace::regnamespace::text AND s.tablename = c.relname
        )
"""


async def analyze_unknown_tables(connection: PostgresConnection) -> None:
    """Analyze each of our tables that has rows and never was; not one that another session analyzes."""
    for (name,) in await fetch_rows(connection, _UNKNOWN, TABLE_BYTES_MIN):
        await connection.execute(f"ANALYZE (SKIP_LOCKED) {name}".encode())
        logger.info("table_analyzed", table=name)
