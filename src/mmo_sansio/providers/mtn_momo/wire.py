"""Writes and reads the operator's messages: JSON over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from mmo_sansio.providers.common import wire
from mmo_sansio.values.money import Money, check_amount, parse_number, to_money

# To which the operator's codes and texts are cut before anybody stores them.
CODE_CHARACTERS_MAX = 100
MESSAGE_CHARACTERS_MAX = 500


@frozen
class MtnReason:
    """Holds the operator's reason of a failure."""

    code: str | None = None
    message: str | None = None


def parse_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body, each number as its text: the operator writes amounts and
    receipts as numbers or as text. See `wire.parse_json`."""
    return wire.parse_json(body, number=str)


def text_member(document: Mapping[str, Any], name: str) -> str | None:
    """Return the text or number under this name; None when it is absent, null or empty. Raises
    ValueError for another type."""
    value = document.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def calls_paid(document: Mapping[str, Any]) -> bool:
    """Tell whether a payment's status calls it paid, in whichever spelling."""
    # By a spelling that is not documented a payment is doubtfully paid, and never told as paid.
    return str(document.get("status")).strip().upper().startswith("SUCCESS")


def parse_receipt(document: Mapping[str, Any]) -> str | None:
    """Return the operator's receipt of a payment of which something else can't be used."""
    try:
        return (text_member(document, "financialTransactionId") or "")[:CODE_CHARACTERS_MAX] or None
    except ValueError:
        return None


def parse_amount(document: Mapping[str, Any], default_currency: str) -> Money | None:
    """Return the amount of a payment, which the operator may have formatted again; None when it has
    none.

    The currency is `default_currency` where the document has none. Raises ValueError for an invalid
    amount."""
    value = text_member(document, "amount")
    if value is None:
        return None

    try:
        return to_money(
            check_amount(parse_number(value)), text_member(document, "currency") or default_currency
        )
    except KeyError:
        raise ValueError("its currency does not exist") from None


def parse_reason(document: Mapping[str, Any]) -> MtnReason:
    """Return the `reason` of a payment: absent, a code, or an object with `code` and `message`.
    Raises ValueError for another type."""
    # Both forms were seen: text in clients, an object in MTN's samples.
    value = document.get("reason")
    if isinstance(value, dict):
        return parse_error(value)
    return _bounded(text_member(document, "reason"), None)


def parse_error(document: Mapping[str, Any]) -> MtnReason:
    """Return the `code` and `message` of an error. Raises ValueError when they are not text."""
    return _bounded(text_member(document, "code"), text_member(document, "message"))


def parse_error_body(body: bytes) -> MtnReason:
    """Return the reason in the body of an error, which may be any bytes."""
    try:
        return parse_error(parse_json(body))
    except ValueError:
        return MtnReason()


def _bounded(code: str | None, message: str | None) -> MtnReason:
    return MtnReason(
        code and code[:CODE_CHARACTERS_MAX], message and message[:MESSAGE_CHARACTERS_MAX]
    )
