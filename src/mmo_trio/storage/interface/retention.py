"""Defines what becomes too old, and what is counted and done about it."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from mmo_sansio.values.clock import Instant

# Rows that a count of what is old looks at.
COUNTED_MAX = 1_000_000


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
    BALANCES = "balances"
    """What was in our accounts with providers."""


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
