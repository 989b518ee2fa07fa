"""What commands print: JSON for programs, tables for people; everything else goes to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Transaction

NON_TERMINAL_WIDTH = 1_000
"""Columns of a table that no terminal shows: nothing is folded or cut for a program that reads it."""


def print_status(text: str) -> None:
    """A remark to the person, beside the data."""
    click.echo(text, err=True)


def print_json(value: object) -> None:
    """One JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; what stands in it is printed as it is, never taken for markup."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
    terminal().print(table)


def terminal(*, err: bool = False) -> Console:
    """Where people read."""
    stream = sys.stderr if err else sys.stdout
    return Console(
        file=stream, width=None if stream.isatty() else NON_TERMINAL_WIDTH, highlight=False
    )


def progress_bar() -> Progress:
    """A progress bar on standard error, gone when done; silent where nobody looks."""
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


def cell_text(value: object) -> str:
    """A cell's text: nothing for None."""
    return "" if value is None else str(value)


def format_instant(instant: Instant | None) -> str | None:
    """An instant as transaction objects write it (G5)."""
    return None if instant is None else format_with_microseconds(instant)


def admin_transaction_json(transaction: Transaction) -> str:
    """A transaction for administrators: its brand and stage, and the object that the merchant sees (T4)."""
    brand = json.dumps(transaction.order.brand, ensure_ascii=False)
    stage = json.dumps(transaction.progress.stage)
    return f'{{"brand":{brand},"stage":{stage},"transaction":{transaction_object(transaction).decode()}}}'
