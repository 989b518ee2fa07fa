"""Asks an operator whose account is behind a number."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, TypeAlias, runtime_checkable

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.payees import PayeeNamed, PayeeReport, PayeeUnanswered, plain_name

PayeeInquiry: TypeAlias = Generator[HttpRequest, HttpResponse, PayeeReport]
"""A conversation about the account behind a number."""


@runtime_checkable
class NamesPayees(Protocol):
    """Represents a provider that can be asked about the account behind a number."""

    def ask_payee(self, msisdn: str, name: str, *, now: Moment) -> PayeeInquiry:
        """Ask whose account is behind this number, E.164 with or without its plus sign; like each
        question it moves no money. `name` is what the merchant believes, empty for none: only an
        operator that compares names is told it. Never raises for what the operator answers."""


def payee_named(provider: str, *parts: object, is_barred: object = None) -> PayeeReport:
    """Return the report of the name that an operator's answer has in these parts; what is no text
    is left out, and without any letter nothing is known."""
    # Operators send null, false or an empty object for a name that they don't have.
    name = plain_name(" ".join(part for part in parts if isinstance(part, str)))
    if not name:
        return PayeeUnanswered(provider, "The operator's answer has no name.")
    barred = None
    if isinstance(is_barred, bool):
        barred = is_barred
    return PayeeNamed(provider, name, barred)
