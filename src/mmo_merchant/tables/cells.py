"""Reads single cells: what spreadsheet programs do to a text is undone, and what they have lost is
told."""

from __future__ import annotations

import re
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from attrs import frozen

from mmo_merchant.tables.faults import CellFault
from mmo_sansio.values.formula_guard import unguard_cell


@frozen
class Unreadable:
    """Is a cell of a sheet without a value that could be used."""

    problem: str


# A date may have a time of day. A cell of a CSV file is a text.
Cell: TypeAlias = "str | Decimal | bool | date | time | timedelta | Unreadable | None"

_AS_TEXT: Final = "Format the column as text, and write the cell again."

# How Excel's users keep a text from being taken for a number.
_KEPT_AS_TEXT: Final = re.compile(r'="((?:[^"]|"")*+)"', re.DOTALL)

# `1.23E+11` is what Excel makes of a long number: its last digits are gone.
_SHORTENED: Final = re.compile(r"[0-9](?:[.,][0-9]+)?E\+[0-9]{2,}", re.ASCII | re.IGNORECASE)
_ERRORS: Final = frozenset(
    ("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!")
)

# What may be left of `1'500` without its first digit: in an amount it is no guard of a text.
_REST_OF_NUMBER: Final = re.compile(r"'[0-9]", re.ASCII)

# What programs write for a letter that they could not read.
_LOST: Final = "\N{REPLACEMENT CHARACTER}"


def cell_text(cell: Cell) -> str:
    """Return the text of a cell, without what keeps it a text; empty for no cell. Raises CellFault
    for a value of a sheet that is no text."""
    match cell:
        case None:
            return ""
        case str():
            return _undo(cell.strip())
        case bool():
            raise CellFault("is a truth value", _AS_TEXT)
        case Decimal():
            return f"{cell:f}"
        case Unreadable():
            raise CellFault(cell.problem, "Write the value itself into the cell.")
        case _:
            raise CellFault("is a date or a time", _AS_TEXT)


def key_text(cell: Cell, *, is_guessed: bool) -> str:
    """Return the text of a cell by which a payment or a person is known. Raises CellFault for one
    that may have had another text before a program changed it."""
    if isinstance(cell, str) and cell.isascii() and cell.isalnum():
        return cell  # Nothing below is about letters and digits alone.

    # What a program made of the text can't be undone: the source has what it was.
    text = cell_text(cell)
    if text in _ERRORS:
        raise CellFault("is an error of a spreadsheet program", _AS_TEXT)
    if _SHORTENED.fullmatch(text):
        raise CellFault("was made a number and shortened by a spreadsheet program", _AS_TEXT)
    if _LOST in text:
        raise CellFault("has letters that were lost", "Take it from the source again.")

    # It may be a letter of another alphabet, and the key then that of nobody, or of somebody else.
    if is_guessed and not text.isascii():
        remedy = "Save the file as CSV in UTF-8, or name what it has by --encoding, such as cp1252."
        raise CellFault("has letters in an encoding that can only be guessed", remedy)

    return text


def shown_text(cell: Cell, mark: str) -> str:
    """Return what people see in a cell, for another table, with this before decimals; empty for
    what has no value."""
    if cell is None or isinstance(cell, Unreadable):
        return ""
    if isinstance(cell, Decimal):
        return f"{cell:f}".replace(".", mark)
    if isinstance(cell, str):
        return _undo(cell)
    return str(cell)


def number_cell(cell: Cell) -> str | Decimal:
    """Return what a cell of a number has: a text, or the number of a sheet. Raises CellFault for
    another value."""
    # It may guard a text, or be what an editor left of a number: 1 or 1001 is a difference of
    # money.
    if isinstance(cell, str) and _REST_OF_NUMBER.match(cell.strip()):
        remedy = "Write the number without the apostrophe, and look whether it is whole."
        raise CellFault("begins with an apostrophe as if thousands stood before it", remedy)
    if isinstance(cell, Decimal):
        return cell
    return cell_text(cell)


def _undo(text: str) -> str:
    # Most cells are as they were written.
    if text[:1] not in ("=", "'") and "'" not in text:
        return text
    kept = _KEPT_AS_TEXT.fullmatch(text)
    if kept:
        return kept[1].replace('""', '"').strip()
    return unguard_cell(text)
