"""Implements the removal of what is too old for a store on an SQL database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from attrs import frozen

from mmo_sansio.values.clock import Instant, Span
from mmo_trio.storage.interface.retention import AgedRows, RetentionDuty, RetentionStep
from mmo_trio.storage.sql import aging, masked_rows
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
            case _:
                assert_never(duty)
