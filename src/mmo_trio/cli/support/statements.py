"""Reads the files that `--statement` and `--records` name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mmo_merchant.reconciliation.comparison import RecordedPayment, StatementLine
from mmo_merchant.reconciliation.recorded_payments import EVER, Period, RecordError, recorded_payment
from mmo_merchant.reconciliation.statement_file import FIELDS, PRESETS, StatementError, read_statement
from mmo_trio.cli.support.errors import UsageProblem


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


def statement_lines(statement: Path, headings: Mapping[str, str], currency: str | None) -> Iterator[StatementLine]:
    """Yield the lines of a statement. Raises UsageProblem for a file that is none."""
    try:
        with statement.open(encoding="utf-8-sig", newline="") as file:
            yield from read_statement(file, headings, currency=currency)
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{statement}: byte {error.start} is not UTF-8. Save the file as CSV in UTF-8.") from None
    except StatementError as error:
        raise UsageProblem(f"{statement}: {error}.") from None


def lines_of(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file that are not blank."""
    with file.open("rb") as lines:
        yield from (line for line in lines if line.strip())


def read_record(text: bytes, period: Period = EVER) -> RecordedPayment:
    """Return what a transaction object says. Raises UsageProblem for text that is none."""
    try:
        return recorded_payment(text, period)
    except RecordError as error:
        raise UsageProblem(str(error)) from None
