"""Defines the sandbox operator's journal: one line for each submission, result, acknowledgement and
reversal.

A line is a JSON object whose `entry` names its kind; all else has the name of its attribute. The
journal alone restores the operator, and counts: two submissions of one payment are two lines."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

from mmo_sansio.providers.common.wire import parse_json, to_json
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.money import Money
from mmo_sansio.values.plain_form import from_plain, to_plain


@frozen
class SandboxSubmission:
    """A request to move money arrived."""

    at: Instant
    # The only name that both sides know from the first request on.
    reference: str
    """The gatewayReference."""
    type: str
    amount: Money
    msisdn: str
    # For the virtual phone; None where the order names nobody.
    payer_name: str | None
    expires_at: Instant
    scenario: str


@frozen
class SandboxResult:
    """A payment has reached a result."""

    at: Instant
    reference: str
    number: int
    """Counts the payment's results, from 1."""
    final: Money | None = None
    """The settled amount; None: it failed."""
    fee: Money | None = None
    failure: ErrorCode | None = None


@frozen
class SandboxAcknowledgement:
    """The gateway has made a result's notification durable."""

    at: Instant
    reference: str
    number: int
    """The number of the result."""


@frozen
class SandboxReversal:
    """A request to move the money of a payment back arrived, and was decided at once."""

    at: Instant
    reference: str
    """The payment's gatewayReference."""
    reversal: str
    """The id of the reversal."""
    amount: Money
    failure: ErrorCode | None = None
    """Why it has failed; None: the money was moved back."""


SandboxJournalEntry: TypeAlias = (
    SandboxSubmission | SandboxResult | SandboxAcknowledgement | SandboxReversal
)


# The words of the file, which outlive the names of classes.
_KINDS: Final[Mapping[str, type[SandboxJournalEntry]]] = MappingProxyType(
    {
        "submitted": SandboxSubmission,
        "reached": SandboxResult,
        "acknowledged": SandboxAcknowledgement,
        "reversed": SandboxReversal,
    }
)


def format_entry(entry: SandboxJournalEntry) -> bytes:
    # By the exact type: each kind has one word.
    [kind] = [name for name, kind_type in _KINDS.items() if kind_type is type(entry)]
    return to_json({"entry": kind, **to_plain(entry)}) + b"\n"


def parse_entry(line: bytes) -> SandboxJournalEntry:
    """Return the entry of a line; raises ValueError when it is none."""
    # The same strict parser as for answers: a torn last line is no entry.
    document = parse_json(line)
    try:
        return from_plain(_KINDS[document["entry"]], document)
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is no entry of the book: {error}") from error
