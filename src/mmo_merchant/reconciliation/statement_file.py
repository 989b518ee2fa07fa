"""Reads a statement from a CSV file whose columns a map names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Final, TextIO

from attrs import frozen

from mmo_merchant.reconciliation.comparison import StatementLine
from mmo_sansio.values.model import Status
from mmo_sansio.values.money import AmountError, Money, to_money

FIELDS: Final = (
    "receipt",
    "reference",
    "amount",
    "paid_in",
    "paid_out",
    "currency",
    "status",
    "fee",
    "details",
)
"""What a map can name a column for. `paid_in` and `paid_out` are two columns for amounts, one of
them empty; `details` is the text that tells fee lines from payments."""

PRESETS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "mpesa": {
            "receipt": "Receipt No.",
            "paid_in": "Paid In",
            "paid_out": "Withdrawn",
            "status": "Transaction Status",
            "details": "Details",
        },
        "mtn": {
            "receipt": "Id",
            "reference": "External Transaction Id",
            "amount": "Amount",
            "currency": "Currency",
            "status": "Status",
            "fee": "Fee",
        },
        "airtel": {
            "receipt": "Transaction ID",
            "reference": "Reference Number",
            "amount": "Transaction Amount",
            "status": "Transaction Status",
        },
    }
)
"""Column maps by name."""

PREAMBLE_LINES_MAX: Final = 50
"""Lines that may stand before the headings, as in M-Pesa's statements."""

_STATUSES: Final = {
    **dict.fromkeys(
        ("success", "successful", "succeeded", "completed", "complete", "paid", "settled", "ts"),
        Status.SUCCESS,
    ),
    **dict.fromkeys(
        (
            "failed",
            "failure",
            "declined",
            "cancelled",
            "canceled",
            "expired",
            "rejected",
            "reversed",
            "tf",
        ),
        Status.FAILED,
    ),
    **dict.fromkeys(
        ("pending", "in progress", "initiated", "authorized", "tip", "ta"), Status.PENDING
    ),
}
_FEE: Final = re.compile(r"^charges?\b|\bcharges?\.?$", re.IGNORECASE)
"""Details of a fee line: `Pay merchant Charge`. An account name such as `school fees` is none."""


class StatementError(ValueError):
    """The file cannot be read as a statement; the message names the line and what would be
    right."""


@frozen
class StatementColumns:
    """Says where the columns of a statement are, and what its currency is when no column says
    so."""

    positions: Mapping[str, int]
    currency: str | None

    def cell(self, row: list[str], name: str) -> str:
        """Return the trimmed cell of a field; empty where the row or the statement has none."""
        at = self.positions.get(name)
        return row[at].strip() if at is not None and at < len(row) else ""


def read_statement(
    file: TextIO, columns: Mapping[str, str], *, currency: str | None
) -> Iterator[StatementLine]:
    """Read the lines of a statement, one at a time; `columns` has headings by field. Raises
    StatementError."""
    rows = csv.reader(file)
    where = _find_headings(rows, columns, currency)
    try:
        for row in rows:
            if any(map(str.strip, row)):
                line = _read_line(rows.line_num, row, where)
                if line is not None:
                    yield line
    except csv.Error as error:
        raise StatementError(f"line {rows.line_num} is no CSV: {error}") from None


def _find_headings(
    rows: Iterator[list[str]], columns: Mapping[str, str], currency: str | None
) -> StatementColumns:
    missing = set(columns.values())
    for _, row in zip(range(PREAMBLE_LINES_MAX), rows, strict=False):
        headings = [each.strip().casefold() for each in row]
        absent = {each for each in columns.values() if each.casefold() not in headings}
        if not absent:
            positions = {name: headings.index(each.casefold()) for name, each in columns.items()}
            return StatementColumns(positions, currency)
        missing = min(missing, absent, key=len)
    names = ", ".join(sorted(missing))
    raise StatementError(
        f"none of the first {PREAMBLE_LINES_MAX} lines has the headings; missing: {names}"
    )


def _read_line(number: int, row: list[str], columns: StatementColumns) -> StatementLine | None:
    """Return what a row says; None for a row without receipt, reference and amount, such as a
    total."""
    receipt, reference = (
        columns.cell(row, "receipt") or None,
        columns.cell(row, "reference") or None,
    )
    paid_in, paid_out = columns.cell(row, "paid_in"), columns.cell(row, "paid_out")
    amount = columns.cell(row, "amount") or (paid_in if _is_amount(paid_in) else paid_out)
    if not amount or (receipt is None and reference is None):
        return None
    currency = columns.cell(row, "currency").upper() or columns.currency
    if currency is None:
        raise StatementError(f"line {number} has no currency; name it with --currency")
    status = columns.cell(row, "status")
    known = _STATUSES.get(status.casefold()) if status else Status.SUCCESS
    if known is None:
        raise StatementError(f"line {number} has the status {status!r}, which is not known")
    fee = columns.cell(row, "fee")
    is_split = "paid_in" in columns.positions or "paid_out" in columns.positions
    return StatementLine(
        number,
        receipt,
        reference,
        _read_money(number, amount, currency),
        is_incoming=_is_amount(paid_in) if is_split else None,
        status=known,
        fee=_read_money(number, fee, currency) if _is_amount(fee) else None,
        is_fee=_FEE.search(columns.cell(row, "details")) is not None,
    )


def _is_amount(text: str) -> bool:
    """Tell whether a cell has an amount other than zero."""
    return bool(text.strip("+-0.,"))


def _read_money(number: int, text: str, currency: str) -> Money:
    """Return an amount without its sign; commas may part thousands."""
    try:
        value = Decimal(text.replace(",", ""))
        if not value.is_finite() or len(text) > 40:
            raise InvalidOperation
        return to_money(abs(value), currency)
    except InvalidOperation:
        raise StatementError(
            f"line {number} has the amount {text!r}; write it as 1,234.50"
        ) from None
    except AmountError as error:
        raise StatementError(f"line {number} has the amount {text}, which {error}") from None
    except KeyError:
        raise StatementError(
            f"line {number} has the currency {currency!r}, which ISO 4217 does not have"
        ) from None
