"""Writes the book of a month as the rows of one table, for CSV and for a spreadsheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, tzinfo
from typing import Final, TypeAlias

from mmo_sansio.accounting.month_books import (
    Account,
    BookEntry,
    EntryKind,
    MonthBook,
    Total,
    TotalKey,
)
from mmo_sansio.values.clock import Instant, to_datetime
from mmo_sansio.values.money import Money

# The columns of the table, named as in the merchant API where it has them.
BOOK_COLUMNS: Final = (
    "row",
    "date",
    "bookedAt",
    "brand",
    "method",
    "country",
    "type",
    "currency",
    "amount",
    "fee",
    "gatewayReference",
    "merchantReference",
    "reconciliationReference",
    "reversal",
    "providerReference",
    "count",
    "simulated",
)

# A cell: None is empty. A Money has the currency of its row, and a sign.
Cell: TypeAlias = str | Money | int | datetime | date | None


def book_rows(book: MonthBook) -> Iterator[Sequence[Cell]]:
    """Yield the rows below BOOK_COLUMNS: what each account had, all entries, what each account has,
    and the totals. Times are those of the zone."""
    zone = book.month.zone
    # An account without a movement in the month is listed too: its sums have to be compared.
    for account, sums in sorted(book.sums.items()):
        yield _account_row(
            "opening", account, sums.opening, sums.opening_fees, book.month.begin, zone
        )

    for entry in book.entries():
        yield _entry_row(entry, zone)

    for account, sums in sorted(book.sums.items()):
        yield _account_row(
            "closing", account, sums.closing, sums.closing_fees, book.month.end, zone
        )

    for key, total in book.totals().items():
        yield _total_row(key, total)


def _account_row(
    name: str, account: Account, minor: int, fees: int, at: Instant, zone: tzinfo
) -> Sequence[Cell]:
    return (
        name,
        None,
        to_datetime(at).astimezone(zone),
        account.brand,
        account.method,
        None,
        None,
        account.currency,
        Money(minor, account.currency),
        Money(fees, account.currency),
        *[None] * 6,
        _mark(account.is_simulated),
    )


def _entry_row(entry: BookEntry, zone: tzinfo) -> Sequence[Cell]:
    account = entry.account
    at = to_datetime(entry.booked_at).astimezone(zone)
    fee = entry.fee_minor
    return (
        entry.kind.value,
        at.date(),
        at,
        account.brand,
        account.method,
        entry.country,
        entry.type,
        account.currency,
        Money(entry.minor, account.currency),
        # Nothing is written where no fee is known: 0 would say that there was none.
        None if fee is None else Money(fee, account.currency),
        entry.gateway_reference,
        entry.merchant_reference,
        entry.reconciliation_reference,
        entry.reversal,
        entry.receipt,
        None,
        _mark(account.is_simulated),
    )


def _total_row(key: TotalKey, total: Total) -> Sequence[Cell]:
    # The totals of payments are those of the daily digests: they keep the plain name.
    if key.kind is EntryKind.PAYMENT:
        name = "total"
    else:
        name = f"total {key.kind.value}"

    return (
        name,
        None,
        None,
        key.brand,
        None,
        None,
        key.type,
        key.currency,
        Money(total.minor, key.currency),
        Money(total.fees, key.currency),
        *[None] * 5,
        total.count,
        _mark(key.is_simulated),
    )


def _mark(is_simulated: bool) -> Cell:
    """Return the last cell of a row: `true` where no money moved."""
    if is_simulated:
        return "true"
    return None


def cell_text(cell: Cell, guard: Callable[[str], str] = str) -> str:
    """Return a cell as CSV has it: amounts with the decimals of their currency, times with their
    offset. What others have written goes by `guard`, which keeps a spreadsheet program from running
    it; the sign of an amount has to stay first."""
    match cell:
        case None:
            return ""
        case Money():
            return cell.text
        # Before `date`, of which it is a kind.
        case datetime():
            return cell.isoformat(timespec="microseconds")
        case date():
            return cell.isoformat()
        # What merchants, payers and operators have written; all else is our own.
        case str():
            return guard(cell)
        case _:
            return str(cell)
