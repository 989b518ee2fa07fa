"""Implements the embedded store: one SQLite file on the gateway's machine."""

from __future__ import annotations

from mmo_trio.storage.sqlite.startup import open_sqlite
from mmo_trio.storage.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "open_sqlite"]
