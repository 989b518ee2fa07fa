"""Builds the responses and callbacks of the simulated M-Pesa in Daraja's own shapes."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.mpesa_daraja.wire import timestamp, to_nairobi_time
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.money import Money
from mmo_trio.simulators.base import JSON_HEADERS, parse_json_object
from mmo_trio.simulators.mpesa.accounts import SimulatedMpesaAccount, SimulatedMpesaAccounts, SimulatedMpesaPayment

RESULT_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "1": "The balance is insufficient for the transaction.",
    "2": "Declined due to limit rule: less than the minimum transaction amount.",
    "3": "Declined due to limit rule: greater than the maximum transaction amount.",
    "8": "Declined due to limit rule: would exceed the maximum balance.",
    "1032": "Request cancelled by user.",
    "1037": "DS timeout user cannot be reached.",
    "2001": "The initiator information is invalid.",
    "2028": "The request is not permitted according to product assignment.",
    "2040": "Credit Party customer type can't be supported by the service.",
    "queue_timeout": "The request timed out in the queue.",
}
"""By result code."""

DUMMY_RECEIPT: Final = "SIM0000000"

QR_IMAGE: Final = b64encode(b"\x89PNG\r\n\x1a\nsimulated").decode()
"""The image that stands in for a code to scan."""


_STATUSES: Final[Mapping[str | None, str]] = {None: "Authorized", "0": "Completed", "queue_timeout": "Expired"}
"""The TransactionStatus by result code; any other is `Failed`."""


def callback_request(url: str, document: Mapping[str, Any]) -> HttpRequest:
    """Return a callback."""
    body = json.dumps(document, ensure_ascii=False).encode()
    return HttpRequest("POST", url.encode(), JSON_HEADERS, body)


def accepted_response(conversation_id: str, originator_id: str) -> dict[str, str]:
    """Return the response to a request that is carried out later."""
    return {
        "ConversationID": conversation_id,
        "OriginatorConversationID": originator_id,
        "ResponseCode": "0",
        "ResponseDescription": "Accept the service request successfully.",
    }


def payment_accepted_response(payment: SimulatedMpesaPayment) -> dict[str, str]:
    """Return the response to a pay-out or a tax payout."""
    return accepted_response(payment.conversation_id, payment.originator_id)


def stk_push_response(payment: SimulatedMpesaPayment) -> dict[str, str]:
    """Return the response to a push."""
    return {
        "MerchantRequestID": payment.originator_id,
        "CheckoutRequestID": payment.conversation_id,
        "ResponseCode": "0",
        "ResponseDescription": "Success. Request accepted for processing",
        "CustomerMessage": "Success. Request accepted for processing",
    }


def stk_query_response(payment: SimulatedMpesaPayment) -> dict[str, str]:
    """Return the response to a query about a push that has ended; its code is text."""
    return {
        "ResponseCode": "0",
        "ResponseDescription": "The service request has been accepted successfully",
        "MerchantRequestID": payment.originator_id,
        "CheckoutRequestID": payment.conversation_id,
        "ResultCode": payment.result or "",
        "ResultDesc": payment.message,
    }


def stk_push_error_code(
    payer: SimulatedMpesaAccount, payment: SimulatedMpesaPayment, is_destination_valid: bool
) -> str | None:
    """Return the result code of a push that fails once the person has had time to react; None for one that succeeds."""
    if not is_destination_valid:
        return "2028"
    if payer.enters is None:
        return "1037"
    if payer.enters == "cancel":
        return "1032"
    if payer.enters != payer.pin:
        return "2001"
    return "1" if payer.balance_minor < payment.amount_minor else None


def result_callback(payment: SimulatedMpesaPayment, accounts: SimulatedMpesaAccounts) -> dict[str, Any]:
    """Return the callback with the result of a payment."""
    if payment.kind == "stk_push":
        return _stk_result_callback(payment)
    is_good = payment.result == "0"
    document: dict[str, Any] = {
        "ResultType": 0 if payment.result != "queue_timeout" else 1,
        "ResultCode": _json_code(payment.result if payment.result != "queue_timeout" else "1"),
        "ResultDesc": payment.message,
        "OriginatorConversationID": payment.originator_id,
        "ConversationID": payment.conversation_id,
        "TransactionID": payment.receipt or DUMMY_RECEIPT,
        "ReferenceData": {"ReferenceItem": {"Key": "QueueTimeoutURL", "Value": "https://i.example"}},
    }
    if is_good:
        amount = "TransactionAmount" if payment.kind == "b2c" else "Amount"
        left = accounts.accounts[payment.payer].balance_minor / 100
        document["ResultParameters"] = {
            "ResultParameter": [
                {"Key": amount, "Value": payment.shillings},
                {"Key": "TransactionReceipt", "Value": payment.receipt},
                {"Key": "ReceiverPartyPublicName", "Value": f"{payment.payee} - JANE DOE"},
                {"Key": "B2CUtilityAccountAvailableFunds", "Value": left},
                {"Key": "DebitPartyCharges"},
            ]
        }
    return {"Result": document}


def status_callback(
    payment: SimulatedMpesaPayment | None, accounts: SimulatedMpesaAccounts, code: str | None, ids: tuple[str, str]
) -> dict[str, Any]:
    """Return the callback with the state of a queried payment; `code` replaces the result."""
    if payment is None and code is None:
        code = "SFC_IC0003"
    document: dict[str, Any] = {
        "ResultType": 0,
        "ResultCode": _json_code(code or "0"),
        "ResultDesc": "The service request is processed successfully." if not code else "Failed.",
        "OriginatorConversationID": ids[1],
        "ConversationID": ids[0],
        "TransactionID": DUMMY_RECEIPT,
    }
    if payment is not None and code is None:
        status = _STATUSES.get(payment.result, "Failed")
        document["ResultParameters"] = {
            "ResultParameter": [
                {"Key": "DebitPartyName", "Value": _party_name(payment.payer, accounts)},
                {"Key": "CreditPartyName", "Value": _party_name(payment.payee, accounts)},
                {"Key": "TransactionReason"},
                {"Key": "ConversationID", "Value": payment.conversation_id},
                {"Key": "OriginatorConversationID", "Value": payment.originator_id},
                {"Key": "Amount", "Value": payment.shillings},
                {"Key": "TransactionStatus", "Value": status},
                {"Key": "ReceiptNo", "Value": payment.receipt or ""},
            ]
        }
    return {"Result": document}


def _party_name(id: str, accounts: SimulatedMpesaAccounts) -> str:
    account = accounts.accounts.get(id)
    return f"{id} - {account.name}" if account else id


def deposit_callback(
    payment: SimulatedMpesaPayment,
    payee: SimulatedMpesaAccount,
    payer: SimulatedMpesaAccount,
    now: Instant,
    *,
    receipt: str,
) -> dict[str, str]:
    """Return the callback that asks to validate a deposit, or confirms it."""
    first, _, last = payer.name.partition(" ")
    return {
        "TransactionType": "Pay Bill",
        "TransID": receipt,
        "TransTime": timestamp(now),
        "TransAmount": Money(payment.amount_minor, "KES").text,
        "BusinessShortCode": payee.id,
        "BillRefNumber": payment.reference,
        "InvoiceNumber": "",
        "OrgAccountBalance": Money(payee.balance_minor, "KES").text if payment.receipt else "",
        "ThirdPartyTransID": "",
        "MSISDN": f"{payer.id[:4]} ***** {payer.id[-3:]}",
        "FirstName": first,
        "MiddleName": "",
        "LastName": last,
    }


def is_deposit_accepted(response: HttpResponse | None) -> bool | None:
    """Return whether the gateway accepts a deposit; None when its response can't be read."""
    if response is None or response.status != 200:
        return None
    try:
        return str(parse_json_object(response.body).get("ResultCode")) == "0"
    except ValueError:
        return None


def _stk_result_callback(payment: SimulatedMpesaPayment) -> dict[str, Any]:
    document: dict[str, Any] = {
        "MerchantRequestID": payment.originator_id,
        "CheckoutRequestID": payment.conversation_id,
        "ResultCode": _json_code(payment.result),
        "ResultDesc": payment.message,
    }
    if payment.result == "0":
        moment = int(to_nairobi_time(payment.accepted_at).strftime("%Y%m%d%H%M%S"))
        document["CallbackMetadata"] = {
            "Item": [
                {"Name": "Amount", "Value": payment.amount_minor / 100},
                {"Name": "MpesaReceiptNumber", "Value": payment.receipt},
                {"Name": "Balance"},
                {"Name": "TransactionDate", "Value": moment},
                {"Name": "PhoneNumber", "Value": int(payment.payer)},
            ]
        }
    return {"Body": {"stkCallback": document}}


def _json_code(code: str | None) -> int | str:
    """Return the code as callbacks have it: a number, where it is one."""
    return int(code) if code is not None and code.isdigit() else code or ""
