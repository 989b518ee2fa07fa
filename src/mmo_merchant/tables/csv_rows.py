"""Reads the rows of a CSV file strictly (RFC 4180): what is no CSV is a fault with its line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Final

from mmo_merchant.tables.faults import Fault

# What may stand between cells, by the word of an option.
DELIMITER_NAMES: Final = MappingProxyType({",": ",", ";": ";", "tab": "\t", "|": "|"})

_REMEDY: Final = "Put cells with quotation marks into quotation marks, and double those in a cell."
# What no table of people has in a cell: it hides text, or comes from a damaged file.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029]")


def read_csv(text: Iterable[str], delimiter: str) -> Iterator[tuple[int, Sequence[str]] | Fault]:
    """Yield each row with the number of its first line, from 1. Nothing can be read behind a row
    that is no CSV, so a fault of one is the last."""
    # The lines of the row that is being read.
    written = list[str]()

    def lines() -> Iterator[str]:
        for line in text:
            written.append(line)
            yield line

    # The parser joins lines that a quoted cell has; they are kept beside it, to look at what it
    # read.
    rows = csv.reader(lines(), delimiter=delimiter, strict=True)
    quoted = _row_expression(delimiter)
    number = 1
    try:
        for row in rows:
            text_of_row = written[0]
            if len(written) > 1:
                text_of_row = "".join(written)

            # The parser takes a quotation mark within a cell for a letter of it.
            if '"' in text_of_row and quoted.fullmatch(text_of_row) is None:
                yield Fault(number, "", "has a stray quotation mark", _REMEDY)
                return

            # Only a row with what does not print is searched for what may not be there.
            if not text_of_row.rstrip("\r\n").isprintable() and _CONTROL.search(text_of_row):
                remedy = "Remove it, or save the file as CSV in UTF-8."
                yield Fault(number, "", "has a control character", remedy)
                return

            yield number, row
            written.clear()
            number = rows.line_num + 1
    except csv.Error as error:
        yield Fault(number, "", f"is no CSV ({error})", _REMEDY)


def _row_expression(delimiter: str) -> re.Pattern[str]:
    """Return the expression of a row: each cell is quoted, a text that Excel keeps, or bare."""
    # Atomic and possessive: no row makes the expression try again and again.
    mark = re.escape(delimiter)
    cell = rf'(?>"(?:[^"]|"")*+"|="[^"\r\n]*+"|[^"\r\n{mark}]*+)'
    return re.compile(rf"{cell}(?:{mark}{cell})*+[\r\n]*+")
