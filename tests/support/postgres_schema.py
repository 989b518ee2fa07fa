"""Databases as earlier versions left them."""

from __future__ import annotations

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg

from mmo_trio.storage.postgres import migrations


def migrate_to(url: str, version: int) -> None:
    """Bring an empty database to the schema of an earlier version."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(migrations.VERSION_TABLE.encode())
        for number, script in migrations.scripts().items():
            if number <= version:
                statements = script.split(";\n") if "-- concurrently" in script else [script]
                for statement in statements:
                    connection.execute(statement.encode(), prepare=False)
                connection.execute("INSERT INTO mmo_schema (version, needs) VALUES (%s, 0)", (number,))
