"""Defines the sandbox operator's journal: one line for each submission, result, acknowledgement and
reversal.

A line is a JSON object whose `entry` names its kind. The journal alone restores the operator, and counts: two
submissions of one payment are two lines.
"""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

from attrs import frozen

from mmo_sansio.providers.common.wire import parse_json, to_json
from mmo_sansio.providers.sandbox.wire import format_amount, optional_member, parse_amount, required_member
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.money import Money


@frozen
class SandboxSubmission:
    """A request to move money arrived."""

    at: Instant
    reference: str
    """The gatewayReference."""
    type: str
    amount: Money
    msisdn: str
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


SandboxJournalEntry: TypeAlias = SandboxSubmission | SandboxResult | SandboxAcknowledgement | SandboxReversal


def format_entry(entry: SandboxJournalEntry) -> bytes:
    return to_json(_document(entry)) + b"\n"


def parse_entry(line: bytes) -> SandboxJournalEntry:
    """Return the entry of a line; raises ValueError when it is none."""
    document = parse_json(line)
    at = required_member(document, "at", int)
    reference = required_member(document, "reference", str)
    match required_member(document, "entry", str):
        case "submitted":
            return SandboxSubmission(
                at,
                reference,
                required_member(document, "type", str),
                parse_amount(document, "amount"),
                required_member(document, "msisdn", str),
                optional_member(document, "payerName", str),
                required_member(document, "expiresAtUs", int),
                required_member(document, "scenario", str),
            )
        case "reached":
            failure = optional_member(document, "failure", str)
            return SandboxResult(
                at,
                reference,
                required_member(document, "number", int),
                None if failure else parse_amount(document, "final"),
                None if failure else parse_amount(document, "fee"),
                ErrorCode(failure) if failure else None,
            )
        case "acknowledged":
            return SandboxAcknowledgement(at, reference, required_member(document, "number", int))
        case "reversed":
            failure = optional_member(document, "failure", str)
            return SandboxReversal(
                at,
                reference,
                required_member(document, "reversal", str),
                parse_amount(document, "amount"),
                ErrorCode(failure) if failure else None,
            )
        case other:
            raise ValueError(f"{other} is no entry of the book")


def _document(entry: SandboxJournalEntry) -> dict[str, Any]:
    match entry:
        case SandboxSubmission():
            return {
                "entry": "submitted",
                "at": entry.at,
                "reference": entry.reference,
                "type": entry.type,
                "amount": format_amount(entry.amount),
                "msisdn": entry.msisdn,
                "payerName": entry.payer_name,
                "expiresAtUs": entry.expires_at,
                "scenario": entry.scenario,
            }
        case SandboxResult():
            return {
                "entry": "reached",
                "at": entry.at,
                "reference": entry.reference,
                "number": entry.number,
                "final": entry.final and format_amount(entry.final),
                "fee": entry.fee and format_amount(entry.fee),
                "failure": entry.failure,
            }
        case SandboxAcknowledgement():
            return {"entry": "acknowledged", "at": entry.at, "reference": entry.reference, "number": entry.number}
        case SandboxReversal():
            return {
                "entry": "reversed",
                "at": entry.at,
                "reference": entry.reference,
                "reversal": entry.reversal,
                "amount": format_amount(entry.amount),
                "failure": entry.failure,
            }
        case _:
            assert_never(entry)
