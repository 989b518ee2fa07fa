"""Reads and writes, in SQL, from what a later process continues the gateway's own time."""

from __future__ import annotations

from mmo_sansio.resilience.clock_guard import ClockRecord, StoreClock
from mmo_sansio.values.clock import Instant, earlier
from mmo_trio.storage.interface.store import CLOCK_RECORDS_KEPT_FOR, StoredClockRecord
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import SqlQuery, execute

_COLUMNS = "boot_id, monotonic, time, utc, served_until"


def clock_record(schema: SqlSchema, boot_id: str) -> SqlQuery[StoredClockRecord | None]:
    """Return the record of this start of the machine, or else the latest of another."""
    rows = yield from execute(
        f"SELECT {_COLUMNS}, {schema.clock_record_age} FROM clock_records ORDER BY boot_id = ? DESC, time DESC LIMIT 1",
        boot_id,
    )
    if not rows:
        return None
    *columns, age = rows[0]
    return StoredClockRecord(ClockRecord(*columns), age)


def read_clock(schema: SqlSchema, boot_id: str) -> SqlQuery[StoreClock | None]:
    """Return the database's own time, if it has any, and what other machines say of it."""
    if not schema.clock_query:
        return None
    ((now, agreeing, differing),) = yield from execute(schema.clock_query, boot_id)
    return StoreClock(Instant(now), agreeing, differing)


def save_clock_record(schema: SqlSchema, record: ClockRecord) -> SqlQuery[None]:
    """Replace the record of this start of the machine, and remove those of machines that are long gone."""
    yield from execute(
        f"INSERT INTO clock_records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT (boot_id) DO UPDATE SET"
        " monotonic = excluded.monotonic, time = excluded.time, utc = excluded.utc,"
        f" served_until = excluded.served_until{schema.touch_clock_record}",
        record.boot_id,
        record.monotonic,
        record.time,
        record.utc,
        record.served_until,
    )
    yield from execute(
        "DELETE FROM clock_records WHERE boot_id <> ? AND time < ?",
        record.boot_id,
        earlier(record.time, CLOCK_RECORDS_KEPT_FOR),
    )


def held_until(schema: SqlSchema) -> SqlQuery[Instant]:
    """Return the latest wall time of those before which nothing new may be dated."""
    columns = [f"SELECT max({column}) AS at FROM {table}" for table, column in schema.held_until]
    ((latest,),) = yield from execute(f"SELECT coalesce(max(at), 0) FROM ({' UNION ALL '.join(columns)}) AS each_at")
    return Instant(int(latest))


def release_held(schema: SqlSchema, now: Instant) -> SqlQuery[None]:
    """Bring those that lie in the future back to now."""
    for table, column in schema.held_until:
        yield from execute(f"UPDATE {table} SET {column} = ? WHERE {column} > ?", now, now)
