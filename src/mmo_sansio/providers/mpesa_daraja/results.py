"""What Daraja tells: results of pushes, results of everything else, deposits. All raise ValueError for what is none.

The same thing comes as a number or as text, as an object or as a list of such, with or without a value; any of it will
do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from mmo_sansio.providers.mpesa_daraja.wire import amount_read, read, text_of
from mmo_sansio.values.model import Party
from mmo_sansio.values.money import Money

DUMMY_RECEIPT_ENDING: Final = "0000000"
"""How the TransactionID of a result ends that has none."""


@frozen
class PushResult:
    """How a push ended."""

    checkout_request_id: str
    code: str
    message: str
    amount: Money | None = None
    """None when it isn't told."""
    receipt: str = ""


@frozen
class Result:
    """How a request ended that was taken to be carried out later."""

    code: str
    message: str
    originator_conversation_id: str
    transaction_id: str
    """M-Pesa's receipt; empty when there is none."""
    parameters: Mapping[str, str]
    """By name without spaces; one without a value is empty."""

    @property
    def amount(self) -> Money | None:
        """The amount, when it is told."""
        told = self.parameters.get("TransactionAmount") or self.parameters.get("Amount")
        return amount_read(told) if told else None


@frozen
class Deposit:
    """What somebody has paid, or is about to pay, by himself."""

    transaction_id: str
    shortcode: str
    bill_reference: str
    amount: Money
    party: Party


def push_result(body: bytes) -> PushResult:
    """The result in a callback to a push's CallBackURL."""
    callback = _object(_object(read(body), "Body"), "stkCallback")
    items = (
        _named(callback, "CallbackMetadata", "Item", "Name")
        if "CallbackMetadata" in callback
        else {}
    )
    amount = items.get("Amount")
    return PushResult(
        _required(callback, "CheckoutRequestID"),
        _required(callback, "ResultCode"),
        text_of(callback, "ResultDesc"),
        amount_read(amount) if amount else None,
        items.get("MpesaReceiptNumber", ""),
    )


def result(body: bytes) -> Result:
    """The result in a callback to a ResultURL."""
    told = _object(read(body), "Result")
    has_parameters = told.get("ResultParameters") is not None
    receipt = text_of(told, "TransactionID")
    return Result(
        _required(told, "ResultCode"),
        text_of(told, "ResultDesc"),
        text_of(told, "OriginatorConversationID"),
        "" if receipt.endswith(DUMMY_RECEIPT_ENDING) else receipt,
        _named(told, "ResultParameters", "ResultParameter", "Key") if has_parameters else {},
    )


def deposit(body: bytes) -> Deposit:
    """The deposit in a confirmation, or in the question before one."""
    told = read(body)
    number, bill_reference = text_of(told, "MSISDN"), text_of(told, "BillRefNumber")
    middle = " ".join(filter(None, (text_of(told, "FirstName"), text_of(told, "MiddleName"))))
    return Deposit(
        _required(told, "TransID"),
        _required(told, "BusinessShortCode"),
        bill_reference,
        amount_read(_required(told, "TransAmount")),
        Party(bill_reference or number, number, middle or None, text_of(told, "LastName") or None),
    )


def _named(document: Mapping[str, Any], outer: str, inner: str, key: str) -> dict[str, str]:
    """Values by name, of a list of `{name, Value}` or a single one."""
    found = _object(document, outer).get(inner, [])
    items = found if isinstance(found, list) else [found]
    named = {}
    for each in items:
        if not isinstance(each, dict):
            raise ValueError(f"{inner} holds what is no object")
        value = each.get("Value")
        name = _required(each, key).replace(" ", "")
        named[name] = str(value).strip() if isinstance(value, str) else ""
    return named


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is missing or is no object")
    return value


def _required(document: Mapping[str, Any], name: str) -> str:
    value = text_of(document, name)
    if not value:
        raise ValueError(f"{name} is missing")
    return value
