"""Reads Daraja's results and deposits. All functions raise ValueError for an invalid body.

A value may be a number or text, an object or a list of objects, present or absent; all forms are
accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from mmo_sansio.providers.common.interface import DepositReport
from mmo_sansio.providers.mpesa_daraja.wire import (
    CURRENCY,
    code_member,
    parse_amount,
    parse_json,
    text_member,
)
from mmo_sansio.values.model import Party
from mmo_sansio.values.money import Money

# The end of a TransactionID that stands for none, such as `NLJ0000000` (documented, Business To
# Customer).
DUMMY_RECEIPT_ENDING: Final = "0000000"

# A shortcode or a telephone number; a masked number, `2547 ***** 126`, has fewer digits.
_PARTY_NUMBER: Final = re.compile(r"[0-9]{5,12}(?![0-9])", re.ASCII)

# M-Pesa's receipts have ten letters and digits; the identifier in a validation may be another.
RECEIPT: Final = re.compile(r"[A-Za-z0-9_]{1,30}", re.ASCII)


@frozen
class MpesaResult:
    """Holds the result of a request that Daraja carries out later."""

    id: str
    """The CheckoutRequestID of a push, or the OriginatorConversationID."""
    code: str
    message: str
    receipt: str
    """M-Pesa's receipt; empty when there is none."""
    parameters: Mapping[str, str]
    """The values by name without spaces; a missing value is empty."""
    has_dummy_receipt: bool = False
    """Whether its TransactionID is one that stands for none."""

    @property
    def amount(self) -> Money | None:
        """The amount; None when the result has none. Raises ValueError for an invalid one."""
        amount = self.parameters.get("TransactionAmount") or self.parameters.get("Amount")
        if amount:
            return parse_amount(amount)
        return None

    @property
    def fee(self) -> Money | None:
        """What the transaction has cost, `Fee For B2C Payment|KES|22.40`, where there are several
        charges joined by `&` all of them together; None when one is missing or unreadable."""
        charges = self.parameters.get("DebitPartyCharges", "").split("&")
        try:
            minors = [_charge(charge).minor for charge in charges]
        except ValueError:
            return None
        return Money(sum(minors), CURRENCY)


def names_transaction(receipt: str) -> bool:
    """Tell whether this is the receipt of a transaction, and not one that stands for none."""
    return RECEIPT.fullmatch(receipt) is not None and not receipt.endswith(DUMMY_RECEIPT_ENDING)


def party_number(result: MpesaResult, name: str) -> str:
    """Return the number at the beginning of a party's name, `174379 - TEST SHOP`; empty when there
    is none."""
    found = _PARTY_NUMBER.match(result.parameters.get(name, ""))
    if found is None:
        return ""
    return found[0]


def _charge(text: str) -> Money:
    """Return the amount of one charge, `Fee For B2C Payment|KES|22.40`. Raises ValueError for
    another form."""
    name, currency, amount = text.split("|")
    if currency != CURRENCY:
        raise ValueError(f"{name} is in another currency")
    return parse_amount(amount)


def parse_push_result(body: bytes) -> MpesaResult:
    """Read the result in a callback to a push's CallBackURL."""
    callback = _object_member(_object_member(parse_json(body), "Body"), "stkCallback")
    # A failed prompt has no metadata (documented, M-Pesa Express).
    items = {}
    if "CallbackMetadata" in callback:
        items = _values_by_name(callback, "CallbackMetadata", "Item", "Name")

    return MpesaResult(
        _required_text(callback, "CheckoutRequestID"),
        _result_code(callback),
        text_member(callback, "ResultDesc"),
        items.get("MpesaReceiptNumber", ""),
        items,
    )


def parse_result(body: bytes) -> MpesaResult:
    """Read the result in a callback to a ResultURL."""
    result = _object_member(parse_json(body), "Result")
    parameters: Mapping[str, str] = {}
    if result.get("ResultParameters") is not None:
        parameters = _values_by_name(result, "ResultParameters", "ResultParameter", "Key")

    receipt = text_member(result, "TransactionID")
    is_dummy = receipt.endswith(DUMMY_RECEIPT_ENDING)
    if is_dummy:
        receipt = ""

    return MpesaResult(
        text_member(result, "OriginatorConversationID"),
        _result_code(result),
        text_member(result, "ResultDesc"),
        receipt,
        parameters,
        is_dummy,
    )


def parse_deposit(provider: str, body: bytes) -> DepositReport:
    """Read the deposit in a confirmation, or in the validation before one."""
    deposit = parse_json(body)
    receipt = _required_text(deposit, "TransID")
    if RECEIPT.fullmatch(receipt) is None:
        raise ValueError("TransID is no receipt")

    number = text_member(deposit, "MSISDN")
    bill_reference = text_member(deposit, "BillRefNumber")
    first_names = (text_member(deposit, "FirstName"), text_member(deposit, "MiddleName"))
    given_name = " ".join(filter(None, first_names))

    return DepositReport(
        provider,
        receipt,
        _required_text(deposit, "BusinessShortCode"),
        bill_reference,
        parse_amount(_required_text(deposit, "TransAmount")),
        # The number is masked or hashed, so that the bill reference names the payer.
        Party(
            bill_reference or number,
            number,
            given_name or None,
            text_member(deposit, "LastName") or None,
        ),
    )


def _values_by_name(
    document: Mapping[str, Any], outer: str, inner: str, key: str
) -> dict[str, str]:
    """Return the values by name of a list of `{name, Value}` or of a single one."""
    # Documents show both: one object, or a list of them (Business To Customer, Tax Remittance).
    items = _object_member(document, outer).get(inner, [])
    if not isinstance(items, list):
        items = [items]

    named = {}
    for item in items:
        if not isinstance(item, dict):
            raise ValueError(f"{inner} holds a value that is no object")

        value = item.get("Value")
        # Older systems write names with spaces; a member may have no value at all (documented).
        name = _required_text(item, key).replace(" ", "")
        if isinstance(value, str):
            named[name] = str(value).strip()
        else:
            named[name] = ""

    return named


def _object_member(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is missing or is no object")
    return value


def _result_code(document: Mapping[str, Any]) -> str:
    code = code_member(document, "ResultCode")
    if not code:
        raise ValueError("ResultCode is missing")
    return code


def _required_text(document: Mapping[str, Any], name: str) -> str:
    value = text_member(document, name)
    if not value:
        raise ValueError(f"{name} is missing")
    return value
