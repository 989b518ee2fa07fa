"""Advisory locks that commits share until they end: who has changed what such commits look at waits for those that may
have looked before. No commit waits for anybody."""

from __future__ import annotations

from typing import Final, TypeAlias

import trio

from mmo_trio.storage.postgres.connection_pool import RunCall
from mmo_trio.storage.postgres.queries import fetch_rows
from mmo_trio.storage.postgres.trio_connection import PostgresConnection

SharedLock: TypeAlias = tuple[int, int]

CREATION_LOCK: Final = (0x4D4D4F, 1)
"""Held by commits that create transactions, since before they read the horizon: `check_creation`."""

SUBMISSION_LOCK: Final = (0x4D4D4F, 5)
"""Held by commits that begin a submission, since before they look which brands are on hold: `check_submission`."""

_SELECT_HOLDERS = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_POLL_INTERVAL_MIN_S, _POLL_INTERVAL_MAX_S = 0.002, 0.1


async def find_holders(connection: PostgresConnection, lock: SharedLock) -> set[str]:
    """Return the commits that hold this lock now."""
    return {each for (each,) in await fetch_rows(connection, _SELECT_HOLDERS, *lock)}


async def wait_for_holders(run: RunCall, lock: SharedLock, holders: set[str]) -> None:
    """Wait until these commits have ended, without a connection meanwhile; the deadline of `run` ends the wait for one
    that hangs."""
    pause_s = _POLL_INTERVAL_MIN_S
    while holders:
        await trio.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_INTERVAL_MAX_S)
        holders &= await run(lambda connection: find_holders(connection, lock))
