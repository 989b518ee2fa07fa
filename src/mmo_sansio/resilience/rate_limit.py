"""Limits how fast requests to one provider follow each other: evenly, after a first burst (a leaky bucket)."""

from __future__ import annotations

from mmo_sansio.values.clock import MINUTE, SECOND, MonotonicInstant, Span, earlier, later

BURST_WINDOW = Span(5 * SECOND)
"""The unused part of this last time may be used at once."""


class RateLimit:
    """Gives each request its turn. Times are of one clock that never goes back."""

    def __init__(self, per_minute: int) -> None:
        self._interval = Span(MINUTE // per_minute)
        self._next = MonotonicInstant(-MINUTE)

    def delay(self, now: MonotonicInstant) -> Span:
        """Return how long a request would have to wait now, without taking a turn."""
        return Span(max(0, self._next_turn(now) - now))

    def reserve(self, now: MonotonicInstant) -> Span:
        """Take the next turn, and return how long to wait for it."""
        at = self._next_turn(now)
        self._next = later(at, self._interval)
        return Span(max(0, at - now))

    def _next_turn(self, now: MonotonicInstant) -> MonotonicInstant:
        return max(self._next, earlier(now, BURST_WINDOW))
