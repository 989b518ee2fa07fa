"""Removes and masks in SQL what is too old, in small steps, each a transaction of its own.

One process at a time works at it, which holds a lease. A walk over rows goes on from a position: a
text that only its store reads, "" for the beginning."""

from __future__ import annotations

from typing import Final, assert_never

from attrs import frozen

from mmo_sansio.values.clock import DAY, Instant, Span
from mmo_trio.storage.interface.admin_types import COUNT_SPANS
from mmo_trio.storage.interface.retention import COUNTED_MAX, AgedRows, RetentionDuty, RetentionStep
from mmo_trio.storage.sql.masked_rows import (
    Forget,
    forget_nothing,
    mask_payments,
    mask_suspense,
    parse_position,
)
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import (
    RunQuery,
    RunWrite,
    SqlQuery,
    Where,
    execute,
    returns_row,
)

_LAST_RUN: Final = "last_run"

# The lengths of time whose counts become too old.
_SPANS_OF_HOURS: Final = [span for span in COUNT_SPANS if span < DAY]


@frozen(kw_only=True)
class RetentionStore:
    """Every method raises what those of the store raise; each call is short."""

    schema: SqlSchema
    read: RunQuery
    write: RunWrite
    forget: Forget = forget_nothing

    async def take_lease(self, holder: str, duration: Span) -> bool:
        """Begin or renew the lease of this holder; return False while another holds it, by the
        store's own clock."""
        return await self.write(lambda: _take_lease(self.schema, holder, duration))

    async def end_lease(self, holder: str) -> None:
        """End the lease, if this holder has it."""
        end = "UPDATE retention_lease SET held_until = 0 WHERE holder = ?"
        await self.write(lambda: execute(end, holder))

    async def last_run(self) -> Instant:
        """Return when a run last ended; 0 when none has."""
        return Instant(int(await self.read(lambda: _state(_LAST_RUN)) or 0))

    async def save_run(self, now: Instant) -> None:
        """Save that a run has ended."""
        await self.write(lambda: _save_state(_LAST_RUN, str(now)))

    async def position(self, duty: RetentionDuty) -> str:
        """Return where the walk of this duty goes on."""
        return await self.read(lambda: _state(duty.value))

    async def save_position(self, duty: RetentionDuty, position: str) -> None:
        """Save where the walk of this duty goes on."""
        await self.write(lambda: _save_state(duty.value, position))

    async def count_aged(self, duty: RetentionDuty, before: Instant) -> AgedRows:
        """Count what is older than this, beginning where the walk goes on."""
        return await self.read(lambda: _count_aged(duty, before))

    async def age(
        self, duty: RetentionDuty, before: Instant, position: str, *, limit: int
    ) -> RetentionStep:
        """Remove or mask what is older than this, of at most `limit` rows from a position on."""
        return await self.write(lambda: self._age(duty, before, position, limit))

    def _age(
        self, duty: RetentionDuty, before: Instant, position: str, limit: int
    ) -> SqlQuery[RetentionStep]:
        match duty:
            case RetentionDuty.CALLBACK_BODIES:
                return _remove_oldest("callback_bodies", before, limit=limit)
            case RetentionDuty.PERSONAL_DATA:
                return mask_payments(self.schema, before, position, limit=limit, forget=self.forget)
            case RetentionDuty.SUSPENSE_DATA:
                return mask_suspense(before, position, limit=limit)
            case RetentionDuty.HOURLY_COUNTS:
                return _remove_hourly_counts(before)
            case RetentionDuty.BREAKER_CHANGES:
                return _remove_breaker_changes(before, limit=limit)
            case RetentionDuty.BALANCES:
                return _remove_oldest("provider_balances", before, limit=limit)
            case _:
                assert_never(duty)


def _take_lease(schema: SqlSchema, holder: str, duration: Span) -> SqlQuery[bool]:
    # One row for all processes: that of them works which finds it its own or run out.
    now = schema.now()
    return returns_row(
        f"UPDATE retention_lease SET holder = ?, held_until = {now.text} + ?"
        f" WHERE holder = ? OR held_until < {now.text} RETURNING 1",
        holder,
        *now.values,
        duration,
        holder,
        *now.values,
    )


def _state(what: str) -> SqlQuery[str]:
    """Return what was saved under this name; "" when nothing was."""
    rows = yield from execute("SELECT position FROM retention_state WHERE what = ?", what)
    if rows:
        return str(rows[0][0])
    return ""


def _save_state(what: str, position: str) -> SqlQuery[None]:
    yield from execute(
        "INSERT INTO retention_state (what, position) VALUES (?, ?)"
        " ON CONFLICT (what) DO UPDATE SET position = excluded.position",
        what,
        position,
    )


def _count_aged(duty: RetentionDuty, before: Instant) -> SqlQuery[AgedRows]:
    """Count what is too old, beginning where the walk goes on."""
    # As the walks themselves select; what they leave out then, such as what is still to be sent, is
    # counted here.
    position = yield from _state(duty.value)
    where = Where()
    match duty:
        case RetentionDuty.CALLBACK_BODIES | RetentionDuty.BREAKER_CHANGES:
            table, at = duty.value, "at"
            where.and_("at < ?", before)
        case RetentionDuty.BALANCES:
            table, at = "provider_balances", "at"
            where.and_("at < ?", before)
        case RetentionDuty.PERSONAL_DATA:
            table, at = "transactions", "created_at"
            where.and_("(created_at, gateway_reference) > (?, ?)", *parse_position(position))
            where.and_("created_at < ?", before).and_("status <> ?", "pending")
        case RetentionDuty.SUSPENSE_DATA:
            table, at = "suspense", "last_at"
            where.and_("last_at < ?", before).and_("closed_at IS NOT NULL")
        case RetentionDuty.HOURLY_COUNTS:
            table, at = "figures", "began_at"
            where.and_("span < ?", DAY).and_("began_at < ?", before)

    [(rows, first, last)] = yield from execute(
        f"SELECT count(*), min(at), max(at) FROM (SELECT {at} AS at FROM {table} {where} LIMIT "
        f"?) AS aged",
        *where.values,
        COUNTED_MAX,
    )
    return AgedRows(int(rows), first, last)


def _remove_oldest(table: str, before: Instant, *, limit: int) -> SqlQuery[RetentionStep]:
    """Remove the oldest rows of a table."""
    # All of the last one's instant go with it, so that a step may remove a few more than its limit.
    rows = yield from execute(
        f"SELECT at FROM {table} WHERE at < ? ORDER BY at LIMIT ?", before, limit
    )
    if not rows:
        return RetentionStep(0, "", is_last=True)

    removed = yield from execute(f"DELETE FROM {table} WHERE at <= ? RETURNING 1", rows[-1][0])
    return RetentionStep(len(removed), "", is_last=len(rows) < limit)


def _remove_hourly_counts(before: Instant) -> SqlQuery[RetentionStep]:
    """Remove the counts of the oldest hour, or of its oldest quarter."""
    for span in _SPANS_OF_HOURS:
        [(oldest,)] = yield from execute(
            "SELECT min(began_at) FROM figures WHERE span = ? AND began_at < ?", span, before
        )
        if oldest is not None:
            rows = yield from execute(
                "DELETE FROM figures WHERE span = ? AND began_at = ? RETURNING 1", span, oldest
            )
            return RetentionStep(len(rows), "", is_last=False)

    return RetentionStep(0, "", is_last=True)


def _remove_breaker_changes(before: Instant, *, limit: int) -> SqlQuery[RetentionStep]:
    """Remove the oldest changes of breakers. Each brand's newest stays: by it the next change is
    known as one."""
    rows = yield from execute(
        "SELECT brand, at FROM breaker_changes AS old WHERE at < ? AND EXISTS (SELECT 1 FROM "
        "breaker_changes AS later"
        " WHERE later.brand = old.brand AND later.at > old.at) ORDER BY at LIMIT ?",
        before,
        limit,
    )
    for brand, at in rows:
        yield from execute("DELETE FROM breaker_changes WHERE brand = ? AND at = ?", brand, at)

    return RetentionStep(len(rows), "", is_last=len(rows) < limit)
