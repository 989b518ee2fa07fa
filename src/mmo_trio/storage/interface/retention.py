"""Defines how a store removes what has become too old: in small steps, each a transaction of its own.

One process at a time works at it, which holds a lease. A walk over rows goes on from a position: a text that only its
store reads, "" for the beginning.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from attrs import frozen

from mmo_sansio.values.clock import Instant, Span

COUNTED_MAX = 1_000_000
"""Rows that a count of what is old looks at."""


class RetentionDuty(StrEnum):
    """Says what becomes too old."""

    CALLBACK_BODIES = "callback_bodies"
    """The bodies of merchants' answers to callbacks."""
    PERSONAL_DATA = "personal_data"
    """Personal data of payments that have ended, and texts about them."""
    SUSPENSE_DATA = "suspense_data"
    """Personal data in closed entries of the suspense book, and in the claims of their receipts."""
    HOURLY_COUNTS = "hourly_counts"
    """Numbers of payments by the hour; those by the day stay."""
    BREAKER_CHANGES = "breaker_changes"
    """When merchants' breakers opened and closed."""


@frozen
class AgedRows:
    """Says how many rows are too old."""

    rows: int
    """At most COUNTED_MAX."""
    first_at: Instant | None = None
    """The time of the oldest; None when there is none."""
    last_at: Instant | None = None
    """The time of the newest that was counted."""

    @property
    def has_more(self) -> bool:
        """Tell whether there may be more than were counted."""
        return self.rows >= COUNTED_MAX


@frozen
class RetentionStep:
    """Says what one step has done."""

    changed: int
    """Rows that were removed or masked."""
    position: str
    """How far it has come."""
    is_last: bool
    """Whether nothing is left to look at."""
    has_skipped: bool = False
    """Whether it left a row that will be due later, such as a payment that has not ended."""


class RetentionStore(Protocol):
    """Every method raises what those of the store raise; each call is short."""

    async def take_lease(self, holder: str, duration: Span) -> bool:
        """Begin or renew the lease of this holder; return False while another holds it, by the store's own clock."""
        ...

    async def end_lease(self, holder: str) -> None:
        """End the lease, if this holder has it."""
        ...

    async def last_run(self) -> Instant:
        """Return when a run last ended; 0 when none has."""
        ...

    async def save_run(self, now: Instant) -> None:
        """Save that a run has ended."""
        ...

    async def position(self, duty: RetentionDuty) -> str:
        """Return where the walk of this duty goes on."""
        ...

    async def save_position(self, duty: RetentionDuty, position: str) -> None:
        """Save where the walk of this duty goes on."""
        ...

    async def count_aged(self, duty: RetentionDuty, before: Instant) -> AgedRows:
        """Count what is older than this, beginning where the walk goes on."""
        ...

    async def age(self, duty: RetentionDuty, before: Instant, position: str, *, limit: int) -> RetentionStep:
        """Remove or mask what is older than this, of at most `limit` rows from a position on."""
        ...
