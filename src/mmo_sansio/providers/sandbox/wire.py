"""Writes and reads the sandbox operator's own API, for both of its sides: JSON over HTTP.

    POST /payments              a submission    202, a payment
    GET  /payments/{reference}  a poll          200, a payment; 404: it was never received
    POST /reversals             a reversal      202, a reversal
    GET  /reversals/{reversal}  a poll          200, a reversal; 404: it was never received
    GET  /subscribers/{number}  a question      200, who has the number; 404: nobody has it
    POST {hooks}/sandbox        a notification of a payment's or a reversal's result

A payment is `{"reference", "providerReference", "status", "amount", "fee", "partyData",
"errorCode", "errorMessage", "askAfterUs"}`, its status `pending`, `success` or `failed`. Amounts
are `{"value": "150.00", "currency": "KES"}`. A reversal is `{"reversal", "reference",
"providerReference", "status", "amount", "errorCode", "errorMessage"}`: its id, its payment's
reference, and members with the same meaning. A subscriber is `{"name", "barred"}`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.money import Money, check_amount, parse_number, to_money

# The operator's address; the name is reserved and never resolves (RFC 6761 section 6.4).
ORIGIN = "https://sandbox.invalid"

PAYMENTS_PATH = "/payments"
BALANCES_PATH = "/balances"
REVERSALS_PATH = "/reversals"
SUBSCRIBERS_PATH = "/subscribers"

# The target of the operator's notifications.
WEBHOOK_TARGET = b"/hooks/sandbox"


@frozen
class NativeError:
    """Holds a failure in the operator's own words."""

    code: str
    message: str


# The operator's codes for error codes that have another name there.
NATIVE_ERRORS: Mapping[ErrorCode, NativeError] = MappingProxyType(
    {
        ErrorCode.USER_INSUFFICIENT_FUNDS: NativeError("SBX-101", "Balance too low"),
        ErrorCode.USER_TIMEOUT: NativeError("SBX-102", "No PIN was entered in time"),
        ErrorCode.USER_CANCELLED: NativeError("SBX-103", "Declined by subscriber"),
        ErrorCode.PROVIDER_UNAVAILABLE: NativeError("SBX-104", "Service temporarily unavailable"),
        ErrorCode.PROVIDER_TIMEOUT: NativeError("SBX-105", "Upstream timed out, reversed"),
        ErrorCode.USER_NOT_FOUND: NativeError("SBX-106", "No subscriber with this number"),
        ErrorCode.USER_ACCOUNT_BLOCKED: NativeError("SBX-107", "Subscriber is barred"),
        ErrorCode.USER_LIMIT_EXCEEDED: NativeError(
            "SBX-108", "Daily limit of the subscriber reached"
        ),
        ErrorCode.USER_WRONG_PIN: NativeError("SBX-109", "Wrong PIN"),
        ErrorCode.USER_BUSY: NativeError("SBX-111", "Another session is open"),
        ErrorCode.AMOUNT_OUT_OF_RANGE: NativeError("SBX-112", "Amount not accepted"),
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: NativeError("SBX-113", "Float too low"),
        ErrorCode.MERCHANT_MISCONFIGURED: NativeError("SBX-114", "Till not provisioned"),
        ErrorCode.DUPLICATE_REQUEST: NativeError("SBX-115", "Similar payment a moment ago"),
        ErrorCode.TRANSACTION_DECLINED: NativeError("SBX-116", "Declined"),
    }
)

# Read by the adapter: what has no row here is no code of this operator.
ERROR_CODES: Mapping[str, ErrorCode] = MappingProxyType(
    {native.code: code for code, native in NATIVE_ERRORS.items()}
)


def format_amount(amount: Money) -> dict[str, str]:
    """Write an amount as the operator does: exact, as text."""
    return {"value": amount.text, "currency": amount.currency}


def parse_amount(document: Mapping[str, Any], name: str) -> Money:
    """Return the amount under this name; raises ValueError when it is absent or not an amount."""
    amount = required_member(document, name, dict)
    value, currency = amount.get("value"), amount.get("currency")
    if not isinstance(value, str) or not isinstance(currency, str):
        raise ValueError(f"{name} is no amount")
    # As strict as for a real operator: what is no amount is no success.
    try:
        return to_money(check_amount(parse_number(value)), currency)
    except KeyError:
        raise ValueError(f"{name} has no currency that exists") from None


def required_member(document: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    """Return the member with this name; raises ValueError when it is absent or of another type."""
    # `True` is an int in Python, and no number in JSON.
    value = document.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is missing or is no {kind.__name__}")
    return value


def optional_member(document: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    """Return the member with this name, or None when it is absent or null; raises ValueError for
    another type."""
    if document.get(name) is None:
        return None
    return required_member(document, name, kind)
