"""Reads a statement, or a ledger, from a table whose columns a map names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from attrs import define, field, frozen

from mmo_merchant.reconciliation.comparison import StatementLine
from mmo_merchant.tables.cells import Cell, number_cell
from mmo_merchant.tables.faults import CellFault, Fault
from mmo_merchant.tables.numbers import NumberFormat, find_format, is_zero
from mmo_merchant.tables.table_file import Row, Table
from mmo_merchant.tables.words import DIRECTION_WORDS, STATUS_WORDS, fold_word
from mmo_sansio.values.model import Status
from mmo_sansio.values.money import CURRENCIES, AmountError, Money, to_money

# What a map can name a column for. `paid_in` and `paid_out` are two columns for amounts, one of
# them empty; `details` is the text that tells fee lines from payments; `msisdn` has the number that
# paid or was paid, alone or with a name; `direction` has a word for money that came in or went out,
# beside an amount without a sign.
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
    "msisdn",
    "direction",
)

# What a total has none of.
KEYS: Final = ("receipt", "reference", "status")

# Columns of numbers, by which the notation of the file is found out.
AMOUNTS: Final = ("amount", "paid_in", "paid_out", "fee")

# Column maps by name.
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

# What some reports of a preset have as well.
OPTIONAL_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"mpesa": {"reference": "A/C No.", "msisdn": "Other Party Info"}}
)

# Different amounts that are kept: a month of a business has fewer.
_AMOUNTS_MAX: Final = 100_000

# Lines that may stand before the headings, as in M-Pesa's statements.
PREAMBLE_LINES_MAX: Final = 50

# Details of a fee line: `Pay merchant Charge`. An account name such as `school fees` is none.
_FEE: Final = re.compile(r"^charges?\b|\bcharges?\.?$", re.IGNORECASE)

# A number that is written in full, with the code of its country; masked ones pair nothing.
_MSISDN: Final = re.compile(r"(?<![0-9*+])\+?([1-9][0-9]{8,14})(?![0-9*])", re.ASCII)

_OUTGOING: Final = "amount that goes out"
_ONE_SIDE: Final = "Let each line have one amount: what came in, or what went out."
_ONE_SIGN: Final = "Write all amounts of the column with a minus, or none."


@frozen
class StatementForm:
    """Says what a statement means where it does not say it itself."""

    currency: str | None = None
    """The currency of a file that has no column for it."""
    numbers: NumberFormat | None = None
    """None: what stands before decimals is found out."""
    status_words: Mapping[str, Status] = MappingProxyType({})
    """What further words mean, folded."""


@define
class _Conventions:
    """Is what only the whole file tells of its numbers."""

    numbers: NumberFormat
    amount_of: Callable[[Cell, str], Money | None] = field(init=False, repr=False)
    """Returns the amount of a cell with its sign; None for a blank one. Raises CellFault. A file
    has few different amounts, and each is read once."""
    signed: set[str] = field(factory=set)
    """The columns of amounts that have a minus or a plus; the amounts that go out by the column of
    directions count as one of their own."""
    unsigned: set[str] = field(factory=set)
    """The columns that have an amount, and not zero, without a sign."""

    def __attrs_post_init__(self) -> None:
        # By type as well: `True` of a sheet is no 1.
        self.amount_of = lru_cache(_AMOUNTS_MAX, typed=True)(self._read_amount)

    def _read_amount(self, cell: Cell, currency: str) -> Money | None:
        written = number_cell(cell)
        if written == "":
            return None
        try:
            return to_money(self.numbers.read(written, currency), currency)
        except AmountError as error:
            raise CellFault(str(error), "Correct the amount.") from None

    def has_both_signs(self, name: str) -> bool:
        """Tell whether a column has amounts with a sign and others without one."""
        return name in self.signed and name in self.unsigned


@define
class StatementReader:
    """Reads the lines of a statement, and keeps what it could not read."""

    table: Table
    form: StatementForm
    faults: list[Fault] = field(factory=list)
    """If there are any, the file is not to be used."""
    totals: list[int] = field(factory=list)
    """The lines that have a total or a balance, which are left out."""
    without_reference: list[int] = field(factory=list)
    """The lines that `references` has found to have none."""

    def lines(self) -> Iterator[StatementLine]:
        """Yield the lines, one at a time. Raises OSError."""
        # Twice through the file: a sign, or a notation, may show in its last line alone.
        conventions = self._survey()
        for row in self._payment_rows():
            try:
                yield self._read(row, conventions)
            except CellFault as fault:
                self.faults.append(fault.at(row.line))

    def references(self) -> Iterator[str]:
        """Yield the references alone, for which an amount may be blank. Raises OSError."""
        conventions = self._survey()
        for row in self._payment_rows():
            try:
                self._check_amounts(row, conventions)
                reference = self.table.key(row, "reference")
            except CellFault as fault:
                self.faults.append(fault.at(row.line))
                continue
            if reference:
                yield reference
            else:
                self.without_reference.append(row.line)

    def _payment_rows(self) -> Iterator[Row]:
        for row in self.table.rows():
            if isinstance(row, Fault):
                self.faults.append(row)
            elif self.table.is_total(row, KEYS):
                self.totals.append(row.line)
            else:
                yield row

    def _survey(self) -> _Conventions:
        """Look through the whole file for what no line alone tells."""
        conventions = _Conventions(self.form.numbers or find_format(self._number_texts()))
        for row, column, cell in self._number_cells():
            # The amounts that a column of directions sends out have a convention of their own.
            if column == "amount" and self._is_told_to_go_out(row):
                name = _OUTGOING
            else:
                name = column

            if isinstance(cell, Decimal):
                is_signed = cell < 0
            else:
                is_signed = cell[0] in "+-"

            names = conventions.signed if is_signed else conventions.unsigned
            if name in names or is_zero(cell) or self.table.is_total(row, KEYS):
                continue

            # A fee in the column of amounts may have a sign of its own.
            if name == "fee" or not self._is_fee(row):
                names.add(name)

        return conventions

    def _is_told_to_go_out(self, row: Row) -> bool:
        word = self.table.cell(row, "direction")
        return isinstance(word, str) and DIRECTION_WORDS.get(fold_word(word)) is False

    def _number_texts(self) -> Iterator[str]:
        return (cell for _, _, cell in self._number_cells() if isinstance(cell, str))

    def _number_cells(self) -> Iterator[tuple[Row, str, str | Decimal]]:
        """Yield the cells of all amounts that are not blank."""
        names = [name for name in AMOUNTS if name in self.table.positions]
        for row in self.table.rows():
            if isinstance(row, Fault):
                continue
            for name in names:
                cell = self.table.cell(row, name)
                if isinstance(cell, str):
                    cell = cell.strip()
                if cell and isinstance(cell, str | Decimal):
                    yield row, name, cell

    def _is_fee(self, row: Row) -> bool:
        details = self.table.cell(row, "details")
        return isinstance(details, str) and _FEE.search(details.strip()) is not None

    def _read(self, row: Row, conventions: _Conventions) -> StatementLine:
        """Return what a row says. Raises CellFault."""
        receipt = self.table.key(row, "receipt") or None
        reference = self.table.key(row, "reference") or None
        # Nothing could find the payment, and a line must not be left out in silence.
        if receipt is None and reference is None:
            raise CellFault("has neither receipt nor reference", "Write one, or remove the line.")

        currency = self._currency(row)
        name, amount = self._amount(row, conventions, currency)
        fee = self._optional_amount(row, "fee", conventions, currency)

        # A minus may be a fee or one that came back, and nothing tells which.
        if fee is not None and fee.minor and conventions.has_both_signs("fee"):
            raise CellFault("has both signs in the file", _ONE_SIGN, "fee")

        # A fee of zero is none: it would differ from a record that has no word of one.
        told_fee = None
        if fee is not None and fee.minor:
            told_fee = Money(abs(fee.minor), fee.currency)

        return StatementLine(
            row.line,
            receipt,
            reference,
            Money(abs(amount.minor), amount.currency),
            is_incoming=self._is_incoming(row, name, amount, conventions),
            status=self._status(row),
            fee=told_fee,
            is_fee=self._is_fee(row),
            msisdn=self._msisdn(row),
        )

    def _msisdn(self, row: Row) -> str:
        """Return the digits of the number; empty where none, or more than one, is in full."""
        cell = self.table.cell(row, "msisdn")
        if isinstance(cell, Decimal):
            cell = f"{cell:f}"

        numbers = []
        if isinstance(cell, str):
            numbers = _MSISDN.findall(cell)
        if len(numbers) == 1:
            return str(numbers[0])
        return ""

    def _currency(self, row: Row) -> str:
        currency = self.form.currency
        if "currency" in self.table.positions:
            currency = self.table.text(row, "currency").upper() or currency
        if currency is None:
            raise CellFault("is missing", "Name that of the file by --currency.", "currency")
        if currency not in CURRENCIES:
            raise CellFault("is not known", "Write a code of ISO 4217, such as KES.", "currency")
        return currency

    def _amount(self, row: Row, conventions: _Conventions, currency: str) -> tuple[str, Money]:
        """Return the column that has the amount, and the amount with its sign. Raises CellFault."""
        # Some reports write 0.00 into the column that no money moved by.
        amounts = {
            name: amount
            for name in ("amount", "paid_in", "paid_out")
            if name in self.table.positions
            and (amount := self._optional_amount(row, name, conventions, currency)) is not None
        }
        moved = {name: amount for name, amount in amounts.items() if amount.minor}
        if len(moved) > 1:
            raise CellFault("is in two columns", _ONE_SIDE, "amount")
        if not amounts:
            raise CellFault("is blank", "Write it, or remove the line.", "amount")

        # A line of zeros alone is one of zero.
        return next(iter((moved or amounts).items()))

    def _optional_amount(
        self, row: Row, name: str, conventions: _Conventions, currency: str
    ) -> Money | None:
        """Return the amount of a column with its sign; None for a blank cell. Raises CellFault."""
        if name not in self.table.positions:
            return None
        try:
            return conventions.amount_of(self.table.cell(row, name), currency)
        except CellFault as fault:
            raise fault.of(name) from None

    def _check_amounts(self, row: Row, conventions: _Conventions) -> None:
        """Raise CellFault where an amount is none: the row may be another one than it seems."""
        if self.form.currency is None and "currency" not in self.table.positions:
            return
        currency = self._currency(row)
        for name in AMOUNTS:
            self._optional_amount(row, name, conventions, currency)

    def _is_incoming(
        self, row: Row, name: str, amount: Money, conventions: _Conventions
    ) -> bool | None:
        """Return whether money came to the merchant; None where the file does not say.

        Money that went out may have a minus, as in M-Pesa's statements, or none; where the column
        has both, some of it came back, and nothing tells which. Raises CellFault."""
        is_negative = amount.minor < 0

        # 1. A column of words tells it, whatever the signs are.
        if name == "amount" and "direction" in self.table.positions:
            return self._told_direction(row, amount, conventions)

        # 2. Two columns: money that went out may have come back, which only a sign would tell.
        if name == "paid_out":
            if conventions.has_both_signs(name) and not self._is_fee(row):
                raise CellFault("has both signs in the file", _ONE_SIGN, name)
            return False

        # 3. A fee among the amounts goes out; without a minus nothing says so.
        if name == "amount" and self._is_fee(row):
            if is_negative:
                return False
            return None

        # 4. A sign tells it, where the file has signs at all.
        if name == "paid_in" or is_negative or "amount" in conventions.signed:
            return not is_negative

        return None

    def _told_direction(self, row: Row, amount: Money, conventions: _Conventions) -> bool:
        """Return what the column of directions says; as with `paid_out`, amounts that go out have
        one sign. Raises CellFault."""
        written = self.table.text(row, "direction")
        is_incoming = DIRECTION_WORDS.get(fold_word(written))
        if is_incoming is None:
            remedy = "Write credit or debit, or leave the column out if the amounts have signs."
            raise CellFault(f"is {written!r}, which is not known", remedy, "direction")

        if is_incoming and amount.minor < 0:
            remedy = "Leave the column out if the signs are right, or correct the line."
            raise CellFault("is not that of the sign of the amount", remedy, "direction")

        # A minus may be money that went out, or some of it that came back.
        if not is_incoming and conventions.has_both_signs(_OUTGOING):
            raise CellFault("has both signs in the file where it goes out", _ONE_SIGN, "amount")

        return is_incoming

    def _status(self, row: Row) -> Status:
        if "status" not in self.table.positions:
            return Status.SUCCESS
        written = self.table.text(row, "status")
        word = fold_word(written)
        # The file's own words count more than ours.
        status = self.form.status_words.get(word) or STATUS_WORDS.get(word)
        if status is None:
            remedy = f'Say what it means by --status-word "{written}=success", failed or pending.'
            raise CellFault(f"is {written!r}, which is not known", remedy, "status")
        return status
