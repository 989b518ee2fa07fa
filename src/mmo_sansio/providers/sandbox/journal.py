"""The sandbox operator's book: everything it took, reached and told, one line each, so that it never forgets.

A line is a JSON object whose `entry` says what it is. The book alone restores the operator, and counts: two
submissions of one payment are two lines.
"""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

from attrs import frozen

from mmo_sansio.providers.sandbox.wire import (
    amount_read,
    amount_written,
    member,
    optional,
    read,
    written,
)
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.money import Money


@frozen
class Submitted:
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
class Reached:
    """A payment reached a result."""

    at: Instant
    reference: str
    number: int
    """Counts the payment's results, from 1."""
    final: Money | None = None
    """What was settled; None: it failed."""
    fee: Money | None = None
    failure: ErrorCode | None = None


@frozen
class Acknowledged:
    """The gateway has made a result's notification durable."""

    at: Instant
    reference: str
    number: int
    """The number of the result."""


BookEntry: TypeAlias = Submitted | Reached | Acknowledged


def entry_written(entry: BookEntry) -> bytes:
    """The entry as one line, with its line feed."""
    return written(_document(entry)) + b"\n"


def entry_read(line: bytes) -> BookEntry:
    """The entry of a line; raises ValueError when it is none."""
    document = read(line)
    at, reference = member(document, "at", int), member(document, "reference", str)
    match member(document, "entry", str):
        case "submitted":
            return Submitted(
                at,
                reference,
                member(document, "type", str),
                amount_read(document, "amount"),
                member(document, "msisdn", str),
                optional(document, "payerName", str),
                member(document, "expiresAtUs", int),
                member(document, "scenario", str),
            )
        case "reached":
            failure = optional(document, "failure", str)
            return Reached(
                at,
                reference,
                member(document, "number", int),
                None if failure else amount_read(document, "final"),
                None if failure else amount_read(document, "fee"),
                ErrorCode(failure) if failure else None,
            )
        case "acknowledged":
            return Acknowledged(at, reference, member(document, "number", int))
        case other:
            raise ValueError(f"{other} is no entry of the book")


def _document(entry: BookEntry) -> dict[str, Any]:
    match entry:
        case Submitted():
            return {
                "entry": "submitted",
                "at": entry.at,
                "reference": entry.reference,
                "type": entry.type,
                "amount": amount_written(entry.amount),
                "msisdn": entry.msisdn,
                "payerName": entry.payer_name,
                "expiresAtUs": entry.expires_at,
                "scenario": entry.scenario,
            }
        case Reached():
            return {
                "entry": "reached",
                "at": entry.at,
                "reference": entry.reference,
                "number": entry.number,
                "final": entry.final and amount_written(entry.final),
                "fee": entry.fee and amount_written(entry.fee),
                "failure": entry.failure,
            }
        case Acknowledged():
            return {
                "entry": "acknowledged",
                "at": entry.at,
                "reference": entry.reference,
                "number": entry.number,
            }
        case _:
            assert_never(entry)
