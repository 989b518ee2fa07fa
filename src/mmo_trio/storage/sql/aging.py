"""Removes in SQL what is too old, and keeps how far that has come; see :mod:`mmo_trio.storage.interface.retention`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Final

from mmo_sansio.values.clock import HOUR, Instant, Span
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.retention import COUNTED_MAX, AgedRows, RetentionDuty, RetentionStep
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import SqlQuery, Where, execute, returns_row

Forget = Callable[[Iterable[str]], None]
"""Removes payments, by gatewayReference, from what a store remembers of them."""

_LAST_RUN: Final = "last_run"


def take_lease(schema: SqlSchema, holder: str, duration: Span) -> SqlQuery[bool]:
    """Begin or renew the lease, by the database's clock."""
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


def end_lease(holder: str) -> SqlQuery[None]:
    """End the lease, if this holder has it."""
    yield from execute("UPDATE retention_lease SET held_until = 0 WHERE holder = ?", holder)


def last_run() -> SqlQuery[Instant]:
    """Return when a run last ended."""
    return Instant(int((yield from state(_LAST_RUN)) or 0))


def save_run(now: Instant) -> SqlQuery[None]:
    """Save that a run has ended."""
    yield from _save_state(_LAST_RUN, str(now))


def state(what: str) -> SqlQuery[str]:
    """Return what was saved under this name; "" when nothing was."""
    rows = yield from execute("SELECT position FROM retention_state WHERE what = ?", what)
    return str(rows[0][0]) if rows else ""


def save_position(duty: RetentionDuty, position: str) -> SqlQuery[None]:
    """Save where the walk of this duty goes on."""
    yield from _save_state(duty.value, position)


def _save_state(what: str, position: str) -> SqlQuery[None]:
    yield from execute(
        "INSERT INTO retention_state (what, position) VALUES (?, ?)"
        " ON CONFLICT (what) DO UPDATE SET position = excluded.position",
        what,
        position,
    )


def count_aged(duty: RetentionDuty, before: Instant) -> SqlQuery[AgedRows]:
    """Count what is too old, beginning where the walk goes on."""
    position = yield from state(duty.value)
    where = Where()
    match duty:
        case RetentionDuty.CALLBACK_BODIES:
            table, at = "callback_bodies", "at"
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
            where.and_("span = ?", HOUR).and_("began_at < ?", before)
        case RetentionDuty.BREAKER_CHANGES:
            table, at = "breaker_changes", "at"
            where.and_("at < ?", before)
    [(rows, first, last)] = yield from execute(
        f"SELECT count(*), min(at), max(at) FROM (SELECT {at} AS at FROM {table} {where} LIMIT ?) AS aged",
        *where.values,
        COUNTED_MAX,
    )
    return AgedRows(int(rows), first, last)


def parse_position(position: str) -> tuple[int, str]:
    """Return createdAt and gatewayReference of the last payment that a walk has looked at."""
    created_at, _, reference = position.partition("/")
    return int(created_at or 0), reference


def of_payments(schema: SqlSchema, brand: str, references: Sequence[str]) -> Where:
    """Return the condition for rows of these payments, of this brand where they are distributed."""
    where = Where()
    if schema.is_distributed:
        where.and_("brand = ?", brand)
    return where.among("gateway_reference", references)


def by_shard(schema: SqlSchema, transactions: Iterable[Transaction]) -> Iterable[tuple[str, Sequence[Transaction]]]:
    """Yield the payments that one statement may name: those of a brand where they are distributed, and else all, with
    an empty text for the brand."""
    found: dict[str, list[Transaction]] = {}
    for each in transactions:
        found.setdefault(each.order.brand if schema.is_distributed else "", []).append(each)
    return found.items()


def with_open_intents(schema: SqlSchema, payments: Iterable[Transaction]) -> SqlQuery[Set[str]]:
    """Return which of these payments have a durable intent, such as a callback that is to be sent."""
    found: set[str] = set()
    for brand, some in by_shard(schema, payments):
        about = of_payments(schema, brand, references_of(some))
        rows = yield from execute(f"SELECT gateway_reference FROM intents {about}", *about.values)
        found.update(reference for (reference,) in rows)
    return found


def references_of(transactions: Iterable[Transaction]) -> list[str]:
    """Return the gatewayReferences of these payments."""
    return [each.reference for each in transactions]


def remove_callback_bodies(before: Instant, *, limit: int) -> SqlQuery[RetentionStep]:
    """Remove the oldest bodies."""
    rows = yield from execute("SELECT at FROM callback_bodies WHERE at < ? ORDER BY at LIMIT ?", before, limit)
    if not rows:
        return RetentionStep(0, "", is_last=True)
    removed = yield from execute("DELETE FROM callback_bodies WHERE at <= ? RETURNING 1", rows[-1][0])
    return RetentionStep(len(removed), "", is_last=len(rows) < limit)


def remove_bodies(schema: SqlSchema, callbacks: Iterable[tuple[str, str, Instant]]) -> SqlQuery[None]:
    """Remove the bodies of these callbacks (brand, gateway_reference, at), if they are there still. The bounds of `at`
    are there for the planner: it looks into few partitions."""
    groups: dict[str, list[tuple[str, Instant]]] = {}
    for brand, reference, at in callbacks:
        groups.setdefault(brand if schema.is_distributed else "", []).append((reference, at))
    for brand, some in groups.items():
        where = of_payments(schema, brand, [reference for reference, _ in some])
        times = [at for _, at in some]
        where.among("at", times).and_("at >= ?", min(times)).and_("at <= ?", max(times))
        yield from execute(f"DELETE FROM callback_bodies {where}", *where.values)


def remove_hourly_counts(before: Instant) -> SqlQuery[RetentionStep]:
    """Remove the counts of the oldest hour."""
    [(oldest,)] = yield from execute("SELECT min(began_at) FROM figures WHERE span = ? AND began_at < ?", HOUR, before)
    if oldest is None:
        return RetentionStep(0, "", is_last=True)
    rows = yield from execute("DELETE FROM figures WHERE span = ? AND began_at = ? RETURNING 1", HOUR, oldest)
    return RetentionStep(len(rows), "", is_last=False)


def remove_breaker_changes(before: Instant, *, limit: int) -> SqlQuery[RetentionStep]:
    """Remove the oldest changes of breakers. Each brand's newest stays: by it the next change is known as one."""
    rows = yield from execute(
        "SELECT brand, at FROM breaker_changes AS old WHERE at < ? AND EXISTS (SELECT 1 FROM breaker_changes AS later"
        " WHERE later.brand = old.brand AND later.at > old.at) ORDER BY at LIMIT ?",
        before,
        limit,
    )
    for brand, at in rows:
        yield from execute("DELETE FROM breaker_changes WHERE brand = ? AND at = ?", brand, at)
    return RetentionStep(len(rows), "", is_last=len(rows) < limit)
