"""Reads the rows of a sheet of an .xlsx file, with dates and numbers as the sheet has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import BadZipFile, ZipFile

from mmo_merchant.tables.cells import Cell, Unreadable
from mmo_merchant.tables.faults import Fault
from mmo_merchant.tables.numbers import SHEET_DIGITS

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook

# A small archive may unpack to any size; no table that people keep is so large.
UNPACKED_BYTES_MAX: Final = 1 << 30

# Noise behind the fifteenth digit of a binary float is no part of the number.
_DIGITS: Final = Context(prec=SHEET_DIGITS)

# Formats that show other digits than those of the number: `000` adds zeros, and `%` a hundredfold.
_CHANGED: Final = re.compile(r"^0{2,}$|%")


def read_sheet(path: Path, sheet: str | None) -> Iterator[tuple[int, Sequence[Cell]] | Fault]:
    """Yield each row of the sheet of that name, or of the only one that has any, with its
    number."""
    # The package is an extra: who has only CSV files needs none of it.
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ModuleNotFoundError:
        remedy = "Run: pip install 'mmo-gateway[xlsx]'. Or save it as CSV in UTF-8."
        yield Fault(1, "", "is .xlsx, for which a package is not installed", remedy)
        return

    remedy = "Open it in a spreadsheet program, and save it as .xlsx or as CSV in UTF-8."
    try:
        with ZipFile(path) as parts:
            if sum(part.file_size for part in parts.infolist()) > UNPACKED_BYTES_MAX:
                yield Fault(1, "", "is larger than a table can be", "Save it as CSV in UTF-8.")
                return

        # A formula is known only by the one, and its value by the other.
        formulas = load_workbook(path, read_only=True)
        values = load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, InvalidFileException, KeyError, ValueError, OSError, TypeError) as error:
        yield Fault(1, "", f"is no .xlsx file ({type(error).__name__})", remedy)
        return

    # A damaged part shows only when it is read, by errors of the archive, of XML and of the
    # package.
    try:
        name = _choose_sheet(values, sheet)
        if isinstance(name, Fault):
            yield name
            return

        pairs = zip(_rows(formulas, name), _rows(values, name), strict=True)
        for number, (formula_row, value_row) in enumerate(pairs, 1):
            cells = [
                _cell(formula, value) for formula, value in zip(formula_row, value_row, strict=True)
            ]
            yield number, cells
    except (BadZipFile, KeyError, ValueError, OSError, TypeError, SyntaxError) as error:
        yield Fault(1, "", f"can't be read as .xlsx ({type(error).__name__})", remedy)
    finally:
        formulas.close()
        values.close()


def _choose_sheet(book: Workbook, named: str | None) -> str | Fault:
    names = [worksheet.title for worksheet in book.worksheets if worksheet.sheet_state == "visible"]
    if named is not None:
        if named in book.sheetnames:
            return named
        return Fault(1, "", f"has no sheet {named!r}", f"It has {', '.join(names)}.")

    # Without a name there must be one sheet that can be meant; hidden ones are nobody's table.
    filled = [name for name in names if any(map(_has_value, _rows(book, name)))]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        return Fault(1, "", "has no visible sheet with a cell", "Save the table in a sheet.")

    return Fault(1, "", f"has {len(filled)} sheets", f"Choose by --sheet: {', '.join(filled)}.")


def _rows(book: Workbook, name: str) -> Iterator[Sequence[Any]]:
    sheet = book[name]
    # Some programs write a wrong size, by which rows would be missing.
    sheet.reset_dimensions()
    return sheet.iter_rows()


def _has_value(row: Sequence[Any]) -> bool:
    return any(cell.value is not None for cell in row)


def _cell(formula: Any, shown: Any) -> Cell:
    """Return what a cell has; a program that computes nothing leaves a formula without value."""
    value = shown.value
    # The sheet's own error, such as #N/A, is no value.
    if shown.data_type == "e":
        return Unreadable("is an error of a spreadsheet program")

    if value is None:
        if formula.value is not None:
            return Unreadable("is a formula without a value")
        return None

    if isinstance(value, bool | str | date | time | timedelta):
        return value
    if isinstance(value, int | float):
        return _number(value, shown.number_format)

    return Unreadable("has a kind of value that is not known")


def _number(value: float, number_format: str) -> Cell:
    """Return a number without the noise behind the digits that a sheet keeps; what it shows instead
    of the digits is no number."""
    if _CHANGED.search(number_format):
        return Unreadable(f"is a number that the sheet shows otherwise ({number_format})")
    number = _DIGITS.create_decimal(repr(value))

    # Above 10^15 a float does not hold every whole number: the last digits may be lost.
    if not number.is_finite() or abs(number) >= 10**SHEET_DIGITS:
        return Unreadable(f"is a number of more digits than the {SHEET_DIGITS} that a sheet keeps")
    if number == int(number):
        return Decimal(int(number))
    return number
