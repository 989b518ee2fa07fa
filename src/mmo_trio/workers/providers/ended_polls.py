"""Limits the polls of payments that have ended: anyone who knows an account's webhook could cause any number of them.

A pending payment has its own limit in the payment rules, which do not change a payment that has ended.
"""

from __future__ import annotations

from attrs import Factory, define

from mmo_trio.storage.interface.store import WorkItem

INTERVAL_S = 2.0
"""Seconds between two polls of one payment, as the payment rules have it for pending ones."""


@define(eq=False)
class EndedPolls:
    """Knows when each ended payment was polled of late; times are seconds of Trio's clock."""

    _polled_at: dict[str, float] = Factory(dict)
    """In the order of the times, so that the earliest are forgotten first."""
    _waiting: dict[str, WorkItem] = Factory(dict)
    """The latest poll of each payment that has to wait."""

    def delay_s(self, work: WorkItem, now: float) -> float:
        """Return 0 when the payment may be polled now, and remember that it is; otherwise the seconds after which
        `take_waiting` gives the poll back, or -1 when the poll only takes the place of one that waits already."""
        reference = work.intent.gateway_reference
        while self._polled_at and next(iter(self._polled_at.values())) + INTERVAL_S <= now:
            del self._polled_at[next(iter(self._polled_at))]
        if reference not in self._polled_at:
            self._polled_at[reference] = now
            return 0.0
        is_first = reference not in self._waiting
        self._waiting[reference] = work
        return self._polled_at[reference] + INTERVAL_S - now if is_first else -1.0

    def waits(self, reference: str) -> bool:
        """Tell whether a poll of this payment has to wait."""
        return reference in self._waiting

    def take_waiting(self, reference: str) -> WorkItem:
        """Return the poll that waits. Raises KeyError when none does."""
        return self._waiting.pop(reference)
