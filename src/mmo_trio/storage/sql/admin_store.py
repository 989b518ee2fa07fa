"""Implements the admin API of a store on an SQL database."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.messages.queries import Position
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditHead,
    AuditRow,
    Backlog,
    BrandRecord,
    BreakerChange,
    ClosedProvider,
    ConsoleSession,
    ConsoleUser,
    CountDimension,
    CountQuery,
    PaymentCount,
    PaymentFilter,
    PaymentPage,
    Proposal,
    ProposalState,
    SuspenseEntry,
)
from mmo_trio.storage.sql import (
    audit_log,
    brand_keys,
    console_users,
    monitoring,
    payment_history,
    payment_search,
)
from mmo_trio.storage.sql.statements import RunQuery, RunWrite


@frozen
class SqlAdminStore:
    """See :class:`mmo_trio.storage.interface.admin.AdminStore`."""

    read: RunQuery
    write: RunWrite
    clear_breaker: str
    """The statement that removes a brand's breaker."""

    async def find_transactions(
        self,
        *,
        reference: str | None = None,
        brand: str | None = None,
        status: Status | None = None,
        limit: int = 50,
    ) -> Sequence[Transaction]:
        return await self.read(
            lambda: payment_search.find_transactions(reference, brand, status, limit)
        )

    async def timeline(self, gateway_reference: str) -> Sequence[JournalEntry]:
        return await self.read(lambda: payment_history.timeline(gateway_reference))

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        return await self.read(lambda: payment_history.callbacks(brand, gateway_reference, limit))

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        return await self.read(lambda: payment_history.suspense(brand, with_closed, limit))

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        return await self.write(lambda: payment_history.close_suspense(id, by, note, now), now)

    async def brands(self) -> Sequence[BrandRecord]:
        return await self.read(brand_keys.brands)

    async def save_brands(self, changed: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        await self.write(
            lambda: brand_keys.save_brands(changed, removed, clear_breaker=self.clear_breaker)
        )

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        return await self.write(lambda: brand_keys.add_key(brand, digest, sealed, now), now)

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        return await self.write(lambda: brand_keys.retire_key(brand, id, now), now)

    async def closed_providers(self) -> Sequence[ClosedProvider]:
        return await self.read(monitoring.closed_providers)

    async def close_provider(self, closed: ClosedProvider) -> bool:
        return await self.write(lambda: monitoring.close_provider(closed), closed.closed_at)

    async def open_provider(self, name: str) -> bool:
        return await self.write(lambda: monitoring.open_provider(name))

    async def backlog(self, now: Instant, *, overdue_before: Instant) -> Backlog:
        return await self.read(lambda: monitoring.backlog(now, overdue_before))

    async def append_audit(self, event: AuditEvent) -> AuditRow:
        return await self.write(lambda: audit_log.append_audit(event))

    async def audit(
        self, *, before: int | None = None, about: str | None = None, limit: int = 50
    ) -> Sequence[AuditRow]:
        return await self.read(lambda: audit_log.audit(before, about, limit))

    async def audit_after(self, number: int, *, limit: int) -> Sequence[AuditRow]:
        return await self.read(lambda: audit_log.audit_after(number, limit))

    async def audit_head(self) -> AuditHead:
        return await self.read(audit_log.audit_head)

    async def add_user(self, user: ConsoleUser) -> bool:
        return await self.write(lambda: console_users.add_user(user))

    async def replace_user(self, user: ConsoleUser) -> bool:
        return await self.write(lambda: console_users.replace_user(user))

    async def users(self) -> Sequence[ConsoleUser]:
        return await self.read(console_users.users)

    async def user(self, name: str) -> ConsoleUser | None:
        return await self.read(lambda: console_users.user(name))

    async def begin_session(self, session: ConsoleSession, *, expire_before: Instant) -> None:
        await self.write(lambda: console_users.begin_session(session, expire_before))

    async def session(self, digest: bytes) -> tuple[ConsoleSession, ConsoleUser] | None:
        return await self.read(lambda: console_users.session(digest))

    async def touch_session(self, digest: bytes, at: Instant) -> None:
        await self.write(lambda: console_users.touch_session(digest, at))

    async def end_session(self, digest: bytes) -> None:
        await self.write(lambda: console_users.end_session(digest))

    async def add_proposal(self, proposal: Proposal) -> int:
        return await self.write(lambda: console_users.add_proposal(proposal))

    async def proposals(
        self, *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
    ) -> Sequence[Proposal]:
        return await self.read(lambda: console_users.proposals(about, state, limit))

    async def proposal(self, id: int) -> Proposal | None:
        return await self.read(lambda: console_users.proposal(id))

    async def update_proposal(self, expected_state: ProposalState, updated: Proposal) -> bool:
        return await self.write(lambda: console_users.update_proposal(expected_state, updated))

    async def search_payments(
        self, text: str, *, msisdn: str | None, before: Position | None = None, limit: int = 50
    ) -> PaymentPage:
        return await self.read(lambda: payment_search.search_payments(text, msisdn, before, limit))

    async def list_payments(self, payment_filter: PaymentFilter) -> PaymentPage:
        return await self.read(lambda: payment_search.list_payments(payment_filter))

    async def stuck_transactions(
        self, now: Instant, *, after: Position | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        return await self.read(lambda: payment_search.stuck_transactions(now, after, limit))

    async def failed_callbacks(
        self, *, brand: str | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[tuple[int, CallbackRecorded]]:
        return await self.read(lambda: payment_history.failed_callbacks(brand, before, limit))

    async def suspense_of_payment(self, gateway_reference: str) -> Sequence[SuspenseEntry]:
        return await self.read(lambda: payment_history.suspense_of_payment(gateway_reference))

    async def suspense_entries(
        self, *, with_closed: bool = False, before: int | None = None, limit: int = 50
    ) -> Sequence[SuspenseEntry]:
        return await self.read(lambda: payment_history.suspense_entries(with_closed, before, limit))

    async def count_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> Sequence[PaymentCount]:
        return await self.read(lambda: monitoring.count_payments(query, by))

    async def breaker_changes(
        self, *, brand: str | None = None, limit: int = 50
    ) -> Sequence[BreakerChange]:
        return await self.read(lambda: monitoring.breaker_changes(brand, limit))
