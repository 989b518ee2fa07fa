"""What Daraja tells: results of pushes, results of everything else, deposits. All raise ValueError for what is none.

The same thing comes as a number or as text, as an object or as a list of such, with or without a value; any of it will
do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from mmo_sansio.providers.mpesa_daraja.wire import parse_amount, parse_json, text_member
from mmo_sansio.values.model import Party
from mmo_sansio.values.money import Money

DUMMY_RECEIPT_ENDING: Final = "0000000"
"""How the TransactionID of a result ends that has none."""


@frozen
class MpesaPushResult:
    """How a push ended."""

    checkout_request_id: str
    code: str
    message: str
    amount: Money | None = None
    """None when it isn't told."""
    receipt: str = ""


@frozen
class MpesaResult:
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
        return parse_amount(told) if told else None


@frozen
class MpesaDeposit:
    """What somebody has paid, or is about to pay, by himself."""

    transaction_id: str
    shortcode: str
    bill_reference: str
    amount: Money
    party: Party


def parse_push_result(body: bytes) -> MpesaPushResult:
    """The result in a callback to a push's CallBackURL."""
    callback = _object_member(_object_member(parse_json(body), "Body"), "stkCallback")
    items = (
        _values_by_name(callback, "CallbackMetadata", "Item", "Name")
        if "CallbackMetadata" in callback
        else {}
    )
    amount = items.get("Amount")
    return MpesaPushResult(
        _required_text(callback, "CheckoutRequestID"),
        _required_text(callback, "ResultCode"),
        text_member(callback, "ResultDesc"),
        parse_amount(amount) if amount else None,
        items.get("MpesaReceiptNumber", ""),
    )


def parse_result(body: bytes) -> MpesaResult:
    """The result in a callback to a ResultURL."""
    told = _object_member(parse_json(body), "Result")
    has_parameters = told.get("ResultParameters") is not None
    receipt = text_member(told, "TransactionID")
    return MpesaResult(
        _required_text(told, "ResultCode"),
        text_member(told, "ResultDesc"),
        text_member(told, "OriginatorConversationID"),
        "" if receipt.endswith(DUMMY_RECEIPT_ENDING) else receipt,
        _values_by_name(told, "ResultParameters", "ResultParameter", "Key")
        if has_parameters
        else {},
    )


def parse_deposit(body: bytes) -> MpesaDeposit:
    """The deposit in a confirmation, or in the question before one."""
    told = parse_json(body)
    number, bill_reference = text_member(told, "MSISDN"), text_member(told, "BillRefNumber")
    middle = " ".join(
        filter(None, (text_member(told, "FirstName"), text_member(told, "MiddleName")))
    )
    return MpesaDeposit(
        _required_text(told, "TransID"),
        _required_text(told, "BusinessShortCode"),
        bill_reference,
        parse_amount(_required_text(told, "TransAmount")),
        Party(
            bill_reference or number, number, middle or None, text_member(told, "LastName") or None
        ),
    )


def _values_by_name(
    document: Mapping[str, Any], outer: str, inner: str, key: str
) -> dict[str, str]:
    """Values by name, of a list of `{name, Value}` or a single one."""
    found = _object_member(document, outer).get(inner, [])
    items = found if isinstance(found, list) else [found]
    named = {}
    for each in items:
        if not isinstance(each, dict):
            raise ValueError(f"{inner} holds what is no object")
        value = each.get("Value")
        name = _required_text(each, key).replace(" ", "")
        named[name] = str(value).strip() if isinstance(value, str) else ""
    return named


def _object_member(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is missing or is no object")
    return value


def _required_text(document: Mapping[str, Any], name: str) -> str:
    value = text_member(document, name)
    if not value:
        raise ValueError(f"{name} is missing")
    return value
