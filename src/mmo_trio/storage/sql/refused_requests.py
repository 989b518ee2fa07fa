"""Stores the requests that limits or flows refused in SQL, for the back-test of a changed configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.brand_changes import RecordedRequest, RefusedRequest, refused_on_record
from mmo_sansio.values.clock import DAY, Instant, earlier
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface.configuration_types import (
    REFUSALS_KEPT,
    REFUSALS_RECORDED_MAX,
    REFUSALS_REMOVED_MAX,
    BrandDay,
    RefusalCount,
)
from mmo_trio.storage.sql.statements import Row, SqlQuery, execute, select

_READ_COLUMNS = "gateway_reference, at, operation, method, country, minor, currency"
_COLUMNS = f"brand, cause, {_READ_COLUMNS}"
_ROWS_MAX = 50
"""Rows of one statement."""


def record_refusals(
    times: Mapping[BrandDay, int], refused: Sequence[RefusedRequest], *, now: Instant
) -> SqlQuery[None]:
    """Count refused requests by brand and day, and record these of them: at most REFUSALS_RECORDED_MAX for each brand
    and day in all. What is older than REFUSALS_KEPT is removed, at most REFUSALS_REMOVED_MAX at once."""
    # In one order, so that no two processes wait for each other's counts.
    for day in sorted(times, key=lambda each: (each.brand, each.day)):
        counted = yield from execute(
            "INSERT INTO refusal_days (brand, day, times, recorded) VALUES (?, ?, ?, 0) ON CONFLICT (brand, day)"
            " DO UPDATE SET times = refusal_days.times + excluded.times RETURNING recorded",
            day.brand,
            day.day,
            times[day],
        )
        of_day = (each for each in refused if BrandDay(each.brand, each.request.created_at // DAY) == day)
        yield from _record(day, list(of_day)[: max(0, REFUSALS_RECORDED_MAX - counted[0][0])])
    oldest = earlier(now, REFUSALS_KEPT)
    yield from execute(
        "DELETE FROM refused_requests WHERE gateway_reference IN"
        " (SELECT gateway_reference FROM refused_requests WHERE at < ? ORDER BY at, gateway_reference LIMIT ?)",
        oldest,
        REFUSALS_REMOVED_MAX,
    )
    yield from execute("DELETE FROM refusal_days WHERE day < ?", oldest // DAY)


def refused_requests(
    brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
) -> SqlQuery[Sequence[RecordedRequest]]:
    """Return the recorded ones of the requests of a brand that were refused in [begin, end), in the order of their
    arrival, those after a position."""
    at = after or Position(begin, "")
    return select(
        _parse,
        f"SELECT {_READ_COLUMNS} FROM refused_requests WHERE brand = ? AND at < ? AND (at, gateway_reference) > (?, ?)"
        " ORDER BY at, gateway_reference LIMIT ?",
        brand,
        end,
        at.created_at,
        at.gateway_reference,
        limit,
    )


def refusal_count(day: BrandDay) -> SqlQuery[RefusalCount]:
    """Return how many requests of a brand limits and flows refused on a day."""
    rows = yield from execute(
        "SELECT times, recorded FROM refusal_days WHERE brand = ? AND day = ?", day.brand, day.day
    )
    return RefusalCount(*rows[0]) if rows else RefusalCount(0, 0)


def _record(day: BrandDay, refused: Sequence[RefusedRequest]) -> SqlQuery[None]:
    for first in range(0, len(refused), _ROWS_MAX):
        rows = refused[first : first + _ROWS_MAX]
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(rows))
        yield from execute(
            f"INSERT INTO refused_requests ({_COLUMNS}) VALUES {places}", *(each for row in rows for each in _row(row))
        )
    if refused:
        yield from execute(
            "UPDATE refusal_days SET recorded = recorded + ? WHERE brand = ? AND day = ?",
            len(refused),
            day.brand,
            day.day,
        )


def _row(refused: RefusedRequest) -> Iterable[object]:
    request = refused.request
    assert request.operation is not None, "only requests are refused"
    return (
        refused.brand,
        refused.segment,
        request.gateway_reference,
        request.created_at,
        request.operation.value,
        request.method,
        request.country,
        str(request.amount.minor),
        request.amount.currency,
    )


def _parse(row: Row) -> RecordedRequest:
    reference, at, operation, method, country, minor, currency = row
    return refused_on_record(reference, at, Operation(operation), method, country, Money(int(minor), currency))
