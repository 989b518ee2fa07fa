"""Implements the removal of what is too old for a store on an SQL database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from attrs import frozen

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import AuditRow
from mmo_trio.storage.interface.retention import (
    AgedRows,
    ArchivedHistory,
    ArchivedPayment,
    ArchiveHead,
    RetentionDuty,
    RetentionStep,
)
from mmo_trio.storage.sql import aging, archivable, audit_log, masked_rows
from mmo_trio.storage.sql.aging import Forget
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import RunQuery, RunWrite, SqlQuery


def forget_nothing(references: Iterable[str]) -> None:
    """Do nothing: for a store that remembers no payments."""


@frozen(kw_only=True)
class SqlRetentionStore:
    """See :class:`mmo_trio.storage.interface.retention.RetentionStore`."""

    schema: SqlSchema
    read: RunQuery
    write: RunWrite
    forget: Forget = forget_nothing

    async def take_lease(self, holder: str, duration: Span) -> bool:
        return await self.write(lambda: aging.take_lease(self.schema, holder, duration))

    async def end_lease(self, holder: str) -> None:
        await self.write(lambda: aging.end_lease(holder))

    async def last_run(self) -> Instant:
        return await self.read(aging.last_run)

    async def save_run(self, now: Instant) -> None:
        await self.write(lambda: aging.save_run(now))

    async def position(self, duty: RetentionDuty) -> str:
        return await self.read(lambda: aging.state(duty.value))

    async def save_position(self, duty: RetentionDuty, position: str) -> None:
        await self.write(lambda: aging.save_position(duty, position))

    async def count_aged(self, duty: RetentionDuty, before: Instant) -> AgedRows:
        return await self.read(lambda: aging.count_aged(duty, before))

    async def age(self, duty: RetentionDuty, before: Instant, position: str, *, limit: int) -> RetentionStep:
        return await self.write(lambda: self._age(duty, before, position, limit))

    def _age(self, duty: RetentionDuty, before: Instant, position: str, limit: int) -> SqlQuery[RetentionStep]:
        match duty:
            case RetentionDuty.CALLBACK_BODIES:
                return aging.remove_callback_bodies(before, limit=limit)
            case RetentionDuty.PERSONAL_DATA:
                return masked_rows.mask_payments(self.schema, before, position, limit=limit, forget=self.forget)
            case RetentionDuty.SUSPENSE_DATA:
                return masked_rows.mask_suspense(before, position, limit=limit)
            case RetentionDuty.HOURLY_COUNTS:
                return aging.remove_hourly_counts(before)
            case RetentionDuty.BREAKER_CHANGES:
                return aging.remove_breaker_changes(before, limit=limit)
            case RetentionDuty.ARCHIVED_PAYMENTS | RetentionDuty.ARCHIVED_HISTORY | RetentionDuty.ARCHIVED_AUDIT:
                raise ValueError(f"{duty} needs an archive")
            case _:
                assert_never(duty)

    async def archive_head(self) -> ArchiveHead:
        return await self.read(aging.archive_head)

    async def advance_archive(self, known: ArchiveHead, head: ArchiveHead) -> bool:
        return await self.write(lambda: aging.advance_archive(known, head))

    async def archived_references(self, merchant_reference: str) -> Sequence[str]:
        return await self.read(lambda: archivable.archived_references(merchant_reference))

    async def archivable_payments(
        self, before: Instant, position: str, *, limit: int
    ) -> tuple[Sequence[ArchivedPayment], str | None]:
        return await self.read(lambda: archivable.archivable_payments(self.schema, before, position, limit=limit))

    async def archivable_history(
        self, before: Instant, position: str, *, limit: int
    ) -> tuple[ArchivedHistory, str | None]:
        return await self.read(lambda: archivable.archivable_history(before, position, limit=limit))

    async def stored_payments(self, references: Sequence[str]) -> Sequence[Transaction]:
        return await self.read(lambda: archivable.stored_payments(references))

    async def remove_archived(
        self, payments: Sequence[ArchivedPayment], *, masks_claims: bool, is_durable: bool
    ) -> int:
        return await self.write(
            lambda: archivable.remove_archived(self.schema, payments, self.forget, masks_claims=masks_claims)
        )

    async def archivable_audit(self, before: Instant, *, limit: int) -> Sequence[AuditRow]:
        return await self.read(lambda: audit_log.archivable_audit(before, limit=limit))

    async def remove_audit(self, through: int) -> int:
        return await self.write(lambda: audit_log.remove_audit(through))

    async def release_space(self, before: Instant) -> None:
        """Do nothing: new rows take the space."""

    async def remove_history(self, history: ArchivedHistory) -> int:
        return await self.write(lambda: archivable.remove_history(history))
