"""How fast requests to one provider may follow each other: evenly, after a first handful (a leaky bucket)."""

from __future__ import annotations

from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Span

BURST_WINDOW: Span = 5 * SECOND
"""What was not used of the last five seconds may be used at once."""


class RateLimit:
    """Gives each request its turn. Times are of one clock that never goes back."""

    def __init__(self, per_minute: int) -> None:
        self._interval = MINUTE // per_minute
        self._next: Instant = -MINUTE

    def delay(self, now: Instant) -> Span:
        """How long a request would have to wait now; nothing is changed by asking."""
        return max(0, max(self._next, now - BURST_WINDOW) - now)

    def reserve(self, now: Instant) -> Span:
        """Take the next turn: how long to wait for it."""
        at = max(self._next, now - BURST_WINDOW)
        self._next = at + self._interval
        return max(0, at - now)
