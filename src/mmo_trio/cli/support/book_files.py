"""Writes the book of a month as CSV or as a spreadsheet, and defines the options that choose the
month."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import tzinfo
from pathlib import Path

import click

from mmo_sansio.accounting.book_rows import BOOK_COLUMNS, book_rows, cell_text
from mmo_sansio.accounting.calendar_months import CalendarError, Month, calendar_month
from mmo_sansio.accounting.month_books import MonthBook
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.formula_guard import guard_cell
from mmo_trio.cli.support.errors import UsageProblem, needs_extra
from mmo_trio.cli.support.options import Command
from mmo_trio.cli.support.output import print_status
from mmo_trio.cli.support.output_files import open_output
from mmo_trio.system.time_zones import find_zone


def month_options(command: Command) -> Command:
    """Add the options that choose a month and its time zone."""
    zone = click.option(
        "--timezone",
        metavar="ZONE",
        help="Where the month begins and ends, such as Africa/Nairobi; by default UTC.",
    )
    month = click.option("--month", metavar="YYYY-MM", help="The month to book.")
    return month(zone(command))


def read_zone(name: str | None) -> tzinfo:
    """Return the time zone of `--timezone`. Raises UsageProblem."""
    try:
        return find_zone(name or "UTC")
    except CalendarError as error:
        raise UsageProblem(f"--timezone: {error}") from None


def read_month(month: str | None, zone_name: str | None) -> Month:
    """Return the month of `--month` and `--timezone`. Raises UsageProblem."""
    if month is None:
        raise UsageProblem("--for-accounting needs a month: add --month 2026-11, say.")
    zone = read_zone(zone_name)
    try:
        return calendar_month(month, zone)
    except CalendarError as error:
        raise UsageProblem(f"--month: {error}") from None


def load_sheet_writer(output: Path | None) -> Callable[[MonthBook, Path], None] | None:
    """Return what writes a spreadsheet; None where the file is none. Raises UsageProblem where the
    packages for it are missing, which is better known before the book is read."""
    if output is None or output.suffix.lower() != ".xlsx":
        return None
    # A spreadsheet needs a package of its own; CSV needs none.
    with needs_extra(click.get_current_context().command_path, "xlsx"):
        from mmo_trio.cli.support.book_sheets import write_sheet
    return write_sheet


def write_book(book: MonthBook, output: Path | None, *, now: Instant, is_exact: bool) -> None:
    """Write the book, as a spreadsheet where the name of the file ends so; and say how much is in
    it, and whether it may still change. Raises UsageProblem."""
    write_sheet = load_sheet_writer(output)
    if write_sheet is not None and output is not None:
        write_sheet(book, output)
    else:
        # A sheet runs what looks like a formula; who reads the file by a program wants it exact.
        guard: Callable[[str], str] = guard_cell
        if is_exact:
            guard = str
        _write_csv(book, output, guard=guard)

    print_status(f"{len(book.entries())} entries.")
    # A payment that ends in its last hour would be missing in the books for good.
    if now < book.month.end:
        print_status("The month is not over: write its book again afterwards.")


def _write_csv(book: MonthBook, output: Path | None, *, guard: Callable[[str], str]) -> None:
    with open_output(output) as to:
        rows = csv.writer(to)
        rows.writerow(BOOK_COLUMNS)
        for row in book_rows(book):
            rows.writerow([cell_text(cell, guard) for cell in row])
