"""Defines what every store offers to staff and to their commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseReason
from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.brand_changes import RecordedRequest, RefusedRequest
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditHead,
    AuditKey,
    AuditRow,
    Backlog,
    BrandHold,
    BrandRecord,
    BrandUsage,
    BreakerChange,
    ClosedProvider,
    ConsoleSession,
    ConsoleUser,
    CountDimension,
    CountQuery,
    NoteTopic,
    PaymentCount,
    PaymentFilter,
    PaymentPage,
    Proposal,
    ProposalState,
    ProviderNote,
    SecondFactor,
    SignInAttempt,
    StoredMasterKey,
    SuspenseEntry,
)
from mmo_trio.storage.interface.configuration_types import (
    BrandDay,
    ChangeDecision,
    ChangeState,
    ConfigurationChange,
    RefusalCount,
)

PAYMENTS_SCANNED_MAX = 5_000
"""Payments that one search scans, so that none costs more rows, whatever it searches for."""


class AdminStore(Protocol):
    """Every method raises what those of the store raise."""

    # Payments

    async def find_transactions(
        self, *, reference: str | None = None, brand: str | None = None, status: Status | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        """Return transactions by either reference, brand or status, the newest first."""
        ...

    async def search_payments(
        self, text: str, *, msisdns: Sequence[str] = (), before: Position | None = None, limit: int = 50
    ) -> PaymentPage:
        """Return payments by any reference (the gateway's, the merchant's, for reconciliation, the provider's), and by
        one of these msisdns, newest first."""
        ...

    async def list_payments(self, payment_filter: PaymentFilter) -> PaymentPage:
        """Return payments, newest first; one call scans PAYMENTS_SCANNED_MAX of them at most."""
        ...

    async def stuck_transactions(
        self, now: Instant, *, after: Position | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        """Return the transactions that are stuck (`mmo_sansio.payments.evidence.is_stuck`), the oldest first, a page at
        a time: those after a position."""
        ...

    async def timeline(self, gateway_reference: str) -> Sequence[JournalEntry]:
        """Return the journal of one transaction, in order."""
        ...

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        """Return the newest recorded callbacks, in the order of their recording.

        The responses' bodies come only with the callbacks of one transaction: each may be a megabyte (K4).
        """
        ...

    async def failed_callbacks(
        self, *, brand: str | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[tuple[int, CallbackRecorded]]:
        """Return callbacks that were not delivered with their numbers, those below a number, the newest first, without
        the responses' bodies."""
        ...

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        """Return entries of the suspense book, in the order of their first report."""
        ...

    async def suspense_entries(
        self,
        *,
        reasons: Sequence[SuspenseReason] = (),
        with_closed: bool = False,
        before: int | None = None,
        limit: int = 50,
    ) -> Sequence[SuspenseEntry]:
        """Return entries of the suspense book with ids below a number, the newest first; with reasons only those that
        have one of them."""
        ...

    async def suspense_of_payment(self, gateway_reference: str) -> Sequence[SuspenseEntry]:
        """Return all entries of the suspense book about a payment, closed ones too."""
        ...

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        """Close an open entry; return False when there is no open entry with this id."""
        ...

    # Brands and providers

    async def brands(self) -> Sequence[BrandRecord]:
        """Return every brand, by id."""
        ...

    async def save_brands(self, changed: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        """Add or replace brands, and remove some with their keys, all at once."""
        ...

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        """Add a key; return False when the same key is there already. Raises KeyError for an unknown brand."""
        ...

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        """Retire a key; return False when the brand has no such key in use."""
        ...

    async def mark_key_leaked(self, brand: str, id: int, *, now: Instant) -> bool:
        """Retire a key as leaked, also one that is retired already; return False when the brand has no such key or it
        is marked already."""
        ...

    async def reseal_key(self, id: int, digest: bytes, sealed: bytes) -> None:
        """Replace what is stored of a key, in use or retired, when another master key seals it."""
        ...

    async def master_keys(self) -> Sequence[StoredMasterKey]:
        """Return the master keys that the store's secrets are or were sealed with, the oldest first; none until the
        first use of the store."""
        ...

    async def add_master_key(self, added: StoredMasterKey) -> bool:
        """Add a master key; return False when its generation or its id is there already."""
        ...

    async def end_master_keys(self, *, below: int, now: Instant) -> None:
        """Record that master keys of generations below a number are not needed any more."""
        ...

    async def closed_providers(self) -> Sequence[ClosedProvider]:
        """Return the providers that are closed for new payments, by name."""
        ...

    async def close_provider(self, closed: ClosedProvider) -> bool:
        """Close a provider for new payments; return False when it is closed already."""
        ...

    async def open_provider(self, name: str) -> bool:
        """Open a provider again; return False when it isn't closed."""
        ...

    async def provider_notes(self, *topics: NoteTopic) -> Sequence[ProviderNote]:
        """Return the notes with these topics, by provider, topic and subject."""
        ...

    async def note_provider(self, note: ProviderNote, *, replacing: ProviderNote | None = None) -> bool:
        """Write a note in place of the one with its provider, topic and subject. Return False, and write nothing, when
        that is another one than the one to replace; None: whatever is there is replaced."""
        ...

    async def remove_provider_notes(self, provider: str, topic: NoteTopic) -> None:
        """Remove the notes of a provider with this topic."""
        ...

    async def brand_holds(self) -> Sequence[BrandHold]:
        """Return the brands that are on hold, by id. A decision that begins a submission finds them in the ledger."""
        ...

    async def hold_brand(self, hold: BrandHold) -> bool:
        """Put a brand on hold; return False when it is already."""
        ...

    async def release_brand(self, brand: str) -> bool:
        """End the hold of a brand; return False when there is none."""
        ...

    async def begin_restoration(self, store_id: str, holds: Sequence[BrandHold]) -> None:
        """Give a store that was restored another id, and hold these brands: they take no payments, and what is not
        found of theirs may be missing, until `finish_restoration`."""
        ...

    async def finish_restoration(self, brand: str) -> bool:
        """Let a brand of a restored store take payments again, unless staff hold it; return False when it does."""
        ...

    async def brand_usage(self) -> Sequence[BrandUsage]:
        """Return the counters of brands with limits."""
        ...

    # Numbers

    async def backlog(self, now: Instant, *, overdue_before: Instant) -> Backlog:
        """Count pending, stuck and overdue transactions, open callbacks and suspense."""
        ...

    async def count_payments(self, query: CountQuery, *, by: CountDimension | None) -> Sequence[PaymentCount]:
        """Count by brand, method or provider over the whole time of the query, or by where each span begins."""
        ...

    async def breaker_changes(self, *, brand: str | None = None, limit: int = 50) -> Sequence[BreakerChange]:
        """Return when merchants' breakers opened and closed, the newest first."""
        ...

    # The audit log

    async def append_audit(self, event: AuditEvent, key: AuditKey) -> AuditRow:
        """Append an event to the audit log; the action waits for this first."""
        ...

    async def audit(
        self, *, before: int | None = None, about: str | None = None, limit: int = 50
    ) -> Sequence[AuditRow]:
        """Return rows of the audit log below a number, the newest first."""
        ...

    async def audit_after(self, number: int, *, limit: int) -> Sequence[AuditRow]:
        """Return rows above a number, in order."""
        ...

    async def audit_head(self) -> AuditHead:
        """Return where the log ends."""
        ...

    async def sealed_audit_keys(self) -> Mapping[str, bytes]:
        """Return the audit keys of earlier master keys by their ids, sealed with a later master key."""
        ...

    async def save_audit_key(self, id: str, sealed: bytes) -> None:
        """Keep a sealed audit key; replace the one with this id."""
        ...

    # Users of the console, their sessions and proposals

    async def add_user(self, user: ConsoleUser) -> bool:
        """Add a user; return False when the name is taken."""
        ...

    async def replace_user(self, user: ConsoleUser) -> bool:
        """Replace a user and end all its sessions; return False when there is no user of that name."""
        ...

    async def users(self) -> Sequence[ConsoleUser]:
        """Return every user, by name."""
        ...

    async def user(self, name: str) -> ConsoleUser | None:
        """Return the user of this name."""
        ...

    async def begin_session(self, session: ConsoleSession, *, expire_before: Instant) -> None:
        """Store a session, and delete those that began before a time."""
        ...

    async def session(self, digest: bytes) -> tuple[ConsoleSession, ConsoleUser] | None:
        """Return a session and its user, as that user is now."""
        ...

    async def touch_session(self, digest: bytes, at: Instant) -> None:
        """Record that a session is in use."""
        ...

    async def end_session(self, digest: bytes) -> None:
        """End a session, if it is there."""
        ...

    async def record_sign_in_attempt(self, attempt: SignInAttempt, *, expire_before: Instant) -> None:
        """Record an attempt, and delete those before a time."""
        ...

    async def sign_in_attempts(self, name: str, network: str, *, since: Instant) -> Sequence[SignInAttempt]:
        """Return the attempts since a time with this name or from this network, in the order of time."""
        ...

    async def forget_sign_in_attempts(self, name: str, network: str) -> None:
        """Delete the attempts with this name from this network."""
        ...

    # Second factors

    async def second_factor(self, user: str) -> SecondFactor | None:
        """Return the second factor of a user."""
        ...

    async def second_factors(self) -> Sequence[SecondFactor]:
        """Return all second factors, by user."""
        ...

    async def begin_enrolment(self, user: str, pending: bytes) -> None:
        """Keep a sealed secret that the user has still to confirm, next to the one in use."""
        ...

    async def confirm_second_factor(
        self, user: str, pending: bytes, *, step: int, at: Instant, codes: Sequence[bytes], session: bytes
    ) -> bool:
        """Put this pending secret into use and replace the recovery codes' digests, and end the user's sessions except
        one; return False when another secret is pending."""
        ...

    async def use_time_step(self, user: str, step: int) -> bool:
        """Record the step of an accepted code; return False when this step or a later one was accepted before."""
        ...

    async def use_recovery_code(self, user: str, digest: bytes) -> bool:
        """Remove a recovery code; return False when the user has no such code."""
        ...

    async def replace_recovery_codes(self, user: str, codes: Sequence[bytes]) -> None:
        """Replace the digests of the recovery codes."""
        ...

    async def remove_second_factor(self, user: str, *, session: bytes | None = None) -> bool:
        """Remove a second factor and its recovery codes, and end the user's sessions except this one; return False when
        there is none."""
        ...

    async def reseal_second_factor(self, user: str, old: bytes, new: bytes) -> None:
        """Replace a sealed secret by the same secret, sealed with another key."""
        ...

    async def add_proposal(self, proposal: Proposal) -> int | None:
        """Store a proposal and return its id; return None, and store nothing, while there is an unfinished one about
        the same payment."""
        ...

    async def proposals(
        self, *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
    ) -> Sequence[Proposal]:
        """Return proposals about one payment or in one state, the newest first."""
        ...

    async def proposal(self, id: int) -> Proposal | None:
        """Return the proposal with this id."""
        ...

    async def update_proposal(
        self, expected_state: ProposalState, updated: Proposal, *, event: tuple[AuditEvent, AuditKey] | None = None
    ) -> bool:
        """Replace a proposal that is in the expected state, and append the event to the audit log, both or neither;
        return False when it isn't in that state any more."""
        ...

    # Proposed changes of brands

    async def add_configuration_change(self, change: ConfigurationChange, event: tuple[AuditEvent, AuditKey]) -> int:
        """Store a proposed change of a brand together with its audit event, and return its id."""
        ...

    async def configuration_changes(
        self, *, brand: str | None = None, state: ChangeState | None = None, limit: int = 50
    ) -> Sequence[ConfigurationChange]:
        """Return changes of one brand or in one state, the newest first."""
        ...

    async def configuration_change(self, id: int) -> ConfigurationChange | None:
        """Return the change with this id."""
        ...

    async def decide_configuration_change(
        self, expected_state: ChangeState, decided: ConfigurationChange, event: tuple[AuditEvent, AuditKey]
    ) -> ChangeDecision:
        """Replace a change that is in the expected state, bring the version of the brand that belongs to its new state
        into force, and append the event to the audit log, all or nothing. Nothing happens when the user who applies it
        has proposed it, or when the brand in force is not the version that is to be replaced."""
        ...

    async def recorded_requests(
        self, brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
    ) -> Sequence[RecordedRequest]:
        """Return what a back-test needs of the payments of a brand that were created in [begin, end), in the order of
        creation, those after a position."""
        ...

    async def record_refusals(
        self, times: Mapping[BrandDay, int], refused: Sequence[RefusedRequest], *, now: Instant
    ) -> None:
        """Count refused requests by brand and day, and record these of them: at most REFUSALS_RECORDED_MAX for each
        brand and day in all. What is older than REFUSALS_KEPT is removed, at most REFUSALS_REMOVED_MAX at once."""
        ...

    async def refused_requests(
        self, brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
    ) -> Sequence[RecordedRequest]:
        """Return the recorded ones of the requests of a brand that were refused in [begin, end), in the order of their
        arrival, those after a position."""
        ...

    async def refusal_count(self, day: BrandDay) -> RefusalCount:
        """Return how many requests of a brand limits and flows refused on a day."""
        ...
