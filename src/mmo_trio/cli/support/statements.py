"""Reads the files that `--statement` and `--records` name, and defines the options of a
statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from attrs import frozen

from mmo_merchant.reconciliation.comparison import StatementLine
from mmo_merchant.reconciliation.held_records import RecordedPayment
from mmo_merchant.reconciliation.recorded_payments import (
    EVER,
    Period,
    RecordError,
    recorded_payment,
)
from mmo_merchant.reconciliation.statement_file import (
    FIELDS,
    OPTIONAL_COLUMNS,
    PREAMBLE_LINES_MAX,
    PRESETS,
    StatementForm,
    StatementReader,
)
from mmo_merchant.tables.csv_rows import DELIMITER_NAMES
from mmo_merchant.tables.faults import Fault, describe_faults, name_lines
from mmo_merchant.tables.numbers import Notation, declared_format
from mmo_merchant.tables.table_file import Columns, Table, TableForm, open_table
from mmo_merchant.tables.words import fold_word
from mmo_sansio.values.model import Status
from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.cli.support.options import Command, file_type
from mmo_trio.cli.support.output import print_status

# Kinds of faults that are told.
FAULTS_MAX = 20


@frozen
class Statement:
    """A statement of an operator, or a merchant's ledger."""

    file: Path
    headings: Mapping[str, str]
    """The headings of its columns by field."""
    table_form: TableForm
    form: StatementForm
    optional: Mapping[str, str] = MappingProxyType({})
    """Headings that it may have as well."""

    def lines(self) -> Iterator[StatementLine]:
        """Yield its lines, and say which were left out. Raises UsageProblem at the end if the file
        can't be read in one way."""
        reader = self._reader()
        yield from reader.lines()
        # At the end: a fault in the last line makes the whole comparison useless.
        self._end(reader)

    def references(self, *, skips_blank: bool) -> list[str]:
        """Return its references. Raises UsageProblem if the file can't be read in one way, or for a
        line without a reference, unless these are to be skipped."""
        reader = self._reader()
        if "reference" not in reader.table.positions:
            raise UsageProblem(
                "Name the column of the merchant's references: --map reference=HEADING."
            )

        references = list(reader.references())

        # A blank reference counts as nobody's: such a line has to be mended, or skipped on purpose.
        blank = reader.without_reference
        if blank and not skips_blank:
            remedy = "Write it, or skip such lines by --skip-without-reference."
            reader.faults += [Fault(line, "reference", "is blank", remedy) for line in blank]

        self._end(reader)
        if blank:
            print_status(f"{name_lines(blank)} without a reference: skipped.".capitalize())

        return references

    def _reader(self) -> StatementReader:
        columns = Columns(self.headings, self.optional, PREAMBLE_LINES_MAX)
        table = open_table(self.file, self.table_form, columns)
        if not isinstance(table, Table):
            raise self._problem(table)
        return StatementReader(table, self.form)

    def _end(self, reader: StatementReader) -> None:
        if reader.faults:
            raise self._problem(reader.faults)
        if reader.totals:
            print_status(f"{name_lines(reader.totals)} with a total: left out.".capitalize())

    def _problem(self, faults: Sequence[Fault]) -> UsageProblem:
        sentences = describe_faults(faults)
        more = len(sentences) - FAULTS_MAX
        remark = []
        if more > 0:
            remark.append(f"And {more} more kinds of faults.")
        return UsageProblem(f"{self.file}: " + "\n".join([*sentences[:FAULTS_MAX], *remark]))


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
        @click.option(
            "--decimal",
            type=click.Choice([notation.value for notation in Notation]),
            help="What stands before decimals, where the file does not prove it.",
        )
        @click.option(
            "--status-word",
            "status_words",
            multiple=True,
            metavar="WORD=STATUS",
            help="What a word of the status column means: success, failed or pending.",
        )
        @click.option(
            "--delimiter",
            type=click.Choice(sorted(DELIMITER_NAMES)),
            help="What stands between cells, where it is not found.",
        )
        @click.option("--encoding", help="The encoding of a CSV file, such as cp1252.")
        @click.option("--sheet", help="The sheet of an .xlsx file that has several.")
        @wraps(command)
        def run(
            *,
            file: Path | None,
            preset: str | None,
            columns: Sequence[str],
            currency: str | None,
            decimal: str | None,
            status_words: Sequence[str],
            delimiter: str | None,
            encoding: str | None,
            sheet: str | None,
            **arguments: Any,
        ) -> None:
            # The options make one value, so that commands know nothing of files' forms.
            statement = None
            if file is not None:
                headings = _read_columns(preset, columns)
                also = OPTIONAL_COLUMNS.get(preset or "", {})
                optional = {name: also[name] for name in also if name not in headings}
                mark = None
                if delimiter is not None:
                    mark = DELIMITER_NAMES[delimiter]

                statement = Statement(
                    file,
                    headings,
                    TableForm(mark, encoding, sheet),
                    StatementForm(
                        currency and currency.upper(),
                        declared_format(decimal),
                        _read_status_words(status_words),
                    ),
                    optional,
                )

            command(statement=statement, **arguments)

        return run

    return add


def _read_status_words(words: Sequence[str]) -> dict[str, Status]:
    """Return what words mean, folded. Raises UsageProblem."""
    meanings = dict[str, Status]()
    for item in words:
        word, _, status = item.rpartition("=")
        if not fold_word(word) or status not in [status_.value for status_ in Status]:
            raise UsageProblem(
                f"--status-word {item}: write WORD=STATUS, with success, failed or pending."
            )
        meanings[fold_word(word)] = Status(status)
    return meanings


def _read_columns(preset: str | None, columns: Sequence[str]) -> dict[str, str]:
    """Return the headings by field: those of the preset, and those of --map, which come first.
    Raises UsageProblem."""
    headings: dict[str, str] = {}
    if preset is not None:
        headings.update(PRESETS[preset])

    for column in columns:
        name, equals, heading = column.partition("=")
        if not equals or name not in FIELDS or not heading.strip():
            raise UsageProblem(
                f"--map {column}: write FIELD=HEADING, with one of the fields {', '.join(FIELDS)}."
            )

        headings[name] = heading.strip()

    # Without an amount there is nothing to compare, and without a name no payment to compare with.
    has_amount = {"amount", "paid_in", "paid_out"} & headings.keys()
    if not has_amount or not {"receipt", "reference"} & headings.keys():
        raise UsageProblem(
            "A statement needs columns for an amount and for a receipt or reference: give --preset,"
            ' or name them with --map, such as --map receipt="Receipt No." --map amount=Amount.'
        )

    return headings


def lines_of(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file that are not blank."""
    with file.open("rb") as lines:
        yield from (line for line in lines if line.strip())


def brand_of(text: bytes, named: str | None) -> str:
    """Return whose payment a transaction object is about: by itself, as in an export of several
    brands, else the one that is named; empty where neither says it. Raises UsageProblem where both
    do, and differ."""
    own: str = json.loads(text).get("brand", "")
    # Wrong payments would be compared, or one brand's references count as used for another.
    if named and own and own != named:
        raise UsageProblem(
            f"--brand {named}: the file has payments of {own}. Leave --brand out, as each line says"
            " whose it is."
        )
    return own or named or ""


def read_record(text: bytes, period: Period = EVER) -> RecordedPayment:
    """Return what a transaction object says. Raises UsageProblem for text that is none."""
    try:
        return recorded_payment(text, period)
    except RecordError as error:
        raise UsageProblem(str(error)) from None
