"""Implements the store on PostgreSQL, for any number of processes on any number of machines."""

from __future__ import annotations

from mmo_trio.storage.postgres import asyncio_loop as _before_psycopg  # noqa: F401

# isort: split
from mmo_trio.storage.postgres.startup import open_postgres
from mmo_trio.storage.postgres.store import PostgresStore

__all__ = ["PostgresStore", "open_postgres"]
