"""Keeps what was asked of the gateway for each line of a pay-roll and what became of it, and writes the result file.

The journal is one JSON object a line. The first has the gateway and the pay-roll; each further one has a reference and
its state from then on. A last line that was only written in part, as the program died, is cut off: what it would have
said had not been acted upon.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen

from mmo_merchant.api.transaction_objects import TransactionObject
from mmo_merchant.payroll.pay_roll import PayLine
from mmo_sansio.values.model import Status

CHANGES_LISTED_MAX: Final = 20
RESULT_COLUMNS: Final = (
    *("line", "merchantReference", "status", "amount", "currency", "finalAmount", "gatewayReference"),
    *("providerReference", "createdAt", "completedAt", "errorCode", "message"),
)
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
    REJECTED = "rejected"
    """The gateway has refused it and stored nothing, or its reference belongs to another payment."""


_STATUSES: Final = {
    **dict.fromkeys((Phase.SENT, Phase.ACCEPTED), Status.PENDING),
    **dict.fromkeys((Phase.FAILED, Phase.REJECTED), Status.FAILED),
    Phase.SUCCESS: Status.SUCCESS,
}


@frozen(kw_only=True)
class LineState:
    """Is what is known of a line that was sent; an empty text stands for what is not known."""

    phase: Phase
    gateway_reference: str = ""
    provider_reference: str = ""
    final_amount: str = ""
    """What was paid, in the currency of the line; it may be another amount than the line's."""
    created_at: str = ""
    """ISO 8601."""
    completed_at: str = ""
    error_code: str = ""
    message: str = ""
    is_earlier: bool = False
    """Tells that the payment was there before this journal had sent it."""

    @property
    def status(self) -> Status:
        """Return what the result file says."""
        return _STATUSES[self.phase]


def known_state(found: TransactionObject, *, is_earlier: bool) -> LineState:
    """Return the state of a line whose payment the gateway has."""
    phases = {Status.PENDING: Phase.ACCEPTED, Status.SUCCESS: Phase.SUCCESS, Status.FAILED: Phase.FAILED}
    return LineState(
        phase=phases[found.status],
        gateway_reference=found.gateway_reference,
        provider_reference=found.provider_reference or "",
        final_amount="" if found.final_amount is None else found.final_amount.text,
        created_at=found.created_at.isoformat(),
        completed_at="" if found.completed_at is None else found.completed_at.isoformat(),
        error_code=found.error_code or "",
        message=found.error_message or "",
        is_earlier=is_earlier,
    )


def changes(before: Sequence[tuple[int, str, str]], lines: Sequence[PayLine]) -> list[str]:
    """Return how a pay-roll differs from the numbers, references and fingerprints with which its journal began: a
    sentence for each change."""
    found, kept = list[str](), [each for _, _, each in before]
    differ = SequenceMatcher(None, kept, [each.fingerprint for each in lines], autojunk=False)
    for kind, begin, end, new_begin, new_end in differ.get_opcodes():
        present = [each.number for each in lines[new_begin:new_end]]
        numbers = present or [number for number, _, _ in before[begin:end]]
        span = f"Line {numbers[0]}" if len(numbers) == 1 else f"The part of lines {numbers[0]} to {numbers[-1]}"
        if kind != "equal":
            found.append(f"{span} is {'gone' if not present else 'new' if kind == 'insert' else 'not as it was'}.")
    if not found and [each for _, each, _ in before] != [each.payment.merchant_reference for each in lines]:
        found.append("The references are not what they were: --name, or their column, has changed.")
    return [*found[:CHANGES_LISTED_MAX], "And more."] if len(found) > CHANGES_LISTED_MAX else found


class Journal:
    """Is the journal of one pay-roll, readable by its owner alone; only one program at a time has it open."""

    def __init__(self, path: Path, gateway: str, lines: Sequence[PayLine]) -> None:
        """Open the journal, or begin it. Raises JournalError when another program has it open, when it is damaged, or
        when it was begun for something else; OSError when it cannot be written."""
        self.path = path
        self.states: dict[str, LineState] = {}
        """The state of each line that was sent, by its reference."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            whole = path.read_bytes().rpartition(b"\n")[0]
            os.ftruncate(self._descriptor, len(whole) + bool(whole))
            if whole:
                self._read(whole, gateway, lines)
            else:
                self._begin(gateway, lines)
        except BaseException as error:
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise JournalError(f"{path}: another program is paying this file. Wait for it.") from None
            raise

    def close(self) -> None:
        """Leave the journal to other programs."""
        os.close(self._descriptor)

    def state(self, line: PayLine) -> LineState | None:
        """Return the state of a line; None if it was never sent."""
        return self.states.get(line.payment.merchant_reference)

    def record(self, reference: str, state: LineState) -> None:
        """Store a new state; it is durable when this returns."""
        if self.states.get(reference) != state:
            self._append({"reference": reference} | {name: each for name, each in asdict(state).items() if each})
            self.states[reference] = state

    def _begin(self, gateway: str, lines: Sequence[PayLine]) -> None:
        kept = [(each.number, each.payment.merchant_reference, each.fingerprint) for each in lines]
        self._append({"gateway": gateway, "lines": kept})
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)  # A journal whose name is lost with the power would begin anew.
        os.close(folder)

    def _read(self, text: bytes, gateway: str, lines: Sequence[PayLine]) -> None:
        try:
            begun, *entries = map(json.loads, text.splitlines())
            begun_for, differences = begun["gateway"], changes(begun["lines"], lines)
            for entry in entries:
                reference, phase = entry.pop("reference"), Phase(entry.pop("phase"))
                self.states[reference] = LineState(phase=phase, **entry)
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(f"{self.path} is damaged ({error!r}). Restore it; never begin anew.") from None
        if differences:
            advice = "Restore the file, and put what is new into a file of its own."
            raise JournalError(f"{self.path} was begun before the file changed. {' '.join(differences)} {advice}")
        if begun_for != gateway:
            raise JournalError(f"{self.path} was begun for the gateway {begun_for}: what was sent is there. Use it.")

    def _append(self, members: dict[str, Any]) -> None:
        """Write a line to the end, durably; what could only be written in part is taken back."""
        text, size_bytes = (
            json.dumps(members, separators=(",", ":")).encode() + b"\n",
            os.fstat(self._descriptor).st_size,
        )
        try:
            while text:
                text = text[os.write(self._descriptor, text) :]
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, size_bytes)
            raise


def write_results(path: Path, lines: Sequence[PayLine], journal: Journal) -> None:
    """Put a new result file, readable by its owner alone, in the place of the last one. A line that was never sent is
    not in it, so that it is a ledger of what may have been paid."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(RESULT_COLUMNS)
        rows.writerows(_row(each, state) for each in lines if (state := journal.state(each)) is not None)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _row(line: PayLine, state: LineState) -> tuple[object, ...]:
    amount, remark = (
        line.payment.amount,
        _UNCLEAR if state.phase is Phase.SENT else _EARLIER if state.is_earlier else "",
    )
    return (
        *(line.number, line.payment.merchant_reference, state.status.value, amount.text, amount.currency),
        *(state.final_amount, state.gateway_reference, state.provider_reference, state.created_at),
        *(state.completed_at, state.error_code, state.message or remark),
    )
