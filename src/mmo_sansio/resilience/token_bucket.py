"""Limits rates: tokens that were taken come back evenly. A token is what its user limits: a
request, a byte, a line of the log, a failure."""

from __future__ import annotations

from math import inf

from attrs import define

from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span


@define(eq=False)
class TokenBucket:
    """Holds tokens, all of them at first. Times are of one clock that never goes back. Rate and
    burst may change."""

    per_second: float
    """How many tokens come back in a second."""
    burst: float
    """How many there are at most, so that they may be taken at once after a pause."""
    _full_at: float = -inf
    """When all tokens are back; not rounded to microseconds, as many small amounts add up."""

    def delay(self, now: MonotonicInstant, tokens: float = 1) -> Span:
        """Return how long it takes until there are so many tokens; 0 when there are."""
        # No tokens are counted while time passes: the time at which the bucket is full says all. So
        # many are there sooner, by as long as the others take to come back.
        until_full = max(self._full_at, now) - now
        spare = (self.burst - tokens) * SECOND / self.per_second
        return Span(max(0, round(until_full - spare)))

    def spend(self, now: MonotonicInstant, tokens: float = 1) -> None:
        """Take tokens, also those that are not back yet."""
        # Below zero, too: who spends what is not there makes the next ones wait for it.
        self._full_at = max(self._full_at, now) + tokens * SECOND / self.per_second

    def take(self, now: MonotonicInstant, tokens: float = 1) -> Span:
        """Take tokens and return 0; where there are too few, take none and return how long it takes
        until there are enough."""
        delay = self.delay(now, tokens)
        if delay == 0:
            # Nothing is taken in vain: who is refused pays nothing, and can come again.
            self.spend(now, tokens)
        return delay
