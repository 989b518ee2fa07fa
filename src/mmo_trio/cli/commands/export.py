"""`mmo records export` writes all transactions of a period for reconciliation."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import click
from attrs import evolve

from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.values import clock
from mmo_sansio.values.model import Status, Type
from mmo_trio.cli.support import csv_columns
from mmo_trio.cli.support.options import datetime_type, to_instant
from mmo_trio.cli.support.output import print_status, progress_bar
from mmo_trio.cli.support.stored_records import PAGE_SIZE, brand_ids, read_pages
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.display_text import guard_cell

WriteRecord = Callable[[str, bytes], None]
"""Writes a transaction object of a brand."""


@click.command()
@click.option("--format", "form", type=click.Choice(["csv", "ndjson"]), required=True, help="One row a line.")
@click.option("--brand", help="Only this brand's; by default every brand's.")
@click.option("--from", "begin", type=datetime_type, help="Created at or after this time (UTC).")
@click.option("--to", "end", type=datetime_type, help="Created before this time (UTC).")
@click.option("--type", "type_", type=click.Choice([each.value for each in Type]), help="Only this type.")
@click.option("--method", help="Only this method key's.")
@click.option("--status", type=click.Choice([each.value for each in Status]), help="Only this status.")
@click.option("--exact", is_flag=True, help="Don't guard cells of CSV that a spreadsheet program could run.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="A file to make.")
@target_options
def export(
    form: str,
    brand: str | None,
    begin: datetime | None,
    end: datetime | None,
    type_: str | None,
    method: str | None,
    status: str | None,
    exact: bool,
    output: Path | None,
    target: CommandTarget,
) -> None:
    """Write every transaction of a period as CSV, or as JSON objects, one a line.

    Transactions are in order of creation, brand by brand. JSON lines are the transaction objects that merchants see,
    with the brand as their first member; in CSV, null is an empty cell, and numbers are exactly as in JSON. Text that a
    spreadsheet program could run as a formula has an apostrophe before it, unless --exact is given.
    """
    query = ListRecords(
        brand="",
        begin=to_instant(begin, clock.FIRST_INSTANT),
        end=to_instant(end, clock.LAST_INSTANT),
        type=None if type_ is None else Type(type_),
        method=method,
        status=None if status is None else Status(status),
        page_size=PAGE_SIZE,
    )
    writer = _ndjson_writer if form != "csv" else partial(_csv_writer, is_exact=exact)

    async def export_to(store: Store, to: TextIO) -> int:
        return await _export(store, query, await brand_ids(store, brand), writer(to))

    with _open_output(output) as to:
        count = target.with_store(lambda store: export_to(store, to))
        to.flush()
    print_status(f"{count} transactions.")


@contextmanager
def _open_output(output: Path | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that is replaced only when it is complete."""
    if output is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="strict")  # What files have, whatever the terminal shows.
        yield sys.stdout
        return
    draft = output.with_name(f".{output.name}.part")
    try:
        draft.unlink(missing_ok=True)  # A new one is its owner's alone: it has personal data.
        with open(draft, "w", encoding="utf-8", newline="", opener=partial(os.open, mode=0o600)) as to:
            yield to
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)


async def _export(store: Store, query: ListRecords, brands: Sequence[str], write: WriteRecord) -> int:
    count = 0
    with progress_bar() as bar:
        task = bar.add_task("exporting", total=None)
        for each in brands:
            async for page in read_pages(store, evolve(query, brand=each)):
                for record in page:
                    write(each, record)
                count += len(page)
                bar.update(task, completed=count)
    return count


def _ndjson_writer(to: TextIO) -> WriteRecord:
    def write(brand: str, record: bytes) -> None:
        first = json.dumps(brand, ensure_ascii=False)
        to.write(f'{{"brand":{first},{record.decode()[1:]}\n')

    return write


def _csv_writer(to: TextIO, *, is_exact: bool) -> WriteRecord:
    rows = csv.writer(to)
    rows.writerow(csv_columns.COLUMNS)
    guard = str if is_exact else guard_cell
    return lambda brand, record: rows.writerow([guard(each) for each in csv_columns.row_cells(brand, record)])
