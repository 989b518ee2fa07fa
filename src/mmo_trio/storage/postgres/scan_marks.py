"""Marks from which a repeated scan of an index begins, so that it does not pass over what is certainly gone.

A queue's rows come and go. As long as an old snapshot exists, such as that of a dump, the index keeps the entries of
rows that are gone, and a scan from the beginning passes over all of them. So most scans begin at a mark, above which
all lies that may have come meanwhile. Now and then a scan begins at the beginning, in case a row came late: a commit
may take long. These whole scans become rarer as they become slower.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from attrs import Factory, define

SETTLED_AFTER_S = 3.0
"""Seconds after which a mark is used: nearly every commit that began before it was set has ended by then."""

WHOLE_SCAN_INTERVAL_S = 5.0
"""Seconds between two whole scans of a queue at least."""

WHOLE_SCAN_INTERVAL_MAX_S = 10.0

_COST_RATIO = 200
"""A whole scan is repeated after so many times its own duration: it takes half a percent of the time."""


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
        pause_s = min(max(self.interval_s, (ended_at - began_at) * _COST_RATIO), WHOLE_SCAN_INTERVAL_MAX_S)
        self._next_at = ended_at + pause_s


@define
class ScanMarks:
    """Holds a mark for each brand: at or below its id, nothing waits that was visible when it was set."""

    whole_scans: WholeScans = Factory(WholeScans)
    _marks: dict[str, deque[tuple[float, int]]] = Factory(dict)
    """Times and ids, the oldest first; the first is the one in use once it has settled."""

    def begin(self, brand: str, now: float) -> int:
        """Return the id above which a scan for this brand begins."""
        marks = self._marks.get(brand)
        if marks is None:
            return 0
        while len(marks) > 1 and marks[1][0] <= now - SETTLED_AFTER_S:
            marks.popleft()
        at, id = marks[0]
        return id if at <= now - SETTLED_AFTER_S else 0

    def set(self, brand: str, now: float, id: int) -> None:
        """Set a mark at the last id that a scan has taken, which took everything visible up to there."""
        marks = self._marks.setdefault(brand, deque())
        if not marks or id > marks[-1][1]:
            marks.append((now, id))

    def forget(self, brands: Iterable[str]) -> None:
        """Let the next scans for these brands begin at the beginning."""
        for brand in brands:
            self._marks.pop(brand, None)
