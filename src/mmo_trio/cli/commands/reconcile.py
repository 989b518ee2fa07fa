"""`mmo records reconcile` compares a statement with the records, and `mmo records digest` sums a day up for another
side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from mmo_merchant.reconciliation.comparison import (
    Difference,
    DifferenceKind,
    Reconciliation,
    RecordedPayment,
    StatementLine,
)
from mmo_merchant.reconciliation.daily_digest import DailyDigest, digest_day
from mmo_merchant.reconciliation.statement_file import FIELDS, PRESETS, StatementError, read_statement
from mmo_sansio.api.incoming.timestamps import parse_timestamp
from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.values import clock
from mmo_sansio.values.clock import DAY, Instant, Span, earlier, later
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money, to_money
from mmo_trio.cli.commands.brands import find_brand
from mmo_trio.cli.commands.records import EXPORT_PAGE_SIZE, datetime_type, read_pages, to_instant
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import (
    print_json_text,
    print_line,
    print_rows,
    print_status,
    progress_bar,
    progress_counter,
)
from mmo_trio.cli.support.target import CommandTarget, json_option, target_options
from mmo_trio.storage.archive.directory import ArchiveDirectory, ArchiveUnusable
from mmo_trio.storage.interface.store import Store

LATEST_END = Span(7 * DAY)
"""How long after its creation a payment may have ended: longer than the time limit of a pending one."""

_day_type = click.DateTime(["%Y-%m-%d"])


@frozen
class _Period:
    """The time in which payments ended; it includes its beginning."""

    begin: Instant = clock.FIRST_INSTANT
    end: Instant = clock.LAST_INSTANT

    def has(self, ended_at: str | None) -> bool:
        """Tell whether a payment that ended at this time belongs to it."""
        return ended_at is not None and self.begin <= parse_timestamp(ended_at) < self.end


@click.command()
@click.option(
    "--statement", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The CSV file to compare."
)
@click.option("--preset", type=click.Choice(sorted(PRESETS)), help="The columns of an operator's statement.")
@click.option("--map", "columns", multiple=True, help="FIELD=HEADING of a column; FIELD is " + ", ".join(FIELDS) + ".")
@click.option("--currency", help="The currency of a statement that has no column for it.")
@click.option(
    "--records",
    "records_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Compare with transaction objects from this file, one a line, instead of the store.",
)
@click.option("--brand", help="Only this brand's payments; by default every brand's.")
@click.option("--method", help="Only payments by this method key, if the statement is about no other.")
@click.option("--from", "begin", type=datetime_type, help="The statement begins at this time (UTC).")
@click.option("--to", "end", type=datetime_type, help="The statement ends before this time (UTC).")
@json_option
@target_options
def reconcile(
    statement: Path,
    preset: str | None,
    columns: Sequence[str],
    currency: str | None,
    records_file: Path | None,
    brand: str | None,
    method: str | None,
    begin: datetime | None,
    end: datetime | None,
    as_json: bool,
    target: CommandTarget,
) -> None:
    """Compare a statement, a merchant's ledger or an operator's, with the records, to the unit.

    Every difference is listed by its kind. Exit code 0: there is none; 1: there are some.
    """
    headings = read_columns(preset, columns)
    period = _Period(to_instant(begin, clock.FIRST_INSTANT), to_instant(end, clock.LAST_INSTANT))
    reconciliation = Reconciliation()
    with progress_bar() as bar:
        count_record = progress_counter(bar, "reading records")
        if records_file is not None:
            for text in lines_of(records_file):
                _add_record(reconciliation, text, period, method, set())
                count_record()
        else:

            async def load(store: Store) -> None:
                seen = set[str]()
                async for _, each in _read_records(store, _archive(target), brand, period, method):
                    _add_record(reconciliation, each, period, method, seen)
                    count_record()

            target.with_store(load)
        differences = _compare(reconciliation, statement, headings, currency, progress_counter(bar, "comparing lines"))
    _print_result(reconciliation, differences, as_json=as_json)
    if differences:
        raise NegativeAnswer(f"{len(differences)} differences.")


def _compare(
    reconciliation: Reconciliation,
    statement: Path,
    headings: Mapping[str, str],
    currency: str | None,
    count_line: Callable[[], None],
) -> list[Difference]:
    """Return the differences between the records and the lines of a statement. Raises UsageProblem."""
    differences = list[Difference]()
    for line in statement_lines(statement, headings, currency):
        differences += reconciliation.check_line(line)
        count_line()
    differences += reconciliation.missing_lines()
    return differences


def statement_lines(statement: Path, headings: Mapping[str, str], currency: str | None) -> Iterator[StatementLine]:
    """Yield the lines of a statement. Raises UsageProblem for a file that is none."""
    try:
        with statement.open(encoding="utf-8-sig", newline="") as file:
            yield from read_statement(file, headings, currency=currency)
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{statement}: byte {error.start} is not UTF-8. Save the file as CSV in UTF-8.") from None
    except StatementError as error:
        raise UsageProblem(f"{statement}: {error}.") from None


@click.command()
@click.option("--date", "day", type=_day_type, required=True, help="The day (UTC) on which the payments ended.")
@click.option("--brand", help="Only this brand's digest; by default every brand's.")
@json_option
@target_options
def digest(day: datetime, brand: str | None, as_json: bool, target: CommandTarget) -> None:
    """Print a digest of each brand's payments that ended on a day, for another side to compare with its own."""
    begin = to_instant(day, clock.FIRST_INSTANT)
    period = _Period(begin, later(begin, DAY))

    async def load(store: Store) -> dict[str, DailyDigest]:
        found: dict[str, dict[str, RecordedPayment]] = {name: {} for name in await _brand_ids(store, brand)}
        async for name, text in _read_records(store, _archive(target), brand, period, None):
            payment = recorded_payment(text, period)
            if payment.is_expected:
                found.setdefault(name, {})[payment.gateway_reference] = payment
        return {name: digest_day(payments.values()) for name, payments in found.items()}

    rows = [
        {
            "brand": name,
            "date": f"{day:%Y-%m-%d}",
            "count": each.count,
            "sums": _sums_text(each.sums),
            "fees": _sums_text(each.fees),
            "sha256": each.sha256,
        }
        for name, each in target.with_store(load).items()
    ]
    columns = ("brand", "date", "count", "sums", "fees", "sha256")
    print_rows({name: name for name in columns}, rows, as_json=as_json)


def _sums_text(sums: Mapping[str, int]) -> dict[str, str]:
    """Return sums of minor units, by names that end in their currency, as exact amounts."""
    return {name: Money(minor, name.rpartition(" ")[2]).text for name, minor in sums.items()}


def read_columns(preset: str | None, columns: Sequence[str]) -> dict[str, str]:
    """Return the headings by field: those of the preset, and those of --map, which come first. Raises UsageProblem."""
    headings = dict(PRESETS[preset]) if preset is not None else {}
    for each in columns:
        name, equals, heading = each.partition("=")
        if not equals or name not in FIELDS or not heading.strip():
            raise UsageProblem(f"--map {each}: write FIELD=HEADING, with one of the fields {', '.join(FIELDS)}.")
        headings[name] = heading.strip()
    has_amount = {"amount", "paid_in", "paid_out"} & headings.keys()
    if not has_amount or not {"receipt", "reference"} & headings.keys():
        raise UsageProblem(
            "A statement needs columns for an amount and for a receipt or reference: give --preset, or name them with"
            ' --map, such as --map receipt="Receipt No." --map amount=Amount.'
        )
    return headings


def lines_of(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file that are not blank."""
    with file.open("rb") as lines:
        yield from (line for line in lines if line.strip())


async def _brand_ids(store: Store, brand: str | None) -> list[str]:
    found = await store.admin.brands() if brand is None else [await find_brand(store, brand)]
    return [each.brand.id for each in found]


async def _read_records(
    store: Store, archive: ArchiveDirectory | None, brand: str | None, period: _Period, method: str | None
) -> AsyncIterator[tuple[str, bytes]]:
    """Return the brands and transaction objects of payments that may have ended in the period, first those of the store
    and then those of the archive. One that is being archived may come from both."""
    begin = Instant(max(clock.FIRST_INSTANT, earlier(period.begin, LATEST_END)))
    for name in await _brand_ids(store, brand):
        query = ListRecords(name, begin, period.end, method=method, page_size=EXPORT_PAGE_SIZE)
        async for page in read_pages(store, query):
            for each in page:
                yield name, each
    head = await store.retention.archive_head()
    if archive is None:
        if head.number:
            print_status(
                "Old payments are in the archive and are left out: set retention.archive_directory to compare them."
            )
        return
    if archive.head().number < head.number:
        raise ArchiveUnusable(f"{archive.path} lacks parts: the store knows {head.number}. See `mmo archive verify`.")
    for transaction in archive.transactions(begin=begin, end=period.end):
        order = transaction.order
        if brand in (None, order.brand) and method in (None, order.method):
            yield order.brand, transaction_object(transaction)


def _archive(target: CommandTarget) -> ArchiveDirectory | None:
    path = target.settings.retention.archive_directory
    return None if path is None else ArchiveDirectory(path)


def _add_record(
    reconciliation: Reconciliation, text: bytes, period: _Period, method: str | None, seen: set[str]
) -> None:
    """Add the payment of a transaction object, unless it was seen before."""
    record = recorded_payment(text, period)
    if record.gateway_reference not in seen and (method is None or json.loads(text)["method"] == method):
        seen.add(record.gateway_reference)
        reconciliation.add_record(record)


def recorded_payment(text: bytes, period: _Period = _Period()) -> RecordedPayment:
    """Return what a transaction object says. Raises UsageProblem for text that is none."""
    try:
        members = json.loads(text, parse_float=Decimal, parse_int=Decimal)
        provider = members["providerData"] or {}
        return RecordedPayment(
            members["gatewayReference"],
            members["merchantReference"],
            members["providerReference"],
            Type(members["type"]),
            Status(members["status"]),
            _money(members["finalAmount"] or members["requestedAmount"]),
            provider.get("name", ""),
            None if provider.get("fee") is None else _money(provider["fee"]),
            is_expected=period.has(members["completedAt"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UsageProblem(f"This line is no transaction object ({error!r}): {text[:80]!r}.") from None


def _money(members: Any) -> Money:
    return to_money(Decimal(members["value"]), members["currency"])


def _print_result(reconciliation: Reconciliation, differences: Sequence[Difference], *, as_json: bool) -> None:
    counts = Counter(each.kind for each in differences)
    fees, recorded = _sums_text(dict(sorted(reconciliation.fees.items()))), _sums_text(reconciliation.recorded_fees())
    rows = [_row(each) for each in differences]
    if as_json:
        summary = {"matched": reconciliation.matched, "unsettled": reconciliation.unsettled, "fees": fees}
        summary |= {"recordedFees": recorded}
        kinds = {kind.value: counts[kind] for kind in DifferenceKind}
        print_json_text(json.dumps(summary | {"differences": kinds, "rows": rows}, ensure_ascii=False, indent=2))
        return
    if rows:
        print_rows({name: name for name in rows[0]}, rows, as_json=False)
    print_line(f"{reconciliation.matched} lines have a payment, and {reconciliation.unsettled} are about no money.")
    for currency, text in fees.items():
        print_line(f"Fees by the statement: {text} {currency}.")
    for name, text in recorded.items():
        print_line(f"Fees by the records: {text} {name.rpartition(' ')[2]} by {name.rpartition(' ')[0]}.")
    for kind, count in sorted(counts.items()):
        print_line(f"{kind.value}: {count}")


def _row(difference: Difference) -> dict[str, object]:
    record, line = difference.record, difference.line
    return {
        "kind": difference.kind.value,
        "line": line and line.number,
        "receipt": line.receipt if line and line.receipt else record and record.receipt,
        "gatewayReference": record and record.gateway_reference,
        "merchantReference": record.merchant_reference if record else line and line.reference,
        "records": record and _record_text(difference.kind, record),
        "statement": line and _line_text(difference.kind, line),
    }


def _record_text(kind: DifferenceKind, record: RecordedPayment) -> str:
    if kind is DifferenceKind.FEE_DIFFERS:
        return str(record.fee)
    return f"{record.type.value} {record.amount} {record.status.value}"


def _line_text(kind: DifferenceKind, line: StatementLine) -> str:
    if kind is DifferenceKind.FEE_DIFFERS:
        return str(line.amount if line.is_fee else line.fee)
    direction = {True: "in ", False: "out ", None: ""}[line.is_incoming]
    return f"{direction}{line.amount} {line.status.value}"
