"""Compares a machine's wall time with the clock of a store that several machines share (S3).

The times that a gateway records come from its machine's wall clock. A machine whose clock is wrong from its start is
noticed by nothing on the machine, but by the store's clock. Of two clocks that differ either may be wrong, so the other
machines that use the store decide.
"""

from __future__ import annotations

from attrs import frozen

from mmo_sansio.values.clock import SECOND, Instant, Span

NOTABLE_DIFFERENCE = Span(2 * SECOND)
"""A larger difference from the store's clock is logged."""

DIFFERENCE_MAX = Span(30 * SECOND)
"""A machine whose wall time differs by more takes no payments, unless the store's clock seems to be the wrong one."""


@frozen
class StoreClock:
    """Holds what a shared store tells of its clock."""

    now: Instant
    """The store's time."""
    agreeing: int = 0
    """How many other machines have lately recorded a wall time within DIFFERENCE_MAX of the store's."""
    differing: int = 0
    """How many other machines have lately recorded another."""


@frozen
class ClockComparison:
    """Says how a machine's wall time compares with the store's clock."""

    ahead: Span
    """By how much the machine is ahead at least; negative when it is behind."""
    agreeing: int
    differing: int

    @property
    def is_notable(self) -> bool:
        return abs(self.ahead) > NOTABLE_DIFFERENCE

    @property
    def forbids_start(self) -> bool:
        """Tell whether a process must not begin to serve: its clock is wrong as far as is known."""
        return abs(self.ahead) > DIFFERENCE_MAX and (self.agreeing > 0 or not self.differing)

    @property
    def forbids_service(self) -> bool:
        """Tell whether a process that serves should get no more requests: other machines, whose clocks are right,
        can serve."""
        return abs(self.ahead) > DIFFERENCE_MAX and self.agreeing > 0


def compare_clocks(store: StoreClock, *, before: Instant, after: Instant) -> ClockComparison:
    """Compare with the machine's wall time before and after the store was asked; what it took to ask is no
    difference."""
    ahead = before - store.now if before > store.now else min(after - store.now, 0)
    return ClockComparison(Span(ahead), store.agreeing, store.differing)
