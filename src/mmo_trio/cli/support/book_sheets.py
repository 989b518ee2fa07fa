"""Writes the book of a month as a spreadsheet (.xlsx), with numbers and times as such."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font

from mmo_sansio.accounting.book_rows import BOOK_COLUMNS, Cell, book_rows
from mmo_sansio.accounting.month_books import MonthBook
from mmo_sansio.values.money import Money, decimals_of
from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.cli.support.output_files import open_binary_output

# The most rows of a sheet (ECMA-376; Excel's limits).
ROWS_MAX: Final = 1_048_576

# Characters that no XML 1.0 document may have (section 2.2).
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def write_sheet(book: MonthBook, output: Path) -> None:
    """Write the book. Raises UsageProblem when it has more rows than a sheet."""
    # Row by row: a book of a million entries would not fit into memory as cells.
    workbook = Workbook(write_only=True)
    sheet: Any = workbook.create_sheet("Books")
    sheet.freeze_panes = "A2"
    heading = Font(bold=True)
    sheet.append([_text_cell(sheet, name, font=heading) for name in BOOK_COLUMNS])

    for number, row in enumerate(book_rows(book), 2):
        if number > ROWS_MAX:
            raise UsageProblem("The book has more rows than a sheet: write it as CSV.")
        sheet.append(_cells(sheet, row))

    with open_binary_output(output) as to:
        workbook.save(to)


def _cells(sheet: Any, row: Sequence[Cell]) -> Sequence[Any]:
    return [_cell(sheet, cell) for cell in row]


def _cell(sheet: Any, cell: Cell) -> Any:
    match cell:
        case None | int():
            return cell
        case Money():
            decimals = decimals_of(cell.currency)
            amount: Any = Decimal(cell.text)
            written = WriteOnlyCell(sheet, value=amount)

            # As many decimals as the currency has: a sheet would show 1.5 for 1.50.
            written.number_format = "0"
            if decimals:
                written.number_format = f"0.{'0' * decimals}"
        case datetime():
            # A sheet shows milliseconds, and would round the last of a month up to the next one.
            cut = cell.microsecond // 1_000 * 1_000
            # A sheet has no time zones: the book's own zone is that of all its times.
            written = WriteOnlyCell(sheet, value=cell.replace(tzinfo=None, microsecond=cut))
            written.number_format = "yyyy-mm-dd hh:mm:ss.000"
        case date():
            day: Any = cell
            written = WriteOnlyCell(sheet, value=day)
            written.number_format = "yyyy-mm-dd"
        case str():
            return _text_cell(sheet, cell)

    return written


def _text_cell(sheet: Any, text: str, font: Font | None = None) -> Any:
    """Return a cell that is text, whatever it begins with: a formula would be run."""
    written = WriteOnlyCell(sheet, value=_NOT_XML.sub("?", text))
    written.data_type = "s"
    if font is not None:
        written.font = font
    return written
