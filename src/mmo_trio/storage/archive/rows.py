r"""Writes and reads the rows of the archive's files: CSV (RFC 4180) in UTF-8 with a head line, for any program.

A null is `\N`; a text that begins with a backslash has one more. Times are microseconds since 1970. `object` is the
transaction object as merchants saw it; `order` and `progress` are the stored rows, from which nothing is missing, each
with its checksum in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from attrs import Factory, define

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseReason
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import AuditEvent, AuditRow, Proposal, ProposalState, SuspenseEntry
from mmo_trio.storage.interface.retention import ArchivedHistory, ArchivedPayment
from mmo_trio.storage.sql.audit_log import audit_columns
from mmo_trio.storage.sql.columns import journal_columns
from mmo_trio.storage.sql.console_users import proposal_columns
from mmo_trio.storage.sql.serialization import parse_transaction, serialize_order, serialize_progress

T = TypeVar("T")

NULL: Final = r"\N"

_FIELD_CHARACTERS_MAX: Final = 64 * 1024 * 1024
"""More than any stored row; Python's own limit is less than a picture of a QR code may take."""

COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "transactions": (
        "gateway_reference", "brand", "merchant_reference", "created_at", "status", "version", "object", "order",
        "progress",
    ),
    "journal": (
        "id", "at", "input", "actor", "gateway_reference", "brand", "stage_before", "stage_after", "detail",
    ),
    "callbacks": ("id", "gateway_reference", "brand", "at", "outcome", "url", "status", "duration_ms", "detail"),
    "suspense": (
        "id", "reason", "provider", "content", "gateway_reference", "brand", "first_at", "last_at", "times",
        "closed_at", "closed_by", "note",
    ),
    "proposals": (
        "id", "gateway_reference", "brand", "error_code", "provider_reference", "reason", "evidence", "proposed_by",
        "proposed_at", "state", "decided_by", "decided_at", "remark",
    ),
    "audit": ("number", "at", "actor", "act", "about", "detail", "previous", "hash", "key_id", "mac"),
}  # fmt: skip
"""The columns of each kind of file."""

_INTEGERS: Final = frozenset(
    {
        "id", "version", "created_at", "at", "duration_ms", "first_at", "last_at", "times", "closed_at",
        "proposed_at", "decided_at", "number",
    }
)  # fmt: skip


@define
class ArchiveRows:
    """Holds the rows of a part of the archive, by kind."""

    transactions: list[Transaction] = Factory(list)
    journal: list[tuple[int, JournalEntry]] = Factory(list)
    callbacks: list[tuple[int, CallbackRecorded]] = Factory(list)
    suspense: list[SuspenseEntry] = Factory(list)
    proposals: list[Proposal] = Factory(list)
    audit: list[AuditRow] = Factory(list)

    @classmethod
    def of_payments(cls, payments: Iterable[ArchivedPayment]) -> ArchiveRows:
        """Return the rows of these payments."""
        rows = cls()
        for each in payments:
            rows.transactions.append(each.transaction)
            rows.journal += each.journal
            rows.callbacks += each.callbacks
            rows.suspense += each.suspense
            rows.proposals += each.proposals
        return rows

    @classmethod
    def of_history(cls, history: ArchivedHistory) -> ArchiveRows:
        """Return the rows of these lines and entries."""
        return cls(journal=list(history.journal), suspense=list(history.suspense))

    @classmethod
    def of_audit(cls, rows: Iterable[AuditRow]) -> ArchiveRows:
        """Return these rows of the audit log."""
        return cls(audit=list(rows))

    def payments(self) -> Sequence[ArchivedPayment]:
        """Return the payments of the part, each with what belongs to it."""
        journal = _by_reference(self.journal, lambda each: each[1].gateway_reference)
        callbacks = _by_reference(self.callbacks, lambda each: each[1].gateway_reference)
        suspense = _by_reference(self.suspense, lambda each: each.gateway_reference)
        proposals = _by_reference(self.proposals, lambda each: each.gateway_reference)
        return [
            ArchivedPayment(
                each,
                tuple(journal.get(each.reference, ())),
                tuple(callbacks.get(each.reference, ())),
                tuple(suspense.get(each.reference, ())),
                tuple(proposals.get(each.reference, ())),
            )
            for each in self.transactions
        ]

    def lines(self) -> Iterator[tuple[str, Iterator[Sequence[object]]]]:
        """Yield each kind of file that has rows, with the values of its columns."""
        makers: tuple[tuple[str, Sequence[Any], Callable[[Any], Sequence[object]]], ...] = (
            ("transactions", self.transactions, _transaction_values),
            ("journal", self.journal, _journal_values),
            ("callbacks", self.callbacks, _callback_values),
            ("suspense", self.suspense, _suspense_values),
            ("proposals", self.proposals, _proposal_values),
            ("audit", self.audit, audit_columns),
        )
        for kind, rows, make in makers:
            if rows:
                yield kind, map(make, rows)

    def add(self, kind: str, row: Mapping[str, Any]) -> None:
        """Add the row of a file of this kind, its values by their columns."""
        values = list(row.values())
        match kind:
            case "transactions":
                self.transactions.append(parse_transaction(row["order"].encode(), row["progress"].encode()))
            case "journal":
                self.journal.append((values[0], JournalEntry(*values[1:])))
            case "callbacks":
                status = None if values[6] is None else int(values[6])
                attempt = DeliveryAttempt(DeliveryOutcome(values[4]), values[5], status, values[7], values[8])
                self.callbacks.append((values[0], CallbackRecorded(values[1], values[2], attempt, values[3])))
            case "suspense":
                self.suspense.append(SuspenseEntry(values[0], SuspenseReason(values[1]), *values[2:]))
            case "proposals":
                self.proposals.append(Proposal(*(*values[:9], ProposalState(values[9]), *values[10:])))
            case "audit":
                self.audit.append(AuditRow(values[0], AuditEvent(*values[1:6]), *values[6:]))
            case _:
                raise ValueError(f"no file of the archive is of kind {kind}")


def _by_reference(rows: Iterable[T], reference_of: Callable[[T], str | None]) -> Mapping[str | None, Sequence[T]]:
    found: dict[str | None, list[T]] = {}
    for each in rows:
        found.setdefault(reference_of(each), []).append(each)
    return found


@define(eq=False)
class PartContent:
    """Holds the files of a part while it grows: rows are encoded as they come, some at a time."""

    references: list[str] = Factory(list)
    """The gatewayReferences of its payments."""
    audit_numbers: list[int] = Factory(list)
    """The numbers of its rows of the audit log."""
    _files: dict[str, io.StringIO] = Factory(dict)

    def add(self, rows: ArchiveRows) -> None:
        """Add rows at the end of their files."""
        for kind, values in rows.lines():
            file = self._files.get(kind)
            if file is None:
                file = self._files[kind] = io.StringIO(newline="")
                _writer(file).writerow(COLUMNS[kind])
            _writer(file).writerows(map(_encode_values, values))
        self.references += [each.reference for each in rows.transactions]
        self.audit_numbers += [each.number for each in rows.audit]

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield each kind of file with its content, not compressed yet."""
        for kind, file in self._files.items():
            yield kind, file.getvalue().encode()


def _transaction_values(transaction: Transaction) -> Sequence[object]:
    order, progress = transaction.order, transaction.progress
    return (
        order.gateway_reference,
        order.brand,
        order.merchant_reference,
        order.created_at,
        transaction.status.value,
        progress.version,
        transaction_object(transaction).decode(),
        serialize_order(order).decode(),
        serialize_progress(progress).decode(),
    )


def _journal_values(numbered: tuple[int, JournalEntry]) -> Sequence[object]:
    number, line = numbered
    return number, *journal_columns(line)


def _callback_values(numbered: tuple[int, CallbackRecorded]) -> Sequence[object]:
    number, each = numbered
    attempt = each.attempt
    return (
        number,
        each.gateway_reference,
        each.brand,
        each.at,
        attempt.outcome.value,
        attempt.url,
        attempt.status,
        attempt.duration_ms,
        attempt.detail,
    )


def _suspense_values(entry: SuspenseEntry) -> Sequence[object]:
    return (
        entry.id,
        entry.reason.value,
        entry.provider,
        entry.content,
        entry.gateway_reference,
        entry.brand,
        entry.first_at,
        entry.last_at,
        entry.times,
        entry.closed_at,
        entry.closed_by,
        entry.note,
    )


def _proposal_values(proposal: Proposal) -> Sequence[object]:
    return proposal.id, *proposal_columns(proposal)


def _writer(file: io.StringIO) -> Any:
    return csv.writer(file, lineterminator="\r\n")


def decode_rows(kind: str, content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, by column. Raises ValueError when it has other columns."""
    csv.field_size_limit(_FIELD_CHARACTERS_MAX)
    reader = csv.reader(io.StringIO(content.decode(), newline=""))
    columns = tuple(next(reader, ()))
    if columns != COLUMNS[kind]:
        raise ValueError(f"the columns of a {kind} file differ from this version's")
    for row in reader:
        yield {name: _decode_value(name, each) for name, each in zip(columns, row, strict=True)}


def _encode_values(row: Sequence[object]) -> Sequence[object]:
    """Return the row as `csv` writes it: a null and a text that begins with a backslash are not what they are."""
    return [
        NULL if each is None else f"\\{each}" if isinstance(each, str) and each.startswith("\\") else each
        for each in row
    ]


def _decode_value(column: str, text: str) -> object:
    if text == NULL:
        return None
    if column in _INTEGERS:
        return int(text)
    return text.removeprefix("\\")
