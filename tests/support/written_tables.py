"""Writes tables as people's programs do: six notations, three delimiters, four encodings, .xlsx."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import frozen
from openpyxl import Workbook

from mmo_merchant.reconciliation.comparison import StatementLine
from mmo_merchant.reconciliation.statement_file import StatementForm, StatementReader
from mmo_merchant.tables.faults import Fault
from mmo_merchant.tables.table_file import Columns, Table, TableForm, open_table
from mmo_sansio.values.money import Money

NOTATIONS: Final = (".", ",.", ",", ".,", " ,", "'.")
"""What stands between thousands, if anything, and before decimals."""
DELIMITERS: Final = (",", ";", "\t")
ENCODINGS: Final = ("utf-8", "utf-8-sig", "utf-16", "cp1252")
HEADINGS: Final = ("Id", "Note", "Amount")


def write_amount(amount: Money, notation: str) -> str:
    """Return an amount as it is written in a notation."""
    sign = "-" if amount.minor < 0 else ""
    whole, _, decimals = amount.text.removeprefix("-").partition(".")
    if len(notation) == 2:
        whole = f"{int(whole):,}".replace(",", notation[0])
    return f"{sign}{whole}{notation[-1] + decimals if decimals else ''}"


def quote(cell: str, delimiter: str) -> str:
    """Return a cell as it stands in CSV."""
    if any(each in cell for each in (delimiter, '"', "\n", "\r")):
        doubled = cell.replace('"', '""')
        return f'"{doubled}"'
    return cell


def write_csv(rows: list[list[str]], delimiter: str, encoding: str) -> bytes:
    """Return a CSV file."""
    lines = (delimiter.join(quote(cell, delimiter) for cell in row) for row in rows)
    return "".join(f"{line}\r\n" for line in lines).encode(encoding)


def write_xlsx(path: Path, rows: list[list[object]]) -> None:
    """Write the rows to the one sheet of a file."""
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(row)
    book.save(path)


@frozen
class Reading:
    """Is what was read of a statement."""

    lines: list[StatementLine]
    faults: list[Fault]
    totals: list[int]

    @property
    def signed(self) -> list[int]:
        """The minor units of the lines, negative for what went out."""
        return [
            -line.amount.minor if line.is_incoming is False else line.amount.minor
            for line in self.lines
        ]


def read_statement(path: Path, currency: str, form: TableForm | None = None) -> Reading:
    """Read a statement with the columns of HEADINGS."""
    columns = Columns({"receipt": "Id", "amount": "Amount"}, preamble_max=50)
    table = open_table(path, form or TableForm(), columns)
    if not isinstance(table, Table):
        return Reading([], table, [])
    reader = StatementReader(table, StatementForm(currency))
    lines = list(reader.lines())
    return Reading(lines, reader.faults, reader.totals)
