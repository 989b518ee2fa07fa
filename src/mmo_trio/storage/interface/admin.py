"""What every store's office promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditHead,
    AuditRow,
    BreakerChange,
    ConsoleSession,
    ConsoleUser,
    CountDimension,
    CountQuery,
    PaymentCount,
    PaymentFilter,
    PaymentPage,
    Position,
    Proposal,
    ProposalState,
    SuspenseEntry,
)


class AdminStore(Protocol):
    """Every method raises what those of the store raise."""

    async def append_audit(self, event: AuditEvent) -> AuditRow:
        """Write a deed into the audit log; whoever does it waits for this first."""
        ...

    async def audit(
        self, *, before: int | None = None, about: str | None = None, limit: int = 50
    ) -> Sequence[AuditRow]:
        """Rows of the audit log below a number, the newest first."""
        ...

    async def audit_after(self, number: int, *, limit: int) -> Sequence[AuditRow]:
        """Rows above a number, in order."""
        ...

    async def audit_head(self) -> AuditHead:
        """Where the log ends."""
        ...

    async def add_user(self, user: ConsoleUser) -> bool:
        """Add an operator; False when the name is taken."""
        ...

    async def replace_user(self, user: ConsoleUser) -> bool:
        """Replace an operator and end all its sessions; False when there is none of that name."""
        ...

    async def users(self) -> Sequence[ConsoleUser]:
        """Every operator, by name."""
        ...

    async def user(self, name: str) -> ConsoleUser | None:
        """One of them."""
        ...

    async def begin_session(self, session: ConsoleSession, *, expire_before: Instant) -> None:
        """Keep a session, and forget those that began before a time."""
        ...

    async def session(self, digest: bytes) -> tuple[ConsoleSession, ConsoleUser] | None:
        """A session and whose it is, as that operator is now."""
        ...

    async def touch_session(self, digest: bytes, at: Instant) -> None:
        """Note that a session is in use."""
        ...

    async def end_session(self, digest: bytes) -> None:
        """End it; one that isn't there is no fault."""
        ...

    async def add_proposal(self, proposal: Proposal) -> int:
        """Keep a proposal; its id."""
        ...

    async def proposals(
        self, *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
    ) -> Sequence[Proposal]:
        """Proposals about one payment or in one state, the newest first."""
        ...

    async def proposal(self, id: int) -> Proposal | None:
        """One of them."""
        ...

    async def update_proposal(self, expected_state: ProposalState, updated: Proposal) -> bool:
        """Let a proposal move from a state to what is given; False when it isn't in that state any more."""
        ...

    async def search_payments(
        self, text: str, *, msisdn: str | None, before: Position | None = None, limit: int = 50
    ) -> PaymentPage:
        """Payments by any reference (the gateway's, the merchant's, for reconciliation, the provider's), and by these
        digits of an msisdn, newest first."""
        ...

    async def list_payments(self, payment_filter: PaymentFilter) -> PaymentPage:
        """Payments, newest first; one call looks at LOOK_MAX of them at most."""
        ...

    async def unknown_outcomes(
        self, submitted_before: Instant, *, after: Position | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        """As the store's, a page at a time: the oldest first, those after a place."""
        ...

    async def failed_callbacks(
        self, *, brand: str | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[tuple[int, CallbackRecorded]]:
        """Callbacks that were not delivered, with their numbers, those below a number, the newest first; without the
        bodies of answers."""
        ...

    async def suspense_of_payment(self, gateway_reference: str) -> Sequence[SuspenseEntry]:
        """All that the suspense book says of a payment, closed entries too."""
        ...

    async def suspense_entries(
        self, *, with_closed: bool = False, before: int | None = None, limit: int = 50
    ) -> Sequence[SuspenseEntry]:
        """Entries of the suspense book with ids below a number, the newest first."""
        ...

    async def count_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> Sequence[PaymentCount]:
        """Counts by brand, method or provider over all the time that is wanted, or by where each span begins."""
        ...

    async def breaker_changes(
        self, *, brand: str | None = None, limit: int = 50
    ) -> Sequence[BreakerChange]:
        """When merchants' breakers opened and closed, the newest first."""
        ...


PAYMENTS_SCANNED_MAX = 5_000
"""Payments that one look goes over, so that no question costs more than so many rows, whatever it asks for."""
