"""`mmo records export` and `mmo records digest` read the records of a store: they write its
transactions, and sum a day up for another side to compare with its own."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, TextIO

import click
from attrs import evolve

from mmo_merchant.reconciliation.daily_digest import DailyDigest, digest_day
from mmo_merchant.reconciliation.held_records import RecordedPayment
from mmo_merchant.reconciliation.recorded_payments import Period
from mmo_sansio.accounting.calendar_months import day_bounds
from mmo_sansio.accounting.month_books import MonthBook
from mmo_sansio.api.outgoing import (
    MONEY_MEMBERS,
    PARTY_MEMBERS,
    PROVIDER_DATA_MEMBERS,
    TRANSACTION_MEMBERS,
)
from mmo_sansio.messages.queries import ListRecords, Position
from mmo_sansio.values import clock
from mmo_sansio.values.clock import DAY, Instant, Span, earlier
from mmo_sansio.values.formula_guard import guard_cell
from mmo_sansio.values.model import Status, Transaction, Type
from mmo_sansio.values.reversals import Reversal
from mmo_sansio.values.strict_json import JsonNumber
from mmo_trio.admin.month_books import fill_book
from mmo_trio.cli.support.book_files import (
    load_sheet_writer,
    month_options,
    read_month,
    read_zone,
    write_book,
)
from mmo_trio.cli.support.brand_records import find_brand
from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.cli.support.json_text import json_text
from mmo_trio.cli.support.options import datetime_type, file_type, json_option, to_instant
from mmo_trio.cli.support.output import format_sums, print_status, progress_bar
from mmo_trio.cli.support.output_files import open_output
from mmo_trio.cli.support.statements import read_record
from mmo_trio.cli.support.tables import print_rows
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.storage.sql.store import Store

# The number of rows in memory at one time.
PAGE_SIZE = 1_000

# How long after its creation a payment may have ended: longer than the time limit of a pending one.
LATEST_END = Span(7 * DAY)

# A day has no time, as its time zone is an option of its own.
_day_type = click.DateTime(["%Y-%m-%d"])

# Writes a transaction object of a brand.
WriteRecord = Callable[[str, bytes], None]


@click.command()
@click.option("--format", "form", type=click.Choice(["csv", "ndjson"]), help="One row a line.")
@click.option(
    "--for-accounting",
    is_flag=True,
    help="Write the book of a month instead: what moved, by completion, with signs, fees, "
    "reversals and sums; as CSV.",
)
@month_options
@click.option("--brand", help="Only this brand's; by default every brand's.")
@click.option("--from", "begin", type=datetime_type, help="Created at or after this time (UTC).")
@click.option("--to", "end", type=datetime_type, help="Created before this time (UTC).")
@click.option(
    "--type", "type_", type=click.Choice([type_.value for type_ in Type]), help="Only this type."
)
@click.option("--method", help="Only this method key's.")
@click.option(
    "--status", type=click.Choice([status.value for status in Status]), help="Only this status."
)
@click.option(
    "--exact", is_flag=True, help="Don't guard cells of CSV that a spreadsheet program could run."
)
@click.option("--output", type=file_type, help="A file to make.")
@target_options
def export(
    form: str | None,
    for_accounting: bool,
    month: str | None,
    timezone: str | None,
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

    Transactions are in order of creation, brand by brand. JSON lines are the transaction objects
    that merchants see, with the brand as their first member; the last, `simulated`, says whether no
    money moved. In CSV, null is an empty cell, and numbers are exactly as in JSON. Text that a
    spreadsheet program could run as a formula has an apostrophe before it, unless --exact is given.
    The audit log says who has exported what."""
    selected = {
        "--from": begin,
        "--to": end,
        "--type": type_,
        "--method": method,
        "--status": status,
    }
    if for_accounting:
        _refuse_selection(selected, form)
        _export_book(brand, month, timezone, output, target, is_exact=exact)
        return

    if month is not None or timezone is not None:
        raise UsageProblem(
            "--month and --timezone need --for-accounting; else use --from and --to."
        )

    if form is None:
        raise UsageProblem("--format is missing: choose csv or ndjson, or --for-accounting.")

    query = _query(begin, end, type_, method, status)
    writer = _ndjson_writer
    if form == "csv":
        writer = partial(_csv_writer, is_exact=exact)

    chosen = {"--brand": brand, **selected}
    selection = {
        name.removeprefix("--"): str(value) for name, value in chosen.items() if value is not None
    }

    async def export_to(write: WriteRecord, store: Store) -> int:
        # The brand first: an event about nothing would stay in the log.
        await brand_ids(store, brand)
        await target.record(store, "records_exported", "records", selection=selection)
        count = 0
        with progress_bar() as bar:
            task = bar.add_task("exporting", total=None)
            async for name, page in read_pages(store, brand, query):
                for record in page:
                    write(name, record)
                count += len(page)
                bar.update(task, completed=count)

        return count

    with open_output(output) as to:
        count = target.with_store(partial(export_to, writer(to)))
        # A full disk shows here, and before the count says that all was written.
        to.flush()

    print_status(f"{count} transactions.")


def _refuse_selection(selected: Mapping[str, object], form: str | None) -> None:
    """Raise UsageProblem for an option that the book of a month does not take, as it has everything
    that moved."""
    refused = [name for name, value in selected.items() if value is not None]
    if form == "ndjson":
        refused.append("--format ndjson")
    if refused:
        raise UsageProblem(
            f"--for-accounting takes no {refused[0]}: it books all of --month, as CSV."
        )


def _query(
    begin: datetime | None,
    end: datetime | None,
    type_: str | None,
    method: str | None,
    status: str | None,
) -> ListRecords:
    """Return the query of these options, for a brand that is named later."""
    only_type = None
    if type_ is not None:
        only_type = Type(type_)

    only_status = None
    if status is not None:
        only_status = Status(status)

    return ListRecords(
        brand="",
        begin=to_instant(begin, clock.FIRST_INSTANT),
        end=to_instant(end, clock.LAST_INSTANT),
        type=only_type,
        method=method,
        status=only_status,
        page_size=PAGE_SIZE,
    )


def _export_book(
    brand: str | None,
    month_name: str | None,
    zone_name: str | None,
    output: Path | None,
    target: CommandTarget,
    *,
    is_exact: bool,
) -> None:
    book = MonthBook(read_month(month_name, zone_name))
    # Whether a spreadsheet can be written is better known before everything is read.
    load_sheet_writer(output)

    async def fill(store: Store) -> None:
        brands = await brand_ids(store, brand)
        await target.record(
            store, "books_exported", "records", brand=brand, month=month_name, timezone=zone_name
        )
        with progress_bar() as bar:
            task = bar.add_task("reading", total=None)
            await fill_book(
                book,
                store,
                brands,
                note_progress=lambda count: bar.update(task, completed=count),
            )

    target.with_store(fill)
    write_book(book, output, now=target.clock().wall_time(), is_exact=is_exact)


def _ndjson_writer(to: TextIO) -> WriteRecord:
    def write(brand: str, record: bytes) -> None:
        # The brand becomes the first member; the rest is the object byte for byte (T4).
        first = json.dumps(brand, ensure_ascii=False)
        to.write(f'{{"brand":{first},{record.decode()[1:]}\n')

    return write


def _csv_writer(to: TextIO, *, is_exact: bool) -> WriteRecord:
    rows = csv.writer(to)
    rows.writerow(COLUMNS)
    guard: Callable[[str], str] = guard_cell
    if is_exact:
        guard = str

    return lambda brand, record: rows.writerow(
        [guard(row_cell) for row_cell in row_cells(brand, record)]
    )


# Members whose own members have a column each; labels and partyData have free content.
_NESTED_MEMBERS = {
    "party": PARTY_MEMBERS,
    "requestedAmount": MONEY_MEMBERS,
    "finalAmount": MONEY_MEMBERS,
    "providerData": PROVIDER_DATA_MEMBERS,
    "providerData.fee": MONEY_MEMBERS,
}


def _column_paths(prefix: str, members: Sequence[str]) -> Iterator[str]:
    for name in members:
        path = f"{prefix}{name}"
        if path in _NESTED_MEMBERS:
            yield from _column_paths(f"{path}.", _NESTED_MEMBERS[path])
        else:
            yield path


# The columns of a row: the members of the transaction object by dotted path, after the brand and
# before the gateway's remark.
COLUMNS: tuple[str, ...] = ("brand", *_column_paths("", TRANSACTION_MEMBERS), "simulated")


def row_cells(brand: str, transaction_json: bytes) -> list[str]:
    """Return the cells of a transaction object; null is empty, labels and partyData are JSON.
    Numbers keep their text: money is never a binary float (G6)."""
    members = json.loads(transaction_json, parse_float=JsonNumber, parse_int=JsonNumber)
    cells = dict(_flatten("", members))
    return [brand, *(cells.get(column, "") for column in COLUMNS[1:])]


def _flatten(path: str, members: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in members.items():
        here = f"{path}{name}"
        if isinstance(value, dict) and here in _NESTED_MEMBERS:
            yield from _flatten(f"{here}.", value)
        elif value is not None:
            text = value
            if not isinstance(value, str):
                text = json_text(value)
            yield here, text


@click.command()
@click.option(
    "--date",
    "day",
    type=_day_type,
    required=True,
    help="The day on which the payments ended.",
)
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Where the day begins and ends, such as Africa/Nairobi; by default UTC.",
)
@click.option("--brand", help="Only this brand's digest; by default every brand's.")
@json_option
@target_options
def digest(
    day: datetime,
    timezone: str | None,
    brand: str | None,
    as_json: bool,
    target: CommandTarget,
) -> None:
    """Print a digest of each brand's payments that ended on a day, for another side to compare with
    its own."""
    period = Period(*day_bounds(day.date(), read_zone(timezone)))

    async def load(store: Store) -> dict[str, DailyDigest]:
        payments_of: dict[str, dict[str, RecordedPayment]] = {
            name: {} for name in await brand_ids(store, brand)
        }
        async for name, text in read_records(store, brand, period, None):
            payment = read_record(text, period)
            # Others lie near the day's borders; a payment that was listed twice counts once.
            if payment.is_expected:
                payments_of.setdefault(name, {})[payment.gateway_reference] = payment
        return {name: digest_day(payments.values()) for name, payments in payments_of.items()}

    rows = [
        {
            "brand": name,
            "date": f"{day:%Y-%m-%d}",
            "count": found.count,
            "sums": format_sums(found.sums),
            "fees": format_sums(found.fees),
            "sha256": found.sha256,
        }
        for name, found in target.with_store(load).items()
    ]
    columns = ("brand", "date", "count", "sums", "fees", "sha256")
    print_rows(columns, rows, as_json=as_json)


async def read_pages(
    store: Store, brand: str | None, query: ListRecords
) -> AsyncIterator[tuple[str, tuple[bytes, ...]]]:
    """Return this brand, or each brand, with pages of the transaction objects that a query finds,
    each with the gateway's own remark whether it is simulated as its last member. Raises
    NegativeAnswer."""
    for name in await brand_ids(store, brand):
        remaining = evolve(query, brand=name)
        has_next = True
        while has_next:
            page = await store.list_records(remaining)
            yield name, tuple(starmap(_with_mark, page.marked_objects))
            has_next = page.has_next
            remaining = evolve(remaining, after=page.last)


def _with_mark(transaction_json: bytes, is_simulated: bool) -> bytes:
    mark = b"true" if is_simulated else b"false"
    return b'%b,"simulated":%b}' % (transaction_json[:-1], mark)


async def brand_ids(store: Store, brand: str | None) -> list[str]:
    """Return the id of this brand, or of all brands. Raises NegativeAnswer."""
    if brand is None:
        records = await store.admin.brands()
    else:
        records = [await find_brand(store, brand)]
    return [record.brand.id for record in records]


async def read_records(
    store: Store, brand: str | None, period: Period, method: str | None
) -> AsyncIterator[tuple[str, bytes]]:
    """Return the brands and transaction objects of payments that may have ended in the period."""
    # A payment of the period may have been created days before it ended.
    begin = Instant(max(clock.FIRST_INSTANT, earlier(period.begin, LATEST_END)))
    query = ListRecords("", begin, period.end, method=method, page_size=PAGE_SIZE)
    async for name, page in read_pages(store, brand, query):
        for row in page:
            yield name, row


async def read_reversals(
    store: Store, brand: str | None, method: str | None
) -> AsyncIterator[tuple[Reversal, Transaction]]:
    """Return every reversal with its payment, whenever it ended."""
    before: Position | None = None
    while page := await store.list_reversals(before=before, limit=PAGE_SIZE):
        payments = await store.transactions([row.payment for row in page])
        for row in page:
            order = payments[row.payment].order
            if brand in (None, order.brand) and method in (None, order.method):
                yield row, payments[row.payment]

        # A page ends between payments, in the order of their newest reversals.
        last = [row.asked_at for row in page if row.payment == page[-1].payment]
        before = Position(max(last), page[-1].payment)
