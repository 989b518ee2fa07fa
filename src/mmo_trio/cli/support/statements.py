"""Reads the files that `--statement` and `--records` name, and defines the options of a
statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from mmo_merchant.reconciliation.comparison import RecordedPayment, StatementLine
from mmo_merchant.reconciliation.recorded_payments import (
    EVER,
    Period,
    RecordError,
    recorded_payment,
)
from mmo_merchant.reconciliation.statement_file import (
    FIELDS,
    PRESETS,
    StatementError,
    read_statement,
)
from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.cli.support.options import Command, file_type


@frozen
class Statement:
    """A statement of an operator, or a merchant's ledger."""

    file: Path
    headings: Mapping[str, str]
    """The headings of its columns by field."""
    currency: str | None
    """The currency of a file that has no column for it."""

    def lines(self) -> Iterator[StatementLine]:
        """Yield its lines. Raises UsageProblem for a file that is no statement."""
        try:
            with self.file.open(encoding="utf-8-sig", newline="") as file:
                yield from read_statement(file, self.headings, currency=self.currency)
        except UnicodeDecodeError as error:
            raise UsageProblem(
                f"{self.file}: byte {error.start} is not UTF-8. Save the file as CSV in UTF-8."
            ) from None
        except StatementError as error:
            raise UsageProblem(f"{self.file}: {error}.") from None


def statement_options(purpose: str, *, is_required: bool = False) -> Callable[[Command], Command]:
    """Return the options of a statement; the command receives it as `statement`, None without
    `--statement`."""

    def add(command: Command) -> Command:
        @click.option("--statement", "file", type=file_type, required=is_required, help=purpose)
        @click.option(
            "--preset",
            type=click.Choice(sorted(PRESETS)),
            help="The columns of an operator's statement.",
        )
        @click.option(
            "--map",
            "columns",
            multiple=True,
            help=f"FIELD=HEADING of a column; FIELD is {', '.join(FIELDS)}.",
        )
        @click.option("--currency", help="The currency of a statement that has no column for it.")
        @wraps(command)
        def run(
            *,
            file: Path | None,
            preset: str | None,
            columns: Sequence[str],
            currency: str | None,
            **arguments: Any,
        ) -> None:
            statement = (
                None if file is None else Statement(file, _read_columns(preset, columns), currency)
            )
            command(statement=statement, **arguments)

        return run

    return add


def _read_columns(preset: str | None, columns: Sequence[str]) -> dict[str, str]:
    """Return the headings by field: those of the preset, and those of --map, which come first.
    Raises UsageProblem."""
    headings = dict(PRESETS[preset]) if preset is not None else {}
    for each in columns:
        name, equals, heading = each.partition("=")
        if not equals or name not in FIELDS or not heading.strip():
            raise UsageProblem(
                f"--map {each}: write FIELD=HEADING, with one of the fields {', '.join(FIELDS)}."
            )
        headings[name] = heading.strip()
    has_amount = {"amount", "paid_in", "paid_out"} & headings.keys()
    if not has_amount or not {"receipt", "reference"} & headings.keys():
        raise UsageProblem(
            "A statement needs columns for an amount and for a receipt or reference: give "
            "--preset, or name them with"
            ' --map, such as --map receipt="Receipt No." --map amount=Amount.'
        )
    return headings


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
