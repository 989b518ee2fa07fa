"""Limits how fast requests follow each other: those to a provider take turns, and those of a brand are rejected."""

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


class TokenBucket:
    """Lets requests pass at a steady rate, and a burst of them after a pause. Times are of one clock that never goes
    back; the rate and the burst may change from request to request."""

    def __init__(self) -> None:
        self._full_at = MonotonicInstant(0)
        """When the bucket is full again; a bucket that nothing was taken from is full."""

    def take(self, now: MonotonicInstant, *, per_second: float, burst: int) -> Span:
        """Take a token and return 0; where there is none, return how long it takes until there is one."""
        interval = Span(round(SECOND / per_second))
        full_at = max(self._full_at, now)
        wait = Span(full_at - now - interval * (burst - 1))
        if wait > 0:
            return wait
        self._full_at = later(full_at, interval)
        return Span(0)
