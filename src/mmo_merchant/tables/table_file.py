"""Reads a file of people, CSV or .xlsx, to rows of cells below headings.

A row that can't be read in one way is a fault with its line: nothing is left out in silence."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

from mmo_merchant.tables.cells import Cell, cell_text, key_text, number_cell
from mmo_merchant.tables.csv_rows import DELIMITER_NAMES, read_csv
from mmo_merchant.tables.encodings import Encoding, find_encoding
from mmo_merchant.tables.faults import CellFault, Fault
from mmo_merchant.tables.sheet_rows import read_sheet
from mmo_merchant.tables.words import is_total_row

# The first bytes of an archive, which .xlsx is, and of Excel's older files, in which those with a
# password are wrapped as well.
_XLSX: Final = b"PK\x03\x04"
_OLD_EXCEL: Final = b"\xd0\xcf\x11\xe0"

# The first line by which Excel is told the delimiter.
_SEPARATOR: Final = re.compile(r"sep=(.)[\r\n]*")

_WIDTH: Final = "Put cells that have the delimiter into quotation marks, and leave no cell out."
_Rows: TypeAlias = Iterator[tuple[int, Sequence[Cell]] | Fault]


@frozen
class TableForm:
    """Says how a file is written, where that is not to be found out."""

    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    """The sheet of an .xlsx file."""


@frozen
class Columns:
    """Says which columns a table needs, and which it may have."""

    required: Mapping[str, str]
    """Headings by field."""
    optional: Mapping[str, str] = MappingProxyType({})
    preamble_max: int = 0
    """How many lines may stand before the headings."""


@frozen
class Row:
    """Is a row below the headings; at the end of that of a sheet cells may be missing."""

    line: int
    cells: Sequence[Cell]


@frozen
class Source:
    """Is a file, or a text, whose rows can be read, by one delimiter."""

    rows: Callable[[], _Rows]
    """Yields all rows. Raises OSError."""
    delimiter: str
    is_sheet: bool = False
    is_encoding_guessed: bool = False


@frozen
class Table:
    """Is a table whose headings were found. It can be read several times."""

    source: Source
    names: Sequence[str]
    """The headings as they are written."""
    headings: Sequence[str]
    """The headings as they are compared."""
    headings_line: int
    positions: Mapping[str, int]
    """The columns of the fields that have one."""

    def rows(self) -> Iterator[Row | Fault]:
        """Yield the rows that are not blank. Raises OSError."""
        width = len(self.headings)
        # A fault is a row, too: who reads the table decides what follows from it.
        for row in self.source.rows():
            if isinstance(row, Fault):
                yield row
                continue

            line, cells = row
            if line <= self.headings_line or _are_blank(cells):
                continue

            # A program may keep cells that were once filled, to the right of the table.
            if self.source.is_sheet:
                cells = _without_blank_end(cells)

            # One cell too many, or too few, moves all others: an amount would be another column's.
            if len(cells) > width or (len(cells) < width and not self.source.is_sheet):
                yield Fault(line, "", f"has {len(cells)} cells, and {width} headings", _WIDTH)
            # Tables that were joined; most rows differ in the first cell already.
            elif _fold(cells[0]) == self.headings[0] and self._is_headings(cells):
                yield Fault(line, "", "repeats the headings", "Remove the line.")
            else:
                yield Row(line, cells)

    def _is_headings(self, cells: Sequence[Cell]) -> bool:
        return [_fold(cell) for cell in cells] == [*self.headings]

    def cell(self, row: Row, field: str) -> Cell:
        """Return the cell of a field; None where the table has no column for it."""
        at = self.positions.get(field)
        if at is not None and at < len(row.cells):
            return row.cells[at]
        return None

    def text(self, row: Row, field: str) -> str:
        """Return the text of a field; empty where there is none. Raises CellFault."""
        try:
            return cell_text(self.cell(row, field))
        except CellFault as fault:
            raise fault.of(field) from None

    def key(self, row: Row, field: str) -> str:
        """Return the text of a field by which a payment or a person is known. Raises CellFault."""
        try:
            return key_text(self.cell(row, field), is_guessed=self.source.is_encoding_guessed)
        except CellFault as fault:
            raise fault.of(field) from None

    def number(self, row: Row, field: str) -> str | Decimal:
        """Return what the cell of a number has. Raises CellFault for what can be none."""
        try:
            return number_cell(self.cell(row, field))
        except CellFault as fault:
            raise fault.of(field) from None

    def is_total(self, row: Row, keys: Iterable[str]) -> bool:
        """Tell whether a row is about a total, and has nothing else in these fields, by which a
        payment or a person is known."""
        cells = [cell for field in keys if (cell := self.cell(row, field)) is not None]
        texts = [cell.strip() for cell in cells if isinstance(cell, str)]
        # A number or a date in the field of a key: the row is about a payment.
        if len(texts) < len(cells):
            return False
        others = (cell.strip() for cell in row.cells if isinstance(cell, str))
        return is_total_row(texts, others)


def open_table(path: Path, form: TableForm, columns: Columns) -> Table | list[Fault]:
    """Find the headings of a table and, by them, its delimiter. Raises OSError."""
    sources = _find_sources(path, form)
    if isinstance(sources, Fault):
        return [sources]
    return _choose_table(sources, columns)


def read_text(lines: Iterable[str], form: TableForm, columns: Columns) -> Table | list[Fault]:
    """Find the headings of a table in the lines of a text."""
    kept = list(lines)
    delimiters = tuple(DELIMITER_NAMES.values())
    if form.delimiter is not None:
        delimiters = (form.delimiter,)

    sources = [Source(partial(read_csv, kept, delimiter), delimiter) for delimiter in delimiters]
    return _choose_table(sources, columns)


def _choose_table(sources: Sequence[Source], columns: Columns) -> Table | list[Fault]:
    # By another delimiter than its own a file has fewer of the headings.
    readings = [_find_headings(source, columns) for source in sources]
    tables = [reading for reading in readings if isinstance(reading, Table)]
    if not tables:
        return next(problem for problem in readings if isinstance(problem, list))

    # Fewest required headings missing, then most columns: the file's own delimiter.
    best = min(
        tables, key=lambda table: (len(_missing(table.headings, columns)), -len(table.headings))
    )
    faults = [*_heading_faults(best, columns)]
    return faults or best


def _find_sources(path: Path, form: TableForm) -> list[Source] | Fault:
    """Return the file with each delimiter that it may have."""
    # The name of a file may be wrong: its first bytes say what it is.
    with path.open("rb") as file:
        start = file.read(8)

    if start.startswith(_OLD_EXCEL):
        remedy = "Save it as .xlsx, or as CSV in UTF-8."
        return Fault(1, "", "is a file of Excel 2003 or older, or is locked", remedy)

    if start.startswith(_XLSX):
        return [Source(partial(read_sheet, path, form.sheet), ",", is_sheet=True)]

    try:
        encoding = find_encoding(path, form.encoding)
    except LookupError:
        return Fault(1, "", f"has no encoding {form.encoding!r}", "Name one such as cp1252.")

    if isinstance(encoding, Fault):
        return encoding

    # Any delimiter may be its own, unless the option names it or Excel's first line does.
    delimiters = tuple(DELIMITER_NAMES.values())
    if form.delimiter is not None:
        delimiters = (form.delimiter,)

    with path.open(encoding=encoding.name, newline="") as text:
        separator_line = _SEPARATOR.fullmatch(text.readline(8))

    if separator_line is not None and form.delimiter is None:
        delimiters = (separator_line[1],)

    return [
        Source(
            partial(_read_file, path, encoding, delimiter),
            delimiter,
            is_encoding_guessed=encoding.is_guessed,
        )
        for delimiter in delimiters
    ]


def _read_file(path: Path, encoding: Encoding, delimiter: str) -> _Rows:
    with path.open(encoding=encoding.name, newline="") as text:
        yield from read_csv(text, delimiter)


def _find_headings(source: Source, columns: Columns) -> Table | list[Fault]:
    """Return the table below the row that has most of the required headings."""
    best: Table | None = None
    seen = 0
    for row in source.rows():
        if isinstance(row, Fault):
            # A row that is no CSV ends the search: the headings that were found before it count.
            return best or [row]

        line, cells = row
        if _are_blank(cells) or _is_separator(line, cells):
            continue

        if source.is_sheet:
            cells = _without_blank_end(cells)

        names = [_heading_text(cell) for cell in cells]
        headings = [_fold(cell) for cell in cells]
        missing = _missing(headings, columns)
        if best is None or len(missing) < len(_missing(best.headings, columns)):
            best = Table(source, names, headings, line, _find_positions(headings, columns))

        # Of several rows before a table the one with most of the headings counts.
        seen += 1
        if not missing or seen > columns.preamble_max:
            break

    return best or [Fault(1, "", "has no headings", "Write them into the first line.")]


def _is_separator(line: int, cells: Sequence[Cell]) -> bool:
    return line == 1 and len(cells) <= 2 and isinstance(cells[0], str) and cells[0] == "sep="


def _missing(headings: Sequence[str], columns: Columns) -> list[str]:
    return [name for name, heading in columns.required.items() if _fold(heading) not in headings]


def _find_positions(headings: Sequence[str], columns: Columns) -> dict[str, int]:
    """Return the columns of the fields. MTN's report has a currency behind each of its amounts."""
    wanted = {**columns.optional, **columns.required}
    positions = {
        name: headings.index(_fold(heading))
        for name, heading in wanted.items()
        if _fold(heading) in headings
    }
    if "currency" in positions and _has_currency_behind_amount(headings, positions):
        positions["currency"] = positions["amount"] + 1
    return positions


def _has_currency_behind_amount(headings: Sequence[str], positions: Mapping[str, int]) -> bool:
    behind = positions.get("amount", -1) + 1
    return 0 < behind < len(headings) and headings[behind] == headings[positions["currency"]]


def _heading_faults(table: Table, columns: Columns) -> Iterator[Fault]:
    line = table.headings_line
    for name in _missing(table.headings, columns):
        problem = f"no heading is {columns.required[name]!r}"
        yield Fault(line, name, problem, f"Name its column by --map {name}=HEADING.")

    # A second column of a heading that is used: which one is meant, nobody can tell.
    for name, at in table.positions.items():
        count = table.headings.count(table.headings[at])
        is_told = name == "currency" and _has_currency_behind_amount(
            table.headings, table.positions
        )
        if count > 1 and not is_told:
            problem = f"has {count} columns {table.names[at]!r}"
            yield Fault(line, name, problem, "Rename those that are not meant.")


def _is_blank(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _are_blank(cells: Sequence[Cell]) -> bool:
    # Most rows have their first cell.
    return not cells or (_is_blank(cells[0]) and all(map(_is_blank, cells)))


def _without_blank_end(cells: Sequence[Cell]) -> Sequence[Cell]:
    end = len(cells)
    while end and _is_blank(cells[end - 1]):
        end -= 1
    return cells[:end]


def _heading_text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell.strip()
    return ""


def _fold(cell: Cell) -> str:
    """Return a heading as it is compared."""
    if not isinstance(cell, str):
        return ""

    # An accent may be a character of its own, or part of its letter: both look the same.
    text = " ".join(cell.split())
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return text.casefold()
