"""The office of a store that speaks SQL."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import (
    AuditRow,
    BreakerChange,
    Count,
    Deed,
    Dimension,
    Found,
    Head,
    Operator,
    Place,
    Proposal,
    ProposalState,
    Session,
    SuspenseEntry,
    Tally,
    Wanted,
)
from mmo_trio.storage.sql import audit_log, console_users, payment_search
from mmo_trio.storage.sql.statements import Hold


@frozen
class SqlOffice:
    """See :class:`mmo_trio.storage.interface.admin.Office`."""

    read: Hold
    write: Hold

    async def note(self, deed: Deed) -> AuditRow:
        return await self.write(lambda: audit_log.note(deed))

    async def audit(
        self, *, before: int | None = None, about: str | None = None, limit: int = 50
    ) -> Sequence[AuditRow]:
        return await self.read(lambda: audit_log.audit(before, about, limit))

    async def audit_after(self, number: int, *, limit: int) -> Sequence[AuditRow]:
        return await self.read(lambda: audit_log.audit_after(number, limit))

    async def audit_head(self) -> Head:
        return await self.read(audit_log.audit_head)

    async def add_operator(self, operator: Operator) -> bool:
        return await self.write(lambda: console_users.add_operator(operator))

    async def change_operator(self, operator: Operator) -> bool:
        return await self.write(lambda: console_users.change_operator(operator))

    async def operators(self) -> Sequence[Operator]:
        return await self.read(console_users.operators)

    async def operator(self, name: str) -> Operator | None:
        return await self.read(lambda: console_users.operator(name))

    async def begin_session(self, session: Session, *, forget_before: Instant) -> None:
        await self.write(lambda: console_users.begin_session(session, forget_before))

    async def session(self, digest: bytes) -> tuple[Session, Operator] | None:
        return await self.read(lambda: console_users.session(digest))

    async def see_session(self, digest: bytes, at: Instant) -> None:
        await self.write(lambda: console_users.see_session(digest, at))

    async def end_session(self, digest: bytes) -> None:
        await self.write(lambda: console_users.end_session(digest))

    async def propose(self, proposal: Proposal) -> int:
        return await self.write(lambda: console_users.propose(proposal))

    async def proposals(
        self, *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
    ) -> Sequence[Proposal]:
        return await self.read(lambda: console_users.proposals(about, state, limit))

    async def proposal(self, id: int) -> Proposal | None:
        return await self.read(lambda: console_users.proposal(id))

    async def decide_proposal(self, was: ProposalState, decided: Proposal) -> bool:
        return await self.write(lambda: console_users.decide_proposal(was, decided))

    async def search(
        self, text: str, *, msisdn: str | None, before: Place | None = None, limit: int = 50
    ) -> Found:
        return await self.read(lambda: payment_search.search(text, msisdn, before, limit))

    async def list_payments(self, wanted: Wanted) -> Found:
        return await self.read(lambda: payment_search.list_payments(wanted))

    async def unknown_since(
        self, before: Instant, *, after: Place | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        return await self.read(lambda: payment_search.unknown_since(before, after, limit))

    async def failed_callbacks(
        self, *, brand: str | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[tuple[int, CallbackRecorded]]:
        return await self.read(lambda: payment_search.failed_callbacks(brand, before, limit))

    async def suspense_about(self, gateway_reference: str) -> Sequence[SuspenseEntry]:
        return await self.read(lambda: payment_search.suspense_about(gateway_reference))

    async def suspense_entries(
        self, *, with_closed: bool = False, before: int | None = None, limit: int = 50
    ) -> Sequence[SuspenseEntry]:
        return await self.read(lambda: payment_search.suspense_entries(with_closed, before, limit))

    async def tally(self, wanted: Tally, *, by: Dimension | None) -> Sequence[Count]:
        return await self.read(lambda: payment_search.tally(wanted, by))

    async def breaker_changes(
        self, *, brand: str | None = None, limit: int = 50
    ) -> Sequence[BreakerChange]:
        return await self.read(lambda: payment_search.breaker_changes(brand, limit))
