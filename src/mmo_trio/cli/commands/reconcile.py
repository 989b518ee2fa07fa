"""`mmo records reconcile` compares a statement with the records, of a store or in a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mmo_merchant.reconciliation.comparison import Difference, DifferenceKind, Reconciliation
from mmo_merchant.reconciliation.corrections import (
    COLUMNS,
    Correction,
    Corrections,
    read_corrections,
)
from mmo_merchant.reconciliation.recorded_payments import Period, recorded_reversal
from mmo_merchant.tables.faults import describe_faults
from mmo_merchant.tables.table_file import Table, TableForm, open_table
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, from_datetime
from mmo_sansio.values.money import CURRENCIES, decimals_of
from mmo_sansio.values.number_format import format_amounts_in
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem, needs_extra
from mmo_trio.cli.support.options import (
    config_option,
    data_option,
    datetime_type,
    file_type,
    json_option,
    to_instant,
)
from mmo_trio.cli.support.output import (
    format_sums,
    print_json_text,
    print_line,
    print_status,
    progress_bar,
    progress_counter,
)
from mmo_trio.cli.support.statements import Statement, lines_of, read_record, statement_options
from mmo_trio.cli.support.tables import print_rows

if TYPE_CHECKING:
    from mmo_trio.cli.support.target import CommandTarget
    from mmo_trio.storage.sql.store import Store

# Corrections that one event of the audit log names.
CORRECTIONS_IN_EVENT = 100


@click.command()
@statement_options("The table to compare, CSV or .xlsx.", is_required=True)
@click.option(
    "--records",
    "records_file",
    type=file_type,
    help="Compare with transaction objects from this file, one a line, instead of the store.",
)
@click.option("--brand", help="Only this brand's payments; by default every brand's.")
@click.option(
    "--method", help="Only payments by this method key, if the statement is about no other."
)
@click.option(
    "--from", "begin", type=datetime_type, help="The statement begins at this time (UTC)."
)
@click.option("--to", "end", type=datetime_type, help="The statement ends before this time (UTC).")
@click.option(
    "--tolerance",
    default="0",
    metavar="AMOUNT",
    help="By how much an amount may differ, in each currency; the sum is told.",
)
@click.option(
    "--corrections",
    "corrections_file",
    type=file_type,
    help="A table that explains differences: kind, gatewayReference or receipt, by, reason.",
)
@json_option
@data_option
@config_option
def reconcile(
    statement: Statement,
    records_file: Path | None,
    brand: str | None,
    method: str | None,
    begin: datetime | None,
    end: datetime | None,
    tolerance: str,
    corrections_file: Path | None,
    as_json: bool,
    data: Path | None,
    config: Path | None,
) -> None:
    """Compare a statement, a merchant's ledger or an operator's, with the records, to the unit.

    Every difference is listed by its kind. Exit code 0: there is none, or each is explained by a
    correction; 1: some are open.
    """
    # What people have written is read first: a fault in it costs no time.
    corrections = _read_corrections(corrections_file)
    target: CommandTarget | None = None
    period = Period(to_instant(begin, clock.FIRST_INSTANT), to_instant(end, clock.LAST_INSTANT))
    reconciliation = Reconciliation(_read_tolerance(tolerance))
    with progress_bar() as bar:
        # All records come before the first line: a line may be about any of them.
        count_record = progress_counter(bar, "reading records")
        if records_file is None:
            with needs_extra("mmo records reconcile", "server"):
                from mmo_trio.cli.support.target import find_target

            target = find_target(data, config)
            target.with_store(
                partial(_add_stored, reconciliation, brand, period, method, count_record)
            )
        else:
            for text in lines_of(records_file):
                if brand is None or _is_of(brand, text):
                    _add_record(reconciliation, text, period, method)
                count_record()

        count_line = progress_counter(bar, "comparing lines")
        differences = list[Difference]()
        for line in statement.lines():
            differences += reconciliation.check_line(line)
            count_line()

        differences += reconciliation.missing_lines()

    # A period that goes on yet ends now: no difference is older than it can be.
    as_of = min(period.end, from_datetime(datetime.now(UTC)))
    explained = [(difference, corrections.take(difference)) for difference in differences]
    used = [correction for _, correction in explained if correction is not None]
    if target is not None and used:
        target.with_store(partial(_record_corrections, target, statement, used))

    _print_result(reconciliation, explained, as_of, as_json=as_json)
    for unused in corrections.left():
        print_status(
            f"The correction in line {unused.line} of {corrections_file} is about no difference."
        )

    # A correction explains a difference, and does not make the numbers agree: only open ones count.
    count = sum(correction is None for _, correction in explained)
    if count:
        raise NegativeAnswer(f"Differences without an explanation: {count}.")


async def _add_stored(
    reconciliation: Reconciliation,
    brand: str | None,
    period: Period,
    method: str | None,
    count_record: Callable[[], None],
    store: Store,
) -> None:
    """Add the payments and reversals of a store."""
    # Imported here, as the records of a file are compared without the packages of the gateway.
    from mmo_trio.cli.commands.stored_records import read_records, read_reversals

    async for _, record in read_records(store, brand, period, method):
        _add_record(reconciliation, record, period, method)
        count_record()

    async for reversal, payment in read_reversals(store, brand, method):
        reconciliation.add_record(recorded_reversal(reversal, payment, period))


async def _record_corrections(
    target: CommandTarget, statement: Statement, used: Sequence[Correction], store: Store
) -> None:
    """Append to the audit log which corrections explain the differences of a statement."""
    # By its digest: the file may be renamed, and its name says nothing of its content.
    with statement.file.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()

    # In several events, so that a row of the log stays small.
    for start in range(0, len(used), CORRECTIONS_IN_EVENT):
        await target.record(
            store,
            "differences_corrected",
            "records",
            statement=digest,
            corrections=[
                {
                    "kind": correction.kind,
                    "reference": correction.reference,
                    "by": correction.by,
                    "reason": correction.reason,
                }
                for correction in used[start : start + CORRECTIONS_IN_EVENT]
            ],
        )


def _read_tolerance(text: str) -> dict[str, int]:
    """Return by how many minor units amounts may differ, by currency. Raises UsageProblem."""
    try:
        # More than a thousand units is no rounding any more: it would hide a payment.
        amount = Decimal(text)
        if not 0 <= amount <= 1_000:
            raise ValueError
    except (ArithmeticError, ValueError):
        raise UsageProblem(
            f"--tolerance {text}: write an amount from 0 to 1000, such as 0.05."
        ) from None
    return {currency: int(amount.scaleb(decimals_of(currency))) for currency in CURRENCIES}


def _read_corrections(file: Path | None) -> Corrections:
    """Return the corrections of a file. Raises UsageProblem."""
    if file is None:
        return Corrections()

    table = open_table(file, TableForm(), COLUMNS)
    if isinstance(table, Table):
        corrections = read_corrections(table)
    else:
        corrections = Corrections([*table])

    if corrections.faults:
        raise UsageProblem(f"{file}: " + "\n".join(describe_faults(corrections.faults)))

    return corrections


def _is_of(brand: str, text: bytes) -> bool:
    """Tell whether a transaction object is about this brand's payment; one that names no brand is.
    Raises UsageProblem."""
    read_record(text)
    owner: str = json.loads(text).get("brand", brand)
    return owner == brand


def _add_record(
    reconciliation: Reconciliation, text: bytes, period: Period, method: str | None
) -> None:
    """Add the payment of a transaction object."""
    if method is None or json.loads(text)["method"] == method:
        reconciliation.add_record(read_record(text, period))


def _row(
    difference: Difference, correction: Correction | None, as_of: Instant
) -> dict[str, object]:
    """Return what is told of a difference: what it is, for how many days it has been open by the
    records, and who has explained it."""
    record = difference.record
    days = None
    if record is not None and record.ended_at is not None:
        days = max(0, as_of - record.ended_at) // clock.DAY

    explained = correction and f"{correction.reason} ({correction.by})"
    return difference.members() | {"ageDays": days, "correction": explained}


def _print_result(
    reconciliation: Reconciliation,
    explained: Sequence[tuple[Difference, Correction | None]],
    as_of: Instant,
    *,
    as_json: bool,
) -> None:
    counts = Counter(difference.kind for difference, correction in explained if correction is None)
    corrected = sum(correction is not None for _, correction in explained)
    fees = format_sums(dict(sorted(reconciliation.fees.items())))
    recorded = format_sums(reconciliation.recorded_fees())
    tolerated = format_sums(dict(sorted(reconciliation.tolerated.items())))
    rows = [_row(difference, correction, as_of) for difference, correction in explained]
    if as_json:
        summary: dict[str, object] = {
            "matched": reconciliation.matched,
            "matchedSimulated": reconciliation.matched_simulated,
            "unsettled": reconciliation.unsettled,
            "corrected": corrected,
            "tolerated": tolerated,
            "fees": fees,
            "recordedFees": recorded,
            "differences": {kind.value: counts[kind] for kind in DifferenceKind},
            "rows": rows,
        }
        print_json_text(json.dumps(summary, ensure_ascii=False, indent=2))
        return

    # For people with separators of thousands; JSON has the exact texts.
    if rows:
        sides = ("records", "statement")
        shown = [
            row | {side: row[side] and format_amounts_in(str(row[side])) for side in sides}
            for row in rows
        ]
        print_rows(tuple(rows[0]), shown, as_json=False)

    print_line(
        f"{reconciliation.matched} lines have a payment, and {reconciliation.unsettled} are about "
        f"no money."
    )
    if reconciliation.matched_simulated:
        print_line(
            f"Of these payments {reconciliation.matched_simulated} are simulated: no money moved "
            f"by them."
        )

    for currency, text in fees.items():
        print_line(format_amounts_in(f"Fees by the statement: {text} {currency}."))

    for name, text in recorded.items():
        provider, _, currency = name.rpartition(" ")
        print_line(format_amounts_in(f"Fees by the records: {text} {currency} by {provider}."))

    for currency, text in tolerated.items():
        print_line(format_amounts_in(f"Differences within the tolerance: {text} {currency}."))

    if corrected:
        print_line(f"Explained by corrections: {corrected}")

    for kind, count in sorted(counts.items()):
        print_line(f"{kind.value}: {count}")
