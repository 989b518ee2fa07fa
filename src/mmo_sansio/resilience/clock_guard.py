"""Decides whether the wall clock is trusted: before anything expires by it, it must agree with the monotonic clock
(S3).

A wall clock that jumps (a wrong time server, a resumed machine) would expire three days of payments at once, and no
terminal state can be undone.
"""

from __future__ import annotations

from attrs import define

from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span

TOLERANCE = Span(5 * clock.SECOND)
"""How far the clocks may drift apart between two checks: more than any slewing, less than any wrong time."""

CONFIRMATION_PERIOD = Span(60 * clock.SECOND)
"""How long the clocks must agree after a jump until the wall clock is trusted again."""


@define
class ClockGuard:
    """Compares the clocks at every check with their values at the last one."""

    _offset: Span | None = None
    """How far the wall clock was ahead of the monotonic one at the last check; None before the first."""
    _jumped_at: MonotonicInstant | None = None
    """The monotonic time of the last disagreement; None once the clocks have agreed for CONFIRMATION_PERIOD."""

    def is_trusted(self, *, wall: Instant, monotonic: MonotonicInstant) -> bool:
        """Tell whether the wall clock is trusted at this check."""
        ahead = Span(wall - monotonic)
        if self._offset is not None and abs(ahead - self._offset) > TOLERANCE:
            self._jumped_at = monotonic
        self._offset = ahead
        if self._jumped_at is not None and monotonic - self._jumped_at >= CONFIRMATION_PERIOD:
            self._jumped_at = None
        return self._jumped_at is None
