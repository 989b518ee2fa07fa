"""Scans of an index that are repeated: of what is due (S3), and with marks for what waits of each
brand.

A queue's rows come and go. As long as an old snapshot exists, such as that of a dump, the index
keeps the entries of rows that are gone, and a scan from the beginning passes over all of them. So
most scans begin at a mark, above which all lies that may have come meanwhile. Now and then a scan
begins at the beginning, in case a row came late: a commit may take long. These whole scans become
rarer as they become slower."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Sequence

from attrs import Factory, define

from mmo_sansio.resilience.ownership import OVERDUE_AFTER
from mmo_sansio.values.clock import SECOND, Instant, Span, earlier
from mmo_trio.storage.postgres.trio_connection import PostgresConnection

# Seconds after which a mark is used: nearly every commit that began before it was set has ended by
# then.
SETTLED_AFTER_S = 3.0

# Seconds between two whole scans of a queue at least.
WHOLE_SCAN_INTERVAL_S = 5.0

# What a commit that took long has added is found within this time.
WHOLE_SCAN_INTERVAL_MAX_S = 10.0

# A whole scan is repeated after so many times its own duration: it takes half a percent of the
# time.
_COST_RATIO = 200


@define
class WholeScans:
    """Decides when a whole scan is due."""

    interval_s: float = WHOLE_SCAN_INTERVAL_S
    """Seconds between two at least."""
    _next_at: float = -math.inf

    def is_due(self, now: float) -> bool:
        """Tell whether the next scan is to be a whole one."""
        return now >= self._next_at

    def record(self, began_at: float, ended_at: float) -> None:
        """Record a whole scan that has succeeded."""
        pause_s = min(
            max(self.interval_s, (ended_at - began_at) * _COST_RATIO), WHOLE_SCAN_INTERVAL_MAX_S
        )
        self._next_at = ended_at + pause_s


@define
class ScanMarks:
    """Holds a mark for each brand: at or below its id, nothing waits that was visible when it was
    set."""

    whole_scans: WholeScans = Factory(WholeScans)
    _marks: dict[str, deque[tuple[float, int]]] = Factory(dict)
    """Times and ids, the oldest first; the first is the one in use once it has settled."""

    def begin(self, brand: str, now: float) -> int:
        """Return the id above which a scan for this brand begins."""
        marks = self._marks.get(brand)
        if marks is None:
            return 0

        # The latest one that has settled; from it on, all that may have come late is found.
        while len(marks) > 1 and marks[1][0] <= now - SETTLED_AFTER_S:
            marks.popleft()

        at, id = marks[0]
        if at <= now - SETTLED_AFTER_S:
            return id
        return 0

    def set(self, brand: str, now: float, id: int) -> None:
        """Set a mark at the last id that a scan has taken, which took everything visible up to
        there."""
        marks = self._marks.setdefault(brand, deque())
        if not marks or id > marks[-1][1]:
            marks.append((now, id))

    def forget(self, brands: Iterable[str]) -> None:
        """Let the next scans for these brands begin at the beginning."""
        for brand in brands:
            self._marks.pop(brand, None)


# How far before the last complete search a search begins: what is due for longer is found by a
# whole search.
_REPEATED_SPAN = Span(10 * SECOND)

_BEGINNING = Instant(-(2**63))

# Each living process wakes its share, by the hash of the reference; one without a lease, all.
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
    {_LIVE_HOLDERS} SELECT wake_at FROM wakes WHERE wake_at >= %(begin)s AND wake_at > %(after)s
    AND {_IN_SHARE}
    ORDER BY wake_at LIMIT 1
"""
_DUE = f"""
    {_LIVE_HOLDERS} SELECT brand, gateway_reference FROM wakes
    WHERE wake_at >= %(begin)s AND wake_at <= %(now)s AND (wake_at <= %(overdue)s OR {_IN_SHARE})
    ORDER BY wake_at, created_at LIMIT %(limit)s
"""


@define(eq=False)
class DueSearch:
    """Searches by `wake_at`, in a process's share of all that are alive; most times only where
    something can have become due since the last time."""

    _whole_searches: WholeScans = Factory(WholeScans)
    _searched_until: Instant | None = None
    """Everything that was due by then has been found; None before the first search."""

    async def due(
        self, connection: PostgresConnection, holder: int, now: Instant, limit: int
    ) -> Sequence[tuple[str, str]]:
        """Return brand and gatewayReference of what is due in the share of this lease, and what is
        long overdue, the earliest first."""
        began_at = time.monotonic()
        is_whole = self._searched_until is None or self._whole_searches.is_due(began_at)
        if is_whole:
            begin = _BEGINNING
        else:
            begin = self._begin()

        values = {
            "me": holder,
            "begin": begin,
            "now": now,
            "overdue": now - OVERDUE_AFTER,
            "limit": limit,
        }
        cursor = await connection.execute(_DUE.encode(), values)
        found = [(brand, reference) for brand, reference in await cursor.fetchall()]
        if is_whole:
            self._whole_searches.record(began_at, time.monotonic())

        # With a full round more may be due: the next search begins where this one has.
        if len(found) < limit:
            self._searched_until = now

        return found

    async def next_wake(
        self, connection: PostgresConnection, holder: int, after: Instant
    ) -> Instant | None:
        """Return the earliest `wake_at` later than `after` in the share of this lease, as far as a
        search from the last one sees it."""
        values = {"me": holder, "begin": self._begin(), "after": after}
        cursor = await connection.execute(_NEXT_WAKE.encode(), values)
        row = await cursor.fetchone()
        if row is None:
            return None
        return Instant(int(row[0]))

    def _begin(self) -> Instant:
        if self._searched_until is None:
            return _BEGINNING
        return earlier(self._searched_until, _REPEATED_SPAN)
