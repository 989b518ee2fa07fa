"""Is a gateway's clock whose machine's clocks a test sets."""

from __future__ import annotations

from mmo_sansio.testing import START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span, later
from mmo_trio.system.clock import GatewayClock


class SetClock(GatewayClock):
    """Shows what a test sets."""

    shown = START
    booted = MonotonicInstant(0)

    def monotonic(self) -> MonotonicInstant:
        return later(self.booted, self.offset)

    def raw_wall_time(self) -> Instant:
        return later(self.shown, self.offset)

    def step(self, by: Span) -> None:
        """Step the wall clock, and have it accepted."""
        self.observe()
        self.shown = later(self.shown, by)
        for _ in range(2):
            self.observe()
            self.shown, self.booted = (
                later(self.shown, clock.MINUTE),
                later(self.booted, clock.MINUTE),
            )
        self.observe()
