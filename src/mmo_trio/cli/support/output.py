"""Output of commands: JSON for programs, tables for people; remarks go to standard error."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

import click
from attrs import frozen
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.providers.common.interface import AccountState
from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Status, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.number_format import format_amount
from mmo_sansio.values.reversals import ReversalState
from mmo_trio.system.display_text import ascii_json, indent_json, visible_text

# The columns whose cells may have spaces, and are copied whole nevertheless.
UNBROKEN_COLUMNS = frozenset({"merchantReference"})

# Cells between two columns.
COLUMN_GAP = 2

# The width to which a column of sentences is narrowed at most.
TEXT_WIDTH_MIN = 30

# What stands between two values of a row that is a paragraph, and before its further lines.
PAIR_GAP = "   "
PARAGRAPH_INDENT = "  "

# The colour of each state that has one, on a terminal only.
STYLES: Mapping[StrEnum, str] = MappingProxyType(
    {
        Status.SUCCESS: "green",
        Status.FAILED: "red",
        Status.PENDING: "yellow",
        AccountState.WORKS: "green",
        AccountState.REFUSED: "red",
        AccountState.WARNED: "yellow",
        AccountState.UNKNOWN: "yellow",
        ReversalState.SUCCEEDED: "green",
        ReversalState.MOVED_AFTER_ALL: "green",
    }
)

# The colour of what a person has to look at.
WARNING = "red"

# Cells before what an entry of a list says: its time of day.
TIME_WIDTH = len("00:03:27  ")

# A time as JSON has it.
EXACT_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{6}Z", re.ASCII)

# Width of a table that is not printed to a terminal, so that nothing is folded or cut.
NON_TERMINAL_WIDTH = 1_000

# Items between two movements of a progress bar.
PROGRESS_STEP = 500


def print_status(text: str) -> None:
    """Print a remark to standard error."""
    click.echo(text, err=True)


def print_json(value: object) -> None:
    print_json_line(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_text(text: str) -> None:
    """Print JSON text, on a terminal with a member on each line."""
    if sys.stdout.isatty():
        text = indent_json(text)
    print_json_line(text)


def print_json_line(text: str) -> None:
    """Print JSON text as it is; what would not be visible, or what the output cannot show, is
    escaped."""
    encoding = sys.stdout.encoding or "ascii"
    if encoding.lower().startswith("utf"):
        click.echo(visible_text(text))
    else:
        click.echo(ascii_json(text))


def print_line(text: str, style: str = "") -> None:
    """Print a line or paragraph for people; its text is printed as it is, never interpreted as
    markup."""
    terminal().print(Text(visible_text(text), style=style))


def print_table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; its cells are printed as they are, never interpreted as markup.

    A cell is broken between words only: where the terminal is too narrow for that, each row becomes
    a paragraph."""
    console = terminal()
    cells = [[_cell(cell) for cell in row] for row in rows]

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
    first: Sequence[object]
    """What stands behind the time."""
    second: Sequence[object]
    """What stands below."""
    words: str = ""
    """What stands below that, and is broken between words."""


def print_list(
    columns: Sequence[str], rows: Sequence[Sequence[object]], entries: Sequence[ListEntry]
) -> None:
    """Print a table; where the terminal is too narrow for that, the entries: without labels, each
    with its time of day, under a heading for each day (UTC)."""
    console = terminal()
    cells = [[_cell(cell) for cell in row] for row in rows]
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
    # 1. On which lines the values go: `second` begins one, and so does what has no room.
    lines = [Text(time.ljust(TIME_WIDTH), style="dim")]
    for place, values in enumerate((entry.first, entry.second)):
        is_new = place > 0
        for cell in filter(None, map(_cell, values)):
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
        console.print(Padding(_cell(entry.words), (0, 0, 0, TIME_WIDTH)))


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

    # 2. What is left goes to the columns from the first on, which has what people look for.
    room_left = room - sum(least) - COLUMN_GAP * (len(columns) - 1)
    if room_left < 0:
        return None

    for place, full in enumerate(natural):
        gained = min(full - least[place], room_left)
        least[place] += gained
        room_left -= gained

    return least


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


def terminal(*, err: bool = False) -> Console:
    """Return the console for standard output, or for standard error."""
    stream = sys.stdout
    if err:
        stream = sys.stderr

    # None: as wide as the terminal is.
    is_terminal = stream.isatty()
    width = None
    if not is_terminal:
        width = NON_TERMINAL_WIDTH

    return Console(
        file=stream,
        width=width,
        highlight=False,
        force_terminal=is_terminal,  # FORCE_COLOR colours no pipe.
    )


def progress_bar() -> Progress:
    """Return a progress bar on standard error that vanishes when done; only for a terminal."""
    # Rich before 14.3 ends a disabled bar with a line feed.
    screen = terminal(err=True)
    screen.quiet = not screen.is_terminal
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=screen,
        transient=True,
        disable=screen.quiet,
    )


def progress_counter(bar: Progress, description: str) -> Callable[[], None]:
    """Add a task of unknown size to the bar; return what counts one item of it, which costs next to
    nothing."""
    task = bar.add_task(description, total=None)
    numbers = itertools.count(1)

    def count_one() -> None:
        number = next(numbers)
        if number % PROGRESS_STEP == 0:
            bar.update(task, completed=number)

    return count_one


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value

    # By type: a text of somebody else that says the same has no colour.
    style = ""
    if isinstance(value, Status | AccountState | ReversalState):
        style = STYLES.get(value, "")
    return Text(visible_text(_cell_text(value)), style=style)


def marked(text: str, style: str) -> Text:
    """Return a cell of a colour; its text is printed as it is."""
    return Text(visible_text(text), style=style)


def state_cell(state: ReversalState) -> Text:
    """Return the state of a reversal in words, in its colour."""
    return Text(state.words, style=STYLES.get(state, ""))


def status_cell(status: Status, why: str | None) -> Text:
    """Return a status in its colour, and behind it why a payment has failed."""
    if not why:
        return _cell(status)
    return Text.assemble(_cell(status), f" {why}")


def _cell_text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            if value:
                return "yes"
            return "no"
        case Money():
            return format_amount(value)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def format_instant(instant: Instant | None) -> str | None:
    """Format an instant as transaction objects do (G5)."""
    if instant is None:
        return None
    return format_with_microseconds(instant)


def format_second(instant: Instant) -> str:
    """Format an instant for a table, in which microseconds would take the room of the
    references."""
    return f"{format_with_microseconds(instant)[:19]}Z"


def format_millisecond(instant: Instant) -> str:
    """Format an instant for a timeline, in which several events have the same second."""
    return f"{format_with_microseconds(instant)[:23]}Z"


def admin_transaction_json(transaction: Transaction) -> str:
    """Return JSON of a transaction: its brand and stage, whether it is simulated, and the
    merchant's object (T4)."""
    brand = json.dumps(transaction.order.brand, ensure_ascii=False)
    stage = json.dumps(transaction.progress.stage)
    # The merchant's own object, byte for byte (T4): it is put into the text and not read again.
    merchant_json = transaction_object(transaction).decode()
    simulated = json.dumps(transaction.order.is_simulated)
    return (
        f'{{"brand":{brand},"stage":{stage},"simulated":{simulated},"transaction":{merchant_json}}}'
    )


def format_sums(sums: Mapping[str, int]) -> dict[str, str]:
    """Return sums of minor units, by names that end in their currency, as exact amounts."""
    return {name: Money(minor, name.rpartition(" ")[2]).text for name, minor in sums.items()}
