"""Reads and writes what staff watch and switch, in SQL: backlog, counts of payments, circuit
breakers, balances and brands on hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import ReversalState
from mmo_trio.storage.interface import admin_types
from mmo_trio.storage.sql.payment_search import stuck_transactions
from mmo_trio.storage.sql.serialization import parse_breaker, parse_reversals
from mmo_trio.storage.sql.statements import SqlQuery, Where, execute, returns_row, select, values_of


def backlog(now: Instant, *, overdue_before: Instant) -> SqlQuery[admin_types.Backlog]:
    """Count pending, stuck and overdue transactions, open callbacks and suspense."""
    # Each count reads an index or a table of what waits, which is small, and not the payments.
    stuck = yield from stuck_transactions(now, limit=admin_types.STUCK_COUNT_MAX)
    [(pending, overdue)] = yield from execute(
        "SELECT count(*), count(*) FILTER (WHERE wake_at < ?) FROM wakes", overdue_before
    )
    [(callbacks,)] = yield from execute("SELECT count(*) FROM intents WHERE kind = 'callback'")
    approvals = yield from _approvals()
    [(suspense, claims, held_brands, former_ids, reversals)] = yield from execute(
        "SELECT (SELECT count(*) FROM suspense WHERE closed_at IS NULL),"
        " (SELECT count(*) FROM deposit_claims WHERE wake_at IS NOT NULL), (SELECT count(*) FROM "
        "brand_holds),"
        " (SELECT former_ids FROM store_state),"
        " (SELECT CAST(coalesce(sum(unfinished), 0) AS bigint) FROM reversals WHERE unfinished > 0)"
    )
    usage = [usage.on_day(now // DAY) for usage in (yield from brand_usage())]
    restorations = len(former_ids.split())
    return admin_types.Backlog(
        pending=pending,
        stuck=len(stuck),
        overdue=overdue,
        callbacks=callbacks,
        suspense=suspense,
        deposit_claims=claims,
        held_brands=held_brands,
        restorations=restorations,
        usage=usage,
        reversals=reversals,
        approvals=approvals,
    )


def _approvals() -> SqlQuery[Mapping[admin_types.ApprovalKind, int]]:
    """Count what waits for the approval of another user."""
    [(resolutions, changes)] = yield from execute(
        "SELECT (SELECT count(*) FROM proposals WHERE state = ?),"
        " (SELECT count(*) FROM configuration_changes WHERE state = ?)",
        admin_types.ProposalState.OPEN,
        admin_types.ChangeState.OPEN,
    )

    # All reversals of a payment are one row, which only the code can read.
    unfinished = yield from execute(
        "SELECT reversals FROM reversals WHERE unfinished > 0 LIMIT ?", admin_types.STUCK_COUNT_MAX
    )
    waiting = sum(
        reversal.state is ReversalState.REQUESTED
        for (stored,) in unfinished
        for reversal in parse_reversals(stored)
    )

    kinds = admin_types.ApprovalKind
    return {kinds.RESOLUTION: resolutions, kinds.REVERSAL: waiting, kinds.CONFIGURATION: changes}


def count_payments(
    query: admin_types.CountQuery, *, by: admin_types.CountDimension | None
) -> SqlQuery[Sequence[admin_types.PaymentCount]]:
    """Count by brand, method or provider over the whole time of the query, or by where each span
    begins. Few rows are added up: an hour of one method is one row for each class of latency."""
    # A correction may leave counts that cancel each other out: they are left out.
    key = _counted_by(by)
    where = _counted(query)
    rows = yield from execute(
        f"SELECT {key}, status, latency_s, CAST(sum(times) AS bigint) FROM counts {where}"
        f" GROUP BY {key}, status, latency_s HAVING sum(times) <> 0",
        *where.values,
    )
    return [admin_types.PaymentCount(str(row[0]), Status(row[1]), row[2], row[3]) for row in rows]


# What parts of a sum of money are added up by themselves, so that no sum exceeds an integer.
_PART = 1_000_000

# Number of payments, millions of their minor units, and what is left of these.
_SUMS = (
    f"CAST(sum(times) AS bigint), CAST(sum(minor / {_PART}) AS bigint),"
    f" CAST(sum(minor - minor / {_PART} * {_PART}) AS bigint)"
)


def sum_payments(
    query: admin_types.CountQuery, *, by: admin_types.CountDimension | None
) -> SqlQuery[Sequence[admin_types.PaymentSum]]:
    """Add up the money of payments that have ended, by brand, method or provider, or by where each
    span begins."""
    # Each payment has been counted twice, when it was created and when it ended.
    key = _counted_by(by)
    where = _counted(query).and_("status <> ?", Status.PENDING.value)
    rows = yield from execute(
        f"SELECT {key}, type, currency, error_code, {_SUMS}"
        f" FROM counts {where} GROUP BY {key}, type, currency, error_code HAVING sum(times) <> 0",
        *where.values,
    )
    return [
        admin_types.PaymentSum(
            str(key),
            Type(type),
            currency,
            _error_code(error_code),
            times,
            millions * _PART + rest,
        )
        for key, type, currency, error_code, times, millions, rest in rows
    ]


def payment_cells(query: admin_types.CountQuery) -> SqlQuery[Sequence[admin_types.PaymentCell]]:
    """Count and add up payments of all brands together, by everything else that is counted: what
    any selection of a method or of a provider is made of."""
    # All columns but the brand, of which there are many.
    columns = "began_at, method, provider, is_simulated, status, latency_s, type, currency"
    where = _counted(query)
    rows = yield from execute(
        f"SELECT {columns}, error_code, {_SUMS} FROM counts {where}"
        f" GROUP BY {columns}, error_code HAVING sum(times) <> 0",
        *where.values,
    )
    return [
        admin_types.PaymentCell(
            began_at=Instant(began_at),
            method=method,
            provider=provider,
            is_simulated=bool(is_simulated),
            status=Status(status),
            latency_s=latency_s,
            type=Type(type),
            currency=currency,
            error_code=_error_code(error_code),
            count=times,
            minor=millions * _PART + rest,
        )
        for (
            began_at,
            method,
            provider,
            is_simulated,
            status,
            latency_s,
            type,
            currency,
            error_code,
            times,
            millions,
            rest,
        ) in rows
    ]


def _error_code(text: str) -> ErrorCode | None:
    """Return the code of a stored one, which is empty for what has not failed."""
    if text:
        return ErrorCode(text)
    return None


def provider_quarters(
    begin: Instant, end: Instant, *, is_simulated: bool | None = None
) -> SqlQuery[Sequence[admin_types.ProviderCount]]:
    """Count the payments of each provider that ended in [begin, end), by quarters of an hour."""
    # Quarters are counted by little else, as a day has many of them.
    where = _counted(
        admin_types.CountQuery(admin_types.QUARTER_HOUR, begin, end, is_simulated=is_simulated)
    )
    where.and_("status <> ?", Status.PENDING.value)
    return select(
        lambda row: admin_types.ProviderCount(row[0], Instant(row[1]), row[2], row[3]),
        "SELECT provider, began_at,"
        f" CAST(sum(CASE WHEN status = '{Status.SUCCESS.value}' THEN times ELSE 0 END) AS bigint),"
        f" CAST(sum(CASE WHEN status = '{Status.FAILED.value}' THEN times ELSE 0 END) AS bigint)"
        f" FROM counts {where} GROUP BY provider, began_at HAVING sum(times) <> 0"
        " ORDER BY provider, began_at",
        *where.values,
    )


def _counted_by(by: admin_types.CountDimension | None) -> str:
    """Return the column by which payments are counted."""
    if by is None:
        return "began_at"
    return by.value


def _counted(query: admin_types.CountQuery) -> Where:
    """Return the conditions for the counts that a query selects."""
    where = Where().and_("span = ?", query.span)
    where.and_("began_at >= ?", query.begin).and_("began_at < ?", query.end)

    # Both sorts of payments, unless one is asked for.
    which = None
    if query.is_simulated is not None:
        which = int(query.is_simulated)

    where.and_("is_simulated = ?", which)
    if query.only is not None:
        dimension, value = query.only
        where.and_(f"{dimension.value} = ?", value)

    return where


def breakers(table: str) -> SqlQuery[Mapping[str, BreakerSnapshot]]:
    """Return every merchant's breaker, by brand; the schemas hold them in different tables."""
    rows = yield from execute(f"SELECT brand, breaker FROM {table} WHERE breaker IS NOT NULL")
    return {brand: parse_breaker(row) for brand, row in rows}


def breaker_changes(
    *, brand: str | None = None, limit: int = 50
) -> SqlQuery[Sequence[admin_types.BreakerChange]]:
    """Return when merchants' breakers opened and closed, the newest first."""
    where = Where().and_("brand = ?", brand)
    return select(
        lambda row: admin_types.BreakerChange(*row),
        f"SELECT brand, at, state FROM breaker_changes {where} ORDER BY at DESC, brand LIMIT ?",
        *where.values,
        limit,
    )


def provider_balances(since: Instant) -> SqlQuery[Sequence[AccountBalance]]:
    """Return the balances of our accounts since then, the oldest first."""
    return select(
        lambda row: AccountBalance(
            row[0], row[1], Money(row[3], row[4]), Instant(row[2]), bool(row[5])
        ),
        "SELECT provider, account, at, minor, currency, is_float FROM provider_balances "
        "WHERE at >= ?"
        " ORDER BY at, provider, account",
        since,
    )


def latest_balance(provider: str, account: str) -> SqlQuery[AccountBalance | None]:
    """Return the balance of an account of ours that was told last; None where none is kept."""
    rows = yield from execute(
        "SELECT at, minor, currency, is_float FROM provider_balances "
        "WHERE provider = ? AND account = ? ORDER BY at DESC LIMIT 1",
        provider,
        account,
    )
    if not rows:
        return None

    at, minor, currency, is_float = rows[0]
    return AccountBalance(provider, account, Money(minor, currency), Instant(at), bool(is_float))


def record_balances(balances: Sequence[AccountBalance]) -> SqlQuery[None]:
    """Keep balances; one that is known is the same answer once more."""
    for balance in balances:
        yield from execute(
            "INSERT INTO provider_balances (provider, account, at, minor, currency, is_float) "
            "VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (provider, account, at) DO NOTHING",
            *(
                balance.provider,
                balance.account,
                balance.at,
                balance.amount.minor,
                balance.amount.currency,
                int(balance.is_float),
            ),
        )


def brand_holds() -> SqlQuery[Sequence[admin_types.BrandHold]]:
    """Return the brands that are on hold, by id. A decision that begins a submission finds them in
    the ledger."""
    rows = yield from execute("SELECT brand, held_at, held_by FROM brand_holds")
    return sorted((admin_types.BrandHold(*row) for row in rows), key=lambda hold: hold.brand)


def hold_brand(hold: admin_types.BrandHold) -> SqlQuery[bool]:
    """Put a brand on hold; return False when it is already."""
    return returns_row(
        "INSERT INTO brand_holds (brand, held_at, held_by) VALUES (?, ?, ?) ON CONFLICT (brand) "
        "DO NOTHING RETURNING 1",
        *values_of(hold),
    )


def release_brand(brand: str) -> SqlQuery[bool]:
    """End the hold of a brand; return False when there is none."""
    return returns_row("DELETE FROM brand_holds WHERE brand = ? RETURNING 1", brand)


def brand_usage() -> SqlQuery[Sequence[admin_types.BrandUsage]]:
    """Return the counters of brands with limits."""
    return select(
        lambda row: admin_types.BrandUsage(*row),
        "SELECT brand, counter, day, amount FROM brand_usage",
    )
