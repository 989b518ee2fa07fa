"""Keeps what was asked of the gateway for each line of a pay-roll and what became of it, and writes
the result file.

The journal is one JSON object a line. The first has the gateway and the pay-roll; each further one
has a reference and its state from then on. A last line that was only written in part, as the
program died, is cut off: what it would have said had not been acted upon."""

from __future__ import annotations

import csv
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from attrs import asdict, astuple, define, evolve, frozen

from mmo_merchant.api.transaction_objects import TransactionObject
from mmo_merchant.payroll.pay_roll import PayLine, next_try
from mmo_sansio.values.formula_guard import guard_cell
from mmo_sansio.values.model import Status

# As many as a person looks through; the rest is probably the same change.
CHANGES_LISTED_MAX: Final = 20

# Behind the name of the file: a copy under another name begins a journal of its own.
SUFFIX: Final = ".journal"

RESULT_COLUMNS: Final = (
    *("line", "merchantReference", "status", "amount", "currency"),
    *(
        "gatewayReference",
        "providerReference",
        "finalAmount",
        "createdAt",
        "completedAt",
        "errorCode",
        "message",
    ),
)

# What a file of failed lines has behind the columns of the pay-roll.
_REASONS: Final = ("errorCode", "message")

_CHANGES: Final = {"delete": "gone", "insert": "new", "replace": "not as it was"}
_UNCLEAR: Final = "It is not known whether the gateway has it. Run the same command again."
_EARLIER: Final = "The payment was there before this journal began."


class JournalError(Exception):
    """The journal cannot be used, or is that of another pay-roll; the message is a sentence."""


class Phase(StrEnum):
    """Says how far a line is that was sent."""

    SENT = "sent"
    """A creation may have left, and it is not known whether it arrived."""
    ACCEPTED = "accepted"
    """The gateway has it, and it is pending: it is never sent again."""
    SUCCESS = "success"
    FAILED = "failed"
    UNPROVED = "unproved"
    """It has failed, by a code that does not prove that no money has moved."""
    REJECTED = "rejected"
    """The gateway has refused it and stored nothing."""
    TAKEN = "taken"
    """Its reference belongs to another payment, which may have paid the same person."""


@frozen(kw_only=True)
class LineState:
    """Is what is known of a line that was sent; an empty text stands for what is not known."""

    phase: Phase
    gateway_reference: str = ""
    provider_reference: str = ""
    final_amount: str = ""
    """What was paid, in the currency of the line; it may be another amount than the line's."""
    created_at: str = ""
    completed_at: str = ""
    error_code: str = ""
    message: str = ""
    is_earlier: bool = False
    """Tells that the payment was there before this journal had sent it."""

    @property
    def status(self) -> Status:
        """Return what the result file says."""
        if self.phase in (Phase.SENT, Phase.ACCEPTED, Phase.TAKEN):
            return Status.PENDING
        if self.phase is Phase.SUCCESS:
            return Status.SUCCESS
        return Status.FAILED


def phase_of(transaction: TransactionObject) -> Phase:
    """Return how far a payment is that the gateway has."""
    if not transaction.has_ended:
        return Phase.ACCEPTED
    if transaction.is_failure_unproved:
        return Phase.UNPROVED
    return Phase(transaction.status.value)


def known_state(transaction: TransactionObject) -> LineState:
    """Return the state of a line whose payment the gateway has."""
    # Empty texts stand for what is not known: they are left out of the journal.
    final_amount = ""
    if transaction.final_amount is not None:
        final_amount = transaction.final_amount.text

    completed_at = ""
    if transaction.completed_at is not None:
        completed_at = transaction.completed_at.isoformat()

    return LineState(
        phase=phase_of(transaction),
        gateway_reference=transaction.gateway_reference,
        provider_reference=transaction.provider_reference or "",
        final_amount=final_amount,
        created_at=transaction.created_at.isoformat(),
        completed_at=completed_at,
        error_code=transaction.error_code or "",
        message=transaction.error_message or "",
    )


def changes(before: Sequence[tuple[int, str, str, str]], lines: Sequence[PayLine]) -> list[str]:
    """Return how a pay-roll differs from the numbers, references and digests with which its journal
    began: a sentence for each of the first changes."""
    sentences = list[str]()
    kept = [fingerprint for _, _, fingerprint, _ in before]
    present = [line.fingerprint for line in lines]
    references = [line.payment.merchant_reference for line in lines]
    begun_with = [reference for _, reference, _, _ in before]

    # A file that was sorted pays the same people: each reference still has its fingerprint.
    if sorted(zip(begun_with, kept, strict=True)) == sorted(zip(references, present, strict=True)):
        return []

    # What people did to the file, as a text comparison finds it: by what is paid, not by line
    # numbers.
    for kind, begin, end, new_begin, new_end in SequenceMatcher(
        None, kept, present, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            # Lines of the file as it is, and of the file as it was for those that are gone.
            numbers = [line.number for line in lines[new_begin:new_end]] or [
                number for number, _, _, _ in before[begin:end]
            ]
            if len(numbers) == 1:
                span = f"Line {numbers[0]}"
            else:
                span = f"What is in lines {numbers[0]} to {numbers[-1]}"
            sentences.append(f"{span} is {_CHANGES[kind]}.")

    if not sentences:
        sentences.append(
            "The references are not what they were: --name, or their column, has changed."
        )

    return sentences[:CHANGES_LISTED_MAX]


@define
class Journal:
    """Is the journal of one pay-roll, while it is open."""

    descriptor: int
    states: dict[str, LineState]
    """The state of each line that was sent, by its reference."""

    def state(self, line: PayLine) -> LineState | None:
        """Return the state of a line; None if it was never sent."""
        return self.states.get(line.payment.merchant_reference)

    def record(self, reference: str, state: LineState) -> None:
        """Store a new state; it is durable when this returns. Raises OSError."""
        # A state that is known already costs no write: a poll mostly brings none.
        if self.states.get(reference) != state:
            self.append(
                {"reference": reference}
                | {name: value for name, value in asdict(state).items() if value}
            )
            self.states[reference] = state

    def append(self, members: dict[str, Any]) -> None:
        """Write a line to the end, durably; what could only be written in part is taken back.
        Raises OSError."""
        text = json.dumps(members, separators=(",", ":")).encode() + b"\n"
        size_bytes = os.fstat(self.descriptor).st_size
        # A write may be short, and a full disk may end it in the middle.
        try:
            while text:
                text = text[os.write(self.descriptor, text) :]
            os.fsync(self.descriptor)

        except OSError:
            # Half an entry would hide the next one, which is written behind it.
            os.ftruncate(self.descriptor, size_bytes)
            raise


@contextmanager
def open_journal(
    path: Path, gateway: str, lines: Sequence[PayLine], name: str = ""
) -> Iterator[Journal]:
    """Open a pay-roll's journal, or begin it, for this program and its owner alone. Raises
    JournalError when another program has it open, when it is damaged, or when it was begun for
    something else; OSError when it cannot be written."""
    journal = Journal(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), {})
    try:
        # A lock of the open file: it ends with the program, however that ends.
        fcntl.flock(journal.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

        # An entry without its line feed was never acted upon: it is cut off (module docstring).
        whole, line_feed, _ = path.read_bytes().rpartition(b"\n")
        os.ftruncate(journal.descriptor, len(whole + line_feed))
        if whole:
            journal.states = _read(whole, gateway, lines)
        else:
            # The whole file first, before anything is sent: a changed file is found by it.
            kept = [
                (line.number, line.payment.merchant_reference, line.fingerprint, line.payee)
                for line in lines
            ]
            begun_at = datetime.now(UTC).isoformat()
            begun = {"gateway": gateway, "name": name, "begun_at": begun_at, "lines": kept}
            journal.append(begun)

            # A journal whose name is lost with the power would begin anew.
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

        yield journal
    except BlockingIOError:
        raise JournalError("another program is paying this file. Wait for it.") from None
    finally:
        os.close(journal.descriptor)


def _read(text: bytes, gateway: str, lines: Sequence[PayLine]) -> dict[str, LineState]:
    try:
        begun, *entries = map(json.loads, text.splitlines())
        begun_for = begun["gateway"]
        differences = changes(begun["lines"], lines)

        # Later entries replace earlier ones: the last state of a line counts.
        states = {
            entry.pop("reference"): LineState(**entry | {"phase": Phase(entry["phase"])})
            for entry in entries
        }
    except (ValueError, KeyError, TypeError) as error:
        # Never guessed around: what can't be read may be a payment.
        raise JournalError(
            f"it is damaged ({error!r}). Restore it, and never begin anew."
        ) from None

    if differences:
        advice = (
            "Restore the file. Mend lines that have failed in its .failed.csv, and put what is new "
            "into a file of its own."
        )
        raise JournalError(f"the file has changed since it began. {' '.join(differences)} {advice}")

    # A gateway under another address doesn't know these references and would pay them again.
    if begun_for != gateway:
        raise JournalError(
            f"it was begun for the gateway {begun_for}, to which lines may have been sent. Use "
            f"that one."
        )

    return states


def write_results(
    path: Path, names: Sequence[str], lines: Sequence[PayLine], journal: Journal
) -> None:
    """Put a new result file, readable by its owner alone, in the place of the last one; behind the
    results are the columns of the pay-roll, by these names. A line that was never sent is not in
    it, so that it is a ledger of what may have been paid. Raises OSError."""
    headings = [_heading_beside_results(name) for name in names]
    rows = [
        [*_row(line, state), *line.cells]
        for line in lines
        if (state := journal.state(line)) is not None
    ]
    _write_table(path, [[*RESULT_COLUMNS, *headings], *rows], delimiter=",", encoding="utf-8")


def _heading_beside_results(name: str) -> str:
    """Return a heading of the pay-roll, told from those of the results where it is one of them."""
    if name.casefold() in {column.casefold() for column in RESULT_COLUMNS}:
        return f"file {name}"
    return name


def write_failed(
    path: Path,
    names: Sequence[str],
    lines: Sequence[PayLine],
    journal: Journal,
    *,
    reference_at: int | None,
    delimiter: str,
    encoding: str,
) -> int:
    """Write the lines that have failed as a pay-roll of its own, with the references of their next
    tries, and return how many there are. One that may have been paid all the same is not among
    them. What is there already is left: people may have mended it. Raises OSError."""
    failed = _failed_lines(lines, journal)
    if not failed or path.exists():
        return len(failed)

    headings = [*names]
    if reference_at is None:
        # No column has the references: one more has them, behind the others.
        reference_at = len(names)
        headings.append("merchantReference")

    rows = [[*headings, *_REASONS]]
    for line, state in failed:
        # A row may end early; the reference has its place all the same.
        cells = [*line.cells, *([""] * (len(names) - len(line.cells)))]
        cells[reference_at : reference_at + 1] = [next_try(line.payment.merchant_reference)]
        rows.append([*cells, state.error_code, state.message])

    _write_table(path, rows, delimiter=delimiter, encoding=encoding)
    return len(failed)


def _failed_lines(lines: Sequence[PayLine], journal: Journal) -> list[tuple[PayLine, LineState]]:
    # Not UNPROVED and not TAKEN: somebody may have been paid.
    return [
        (line, state)
        for line in lines
        if (state := journal.state(line)) is not None
        and state.phase in (Phase.FAILED, Phase.REJECTED)
    ]


def is_failed_file_of(path: Path, lines: Sequence[PayLine], journal: Journal) -> bool:
    """Tell whether a file of failed lines has any of those that have failed here; people may have
    mended it, and taken lines out. Raises OSError."""
    # A spreadsheet program may have saved it in two bytes a character.
    text = path.read_bytes().replace(b"\0", b"")
    return any(
        next_try(line.payment.merchant_reference).encode() in text
        for line, _ in _failed_lines(lines, journal)
    )


def _write_table(
    path: Path, rows: Iterable[Sequence[object]], *, delimiter: str, encoding: str
) -> None:
    """Put a new CSV file, readable by its owner alone, in the place of the last one."""
    # Written aside: who reads the file meanwhile, or a full disk, leaves the last one whole.
    draft = path.with_name(f"{path.name}.new")
    with open(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        "w",
        encoding=encoding,
        errors="replace",
        newline="",
    ) as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        # No cell may begin a formula: names and messages are other people's text.
        writer.writerows([guard_cell(str(cell)) for cell in row] for row in rows)

    draft.replace(path)


def _row(line: PayLine, state: LineState) -> tuple[object, ...]:
    amount = line.payment.amount
    remark = ""
    if state.phase is Phase.SENT:
        remark = _UNCLEAR
    elif state.is_earlier:
        remark = _EARLIER

    asked = (
        line.number,
        line.payment.merchant_reference,
        state.status.value,
        amount.text,
        amount.currency,
    )
    # Without the phase, which the status says, and without is_earlier, which the message says.
    return *asked, *astuple(evolve(state, message=state.message or remark))[1:-1]
