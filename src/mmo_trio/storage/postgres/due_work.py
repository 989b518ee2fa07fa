"""Finds the payments that are due on PostgreSQL, in this process's share of all that are alive (S3)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from attrs import Factory, define

from mmo_sansio.resilience.ownership import OVERDUE_AFTER
from mmo_sansio.values.clock import SECOND, Instant, Span, earlier
from mmo_trio.storage.postgres.scan_marks import WholeScans
from mmo_trio.storage.postgres.trio_connection import PostgresConnection

_REPEATED_SPAN = Span(10 * SECOND)
"""How far before the last complete search a search begins: what is due for longer is found by a whole search."""
_BEGINNING = Instant(-(2**63))

_IN_SHARE = """
    (NOT EXISTS (SELECT FROM alive WHERE id = %(me)s) OR EXISTS (
        SELECT FROM alive WHERE id = %(me)s
            AND mod(hashtext(gateway_reference)::bigint + 2147483648, total) = nth
    ))
"""
_LIVE_HOLDERS = """
    WITH alive AS MATERIALIZED (
        SELECT id, row_number() OVER (ORDER BY id) - 1 AS nth, count(*) OVER () AS total
        FROM holders WHERE NOT is_over AND alive_until > clock_timestamp()
    )
"""
_NEXT_WAKE = f"""
    {_LIVE_HOLDERS} SELECT wake_at FROM wakes WHERE wake_at >= %(begin)s AND wake_at > %(after)s AND {_IN_SHARE}
    ORDER BY wake_at LIMIT 1
"""
_DUE = f"""
    {_LIVE_HOLDERS} SELECT brand, gateway_reference FROM wakes
    WHERE wake_at >= %(begin)s AND wake_at <= %(now)s AND (wake_at <= %(overdue)s OR {_IN_SHARE})
    ORDER BY wake_at, created_at LIMIT %(limit)s
"""


@define(eq=False)
class DueSearch:
    """Searches by `wake_at`, most times only where something can have become due since the last time."""

    _whole_searches: WholeScans = Factory(WholeScans)
    _searched_until: Instant | None = None
    """Everything that was due by then has been found; None before the first search."""

    async def due(
        self, connection: PostgresConnection, holder: int, now: Instant, limit: int
    ) -> Sequence[tuple[str, str]]:
        """Return brand and gatewayReference of what is due in the share of this lease, and what is long overdue, the
        earliest first."""
        began_at = time.monotonic()
        is_whole = self._searched_until is None or self._whole_searches.is_due(began_at)
        begin = _BEGINNING if is_whole else self._begin()
        values = {"me": holder, "begin": begin, "now": now, "overdue": now - OVERDUE_AFTER, "limit": limit}
        cursor = await connection.execute(_DUE.encode(), values)
        found = [(brand, reference) for brand, reference in await cursor.fetchall()]
        if is_whole:
            self._whole_searches.record(began_at, time.monotonic())
        if len(found) < limit:
            self._searched_until = now
        return found

    async def next_wake(self, connection: PostgresConnection, holder: int, after: Instant) -> Instant | None:
        """Return the earliest `wake_at` later than `after` in the share of this lease, as far as a search from the last
        one sees it."""
        values = {"me": holder, "begin": self._begin(), "after": after}
        cursor = await connection.execute(_NEXT_WAKE.encode(), values)
        row = await cursor.fetchone()
        return None if row is None else Instant(int(row[0]))

    def _begin(self) -> Instant:
        return _BEGINNING if self._searched_until is None else earlier(self._searched_until, _REPEATED_SPAN)
