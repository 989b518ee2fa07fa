"""The embedded store: one SQLite file beside the gateway."""

from __future__ import annotations

from mmo_trio.storage.sqlite.open_sqlite import open_sqlite
from mmo_trio.storage.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "open_sqlite"]
