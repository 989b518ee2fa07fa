"""Sets how long the calls of an open store may take: it was opened with time enough for a busy
machine."""

from __future__ import annotations

from mmo_trio.storage.postgres.store import PostgresStore
from mmo_trio.storage.sqlite import SqliteStore


def set_timeout(store: PostgresStore | SqliteStore, timeout_s: float) -> None:
    store._timeout_s = timeout_s
    if isinstance(store, SqliteStore):
        store._writer.timeout_s = timeout_s
