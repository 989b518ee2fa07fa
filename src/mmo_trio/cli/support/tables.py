"""Prints tables for people, in which nothing that they copy is broken: where the terminal is too
narrow for that, each row becomes a paragraph, or an entry of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import click
from attrs import frozen
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mmo_sansio.values.clock import Instant
from mmo_trio.cli.support.output import format_second, print_json, terminal, to_cell

# The columns whose cells may have spaces, and are copied whole nevertheless.
UNBROKEN_COLUMNS = frozenset({"merchantReference"})

# Cells between two columns.
COLUMN_GAP = 2

# The width to which a column of sentences is narrowed at most.
TEXT_WIDTH_MIN = 30

# What stands between two values of a row that is a paragraph, and before its further lines.
PAIR_GAP = "   "
PARAGRAPH_INDENT = "  "

# Cells before what an entry of a list says: its time of day.
TIME_WIDTH = len("00:03:27  ")

# A time as JSON has it.
EXACT_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{6}Z", re.ASCII)


def print_table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; its cells are printed as they are, never interpreted as markup.

    A cell is broken between words only: where the terminal is too narrow for that, each row becomes
    a paragraph."""
    console = terminal()
    cells = [[to_cell(cell) for cell in row] for row in rows]

    # 1. Too narrow: a table would break references, which people copy.
    widths = _column_widths(columns, cells, console.width)
    if widths is None:
        for row in cells:
            _print_paragraph(console, columns, row)
        return

    # 2. To a terminal as Rich draws it.
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, width=width)

    for row in cells:
        table.add_row(*row)

    if console.is_terminal:
        console.print(table)
        return

    # 3. To a file or a pipe without the spaces that fill the last column.
    with console.capture() as capture:
        console.print(table)

    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


@frozen
class ListEntry:
    """Holds what a list says of one thing where there is no room for a table."""

    at: Instant
    first_line: Sequence[object]
    """What stands behind the time."""
    second_line: Sequence[object]
    """What stands below, on a line of its own."""
    words: str = ""
    """What stands below that, and is broken between words."""


def print_list(
    columns: Sequence[str], rows: Sequence[Sequence[object]], entries: Sequence[ListEntry]
) -> None:
    """Print a table; where the terminal is too narrow for that, the entries: without labels, each
    with its time of day, under a heading for each day (UTC)."""
    console = terminal()
    cells = [[to_cell(cell) for cell in row] for row in rows]
    if _column_widths(columns, cells, console.width) is not None:
        print_table(columns, rows)
        return

    day = ""
    for entry in entries:
        at = format_second(entry.at)
        if at[:10] != day:
            day = at[:10]
            console.print(Text(f"{day} UTC", style="bold"))

        _print_entry(console, at[11:19], entry)


def _print_entry(console: Console, time: str, entry: ListEntry) -> None:
    """Print an entry: as much on a line as it has room for, and none of it is broken."""
    # 1. On which lines the values go: `second_line` begins one, and so does what has no room.
    lines = [Text(time.ljust(TIME_WIDTH), style="dim")]
    for place, values in enumerate((entry.first_line, entry.second_line)):
        is_new = place > 0
        for cell in filter(None, map(to_cell, values)):
            width = _line_width(lines[-1]) + COLUMN_GAP + _line_width(cell)
            if is_new or (lines[-1].plain.strip() and width > console.width):
                lines.append(Text(" " * TIME_WIDTH))
            elif _line_width(lines[-1]) > TIME_WIDTH:
                lines[-1].append(" " * COLUMN_GAP)
            lines[-1].append(cell)
            is_new = False

    # 2. A value that is wider than the terminal alone is broken by the terminal, not by Rich.
    for line in lines:
        console.print(line, soft_wrap=True)

    if entry.words:
        console.print(Padding(to_cell(entry.words), (0, 0, 0, TIME_WIDTH)))


def _column_widths(
    columns: Sequence[str], rows: Sequence[Sequence[Text]], room: int
) -> list[int] | None:
    """Return a width for each column in which no word is broken; None where there is no room for
    that."""
    # 1. What each column needs at least, and what it would have with enough room.
    least: list[int] = []
    natural: list[int] = []
    for place, name in enumerate(columns):
        cells = [Text(name), *(row[place] for row in rows)]
        natural.append(max(_line_width(cell) for cell in cells))
        least.append(
            max(min(natural[-1], TEXT_WIDTH_MIN), *(_least_width(name, cell) for cell in cells))
        )

    room_left = room - sum(least) - COLUMN_GAP * (len(columns) - 1)
    if room_left < 0:
        return None

    # 2. What is left goes to the columns from the first on, which has what people look for.
    widths = []
    for least_width, natural_width in zip(least, natural, strict=True):
        gained = min(natural_width - least_width, room_left)
        widths.append(least_width + gained)
        room_left -= gained

    return widths


def _print_paragraph(console: Console, columns: Sequence[str], row: Sequence[Text]) -> None:
    """Print a row as a paragraph: each value behind the name of its column, as many on a line as it
    has room for."""
    # A table of names and values: the first column has the names.
    if len(columns) == 2:
        columns = (row[0].plain,)
        row = row[1:]

    line = Text()
    least = 0
    for name, cell in zip(columns, row, strict=True):
        # What has no value takes no room.
        if not cell.plain:
            continue

        label = ""
        if name:
            label = f"{name} "

        pair = Text.assemble((label, "dim"), cell)
        if line and _line_width(line) + len(PAIR_GAP) + _line_width(pair) > console.width:
            console.print(line, soft_wrap=least > console.width)
            line = Text(PARAGRAPH_INDENT)
            least = 0
        elif line:
            line.append(PAIR_GAP)

        line.append(pair)
        least = max(least, _least_width(name, cell))

    console.print(line, soft_wrap=least > console.width)


def _line_width(cell: Text) -> int:
    """Return the width of the longest line of a cell."""
    return max((cell_len(line) for line in cell.plain.split("\n")), default=0)


def _least_width(column: str, cell: Text) -> int:
    """Return the width of the longest part of a cell that is never broken: a word, as which an
    amount counts."""
    # A reference of a merchant may have spaces, and is copied whole.
    if column in UNBROKEN_COLUMNS:
        parts = cell.plain.split("\n")
    else:
        parts = re.split("[ \n]", cell.plain)
    return max(map(cell_len, parts))


def print_rows(
    columns: Sequence[str] | Mapping[str, str],
    rows: Sequence[Mapping[str, object]],
    *,
    as_json: bool,
) -> None:
    """Print rows as a JSON array of objects, or as a table of some members; with other titles these
    are by title."""
    if as_json:
        print_json(rows)
        return

    names: Iterable[str] = columns
    if isinstance(columns, Mapping):
        names = columns.values()

    print_table(tuple(columns), ([_to_second(row[name]) for name in names] for row in rows))


def _to_second(value: object) -> object:
    """Return a time without its microseconds, which JSON has; anything else as it is."""
    match = None
    if isinstance(value, str):
        match = EXACT_INSTANT.fullmatch(value)
    if match is None:
        return value
    return f"{match[1]}Z"
