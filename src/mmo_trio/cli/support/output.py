"""Output of commands: JSON for programs, tables for people; remarks go to standard error."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Status, Transaction
from mmo_sansio.values.money import Money
from mmo_trio.system.display_text import ascii_json, visible_text

UNBROKEN_COLUMNS = frozenset({"gatewayReference", "created", "when", "at"})
"""The columns whose cells stay on one line in a narrow terminal, so that a reference can be copied."""

STATUS_STYLES = {Status.SUCCESS: "green", Status.FAILED: "red", Status.PENDING: "yellow"}

NON_TERMINAL_WIDTH = 1_000
"""Width of a table that is not printed to a terminal, so that nothing is folded or cut."""

PROGRESS_STEP = 500
"""Items between two movements of a progress bar."""


def print_status(text: str) -> None:
    """Print a remark to standard error."""
    click.echo(text, err=True)


def print_json(value: object) -> None:
    print_json_text(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_text(text: str) -> None:
    """Print JSON text; what would not be visible, or what the output cannot show, is escaped."""
    encoding = sys.stdout.encoding or "ascii"
    click.echo(visible_text(text) if encoding.lower().startswith("utf") else ascii_json(text))


def print_line(text: str, style: str = "") -> None:
    """Print a line or paragraph for people; its text is printed as it is, never interpreted as markup."""
    terminal().print(Text(visible_text(text), style=style))


def print_table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; its cells are printed as they are, never interpreted as markup."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in UNBROKEN_COLUMNS)
    for row in rows:
        table.add_row(*map(_cell, row))
    console = terminal()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def print_rows(
    columns: Sequence[str] | Mapping[str, str], rows: Sequence[Mapping[str, object]], *, as_json: bool
) -> None:
    """Print rows as a JSON array of objects, or as a table of some members; with other titles these are by title."""
    if as_json:
        print_json(rows)
        return
    names = columns.values() if isinstance(columns, Mapping) else columns
    print_table(tuple(columns), ([row[name] for name in names] for row in rows))


def terminal(*, err: bool = False) -> Console:
    """Return the console for standard output, or for standard error."""
    stream = sys.stderr if err else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else NON_TERMINAL_WIDTH, highlight=False)


def progress_bar() -> Progress:
    """Return a progress bar on standard error that vanishes when done; only for a terminal."""
    screen = terminal(err=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )


def progress_counter(bar: Progress, description: str) -> Callable[[], None]:
    """Add a task of unknown size to the bar; return what counts one item of it, which costs next to nothing."""
    task, numbers = bar.add_task(description, total=None), itertools.count(1)

    def count_one() -> None:
        number = next(numbers)
        if number % PROGRESS_STEP == 0:
            bar.update(task, completed=number)

    return count_one


def _cell(value: object) -> Text:
    style = STATUS_STYLES[value] if isinstance(value, Status) else ""
    return Text(visible_text(_cell_text(value)), style=style)


def _cell_text(value: object) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def format_instant(instant: Instant | None) -> str | None:
    """Format an instant as transaction objects do (G5)."""
    return None if instant is None else format_with_microseconds(instant)


def format_second(instant: Instant) -> str:
    """Format an instant for a table, in which microseconds would take the room of the references."""
    return f"{format_with_microseconds(instant)[:19]}Z"


def format_millisecond(instant: Instant) -> str:
    """Format an instant for a timeline, in which several events have the same second."""
    return f"{format_with_microseconds(instant)[:23]}Z"


def admin_transaction_json(transaction: Transaction) -> str:
    """Return JSON of a transaction: its brand and stage, and the merchant's object (T4)."""
    brand = json.dumps(transaction.order.brand, ensure_ascii=False)
    stage = json.dumps(transaction.progress.stage)
    merchant_json = transaction_object(transaction).decode()
    return f'{{"brand":{brand},"stage":{stage},"transaction":{merchant_json}}}'


def format_sums(sums: Mapping[str, int]) -> dict[str, str]:
    """Return sums of minor units, by names that end in their currency, as exact amounts."""
    return {name: Money(minor, name.rpartition(" ")[2]).text for name, minor in sums.items()}
