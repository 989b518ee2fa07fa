"""Defines how a store removes what has become too old: in small steps, each a transaction of its own.

One process at a time works at it, which holds a lease. A walk over rows goes on from a position: a text that only its
store reads, "" for the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import AuditRow, Proposal, SuspenseEntry

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
    ARCHIVED_PAYMENTS = "archived_payments"
    """Payments that have ended, with all that belongs to them."""
    ARCHIVED_HISTORY = "archived_history"
    """Lines of the journal and closed entries of the suspense book whose payment is archived, or that name none."""
    ARCHIVED_AUDIT = "archived_audit"
    """Rows of the audit log."""


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


@frozen
class ArchivedPayment:
    """A payment that has ended and all that belongs to it, with the numbers of the rows in the store."""

    transaction: Transaction
    journal: Sequence[tuple[int, JournalEntry]] = ()
    callbacks: Sequence[tuple[int, CallbackRecorded]] = ()
    suspense: Sequence[SuspenseEntry] = ()
    proposals: Sequence[Proposal] = ()


@frozen
class ArchivedHistory:
    """Lines of the journal and entries of the suspense book that belong to no stored payment."""

    journal: Sequence[tuple[int, JournalEntry]] = ()
    suspense: Sequence[SuspenseEntry] = ()


@frozen
class ArchiveHead:
    """Names the end of an archive: the number of its last part, and the SHA-256 of that part's manifest."""

    number: int
    digest: str
    """In hexadecimal."""


EMPTY_ARCHIVE = ArchiveHead(0, "0" * 64)
"""The end of an archive without a part."""


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
        """Remove or mask what is older than this, of at most `limit` rows from a position on. Archived rows are not
        removed by this."""
        ...

    async def archive_head(self) -> ArchiveHead:
        """Return the last part of the archive that this store knows."""
        ...

    async def advance_archive(self, known: ArchiveHead, head: ArchiveHead) -> bool:
        """Replace the known end of the archive; return False when another process has replaced it."""
        ...

    async def archived_references(self, merchant_reference: str) -> Sequence[str]:
        """Return the gatewayReferences of archived payments of all brands under this merchantReference."""
        ...

    async def archivable_payments(
        self, before: Instant, position: str, *, limit: int
    ) -> tuple[Sequence[ArchivedPayment], str | None]:
        """Return payments that were created before this and have ended, with nothing open about them, the oldest first,
        all created on one day (UTC); and where the walk goes on. Looks at `limit` payments at most."""
        ...

    async def archivable_history(
        self, before: Instant, position: str, *, limit: int
    ) -> tuple[ArchivedHistory, str | None]:
        """Return lines and closed entries from before this that belong to no stored payment, and where the walk goes
        on. Looks at some `limit` rows."""
        ...

    async def stored_payments(self, references: Sequence[str]) -> Sequence[Transaction]:
        """Return those payments with these gatewayReferences that are stored."""
        ...

    async def remove_archived(
        self, payments: Sequence[ArchivedPayment], *, masks_claims: bool, is_durable: bool
    ) -> int:
        """Remove these payments and what belongs to them, as far as they are still as they were read; return how many.
        The uses of their merchantReferences stay, with how the payments ended (C12), and so do receipts (S4); with
        `masks_claims`, without personal data. What is not durable, a loss of power may undo, unless a durable commit of
        this store came after it."""
        ...

    async def archivable_audit(self, before: Instant, *, limit: int) -> Sequence[AuditRow]:
        """Return the first rows of the audit log, in order, as far as all of them are older than this; never the last
        one."""
        ...

    async def remove_audit(self, through: int) -> int:
        """Remove the rows of the audit log up to this number, but never the last one; return how many."""
        ...

    async def release_space(self, before: Instant) -> None:
        """Give back the space of what is archived, as far as that can be done without a pause for others."""
        ...

    async def remove_history(self, history: ArchivedHistory) -> int:
        """Remove these lines and entries; return how many there were."""
        ...
