"""Builds the responses of the simulated M-Pesa and its callbacks about deposits, in Daraja's own
shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.mpesa_daraja.wire import spaced_timestamp, timestamp
from mmo_sansio.values.clock import Instant, to_datetime
from mmo_sansio.values.money import Money
from mmo_simulators.common.messages import JSON_HEADERS, parse_json_object
from mmo_simulators.operators.mpesa.accounts import SimulatedMpesaAccount, SimulatedMpesaPayment
from mmo_simulators.operators.mpesa.result_bodies import describe_result

# What a query says of a result that a callback words otherwise; the exact words are made up.
QUERY_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "1032": "Request canceled by user.",
    "1037": "No response from user.",
}

# The payments on one page of Pull Transactions; how many Daraja's has is not published.
PULL_PAGE_ROWS: Final = 50


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


def stk_push_response(payment: SimulatedMpesaPayment) -> dict[str, str]:
    """Return the response to a push."""
    return {
        "MerchantRequestID": payment.originator_id,
        "CheckoutRequestID": payment.conversation_id,
        "ResponseCode": "0",
        "ResponseDescription": "Success. Request accepted for processing",
        "CustomerMessage": "Success. Request accepted for processing",
    }


def stk_query_response(
    payment: SimulatedMpesaPayment, *, words_differ: bool = False
) -> dict[str, str]:
    """Return the response to a query about a push that has ended; its code is text."""
    # A script may have the query say another thing than the callback.
    code = payment.polled_code or payment.result or ""
    if payment.polled_code:
        words = describe_result(payment.polled_code)
    else:
        words = payment.message

    if words_differ:
        words = QUERY_DESCRIPTIONS.get(code, words)

    return {
        "ResponseCode": "0",
        "ResponseDescription": "The service request has been accepted successfully",
        "MerchantRequestID": payment.originator_id,
        "CheckoutRequestID": payment.conversation_id,
        "ResultCode": code,
        "ResultDesc": words,
    }


def stk_push_error_code(
    person: SimulatedMpesaAccount,
    payer: SimulatedMpesaAccount,
    payment: SimulatedMpesaPayment,
    is_destination_valid: bool,
) -> str | None:
    """Return the result code of a push that fails once the person has had time to react; None for
    one that succeeds."""
    if not is_destination_valid:
        return "2028"
    if person.enters is None:
        return "1037"
    if person.enters == "cancel":
        return "1032"
    if person.enters != person.pin:
        return "2001"
    if payer.balance_minor < payment.amount_minor:
        return "1"

    return None


def deposit_callback(
    payment: SimulatedMpesaPayment,
    payee: SimulatedMpesaAccount,
    payer: SimulatedMpesaAccount,
    now: Instant,
) -> dict[str, str]:
    """Return the callback that asks to validate a deposit, or confirms it once it is paid; both
    name its receipt."""
    # The registered name of the payer, cut at its first space.
    first, _, last = payer.name.partition(" ")
    transaction_type = "Pay Bill"
    if payment.is_for_goods:
        transaction_type = "Buy Goods"

    # The confirmation of a prompt may leave the AccountReference out (reported, of tills).
    bill_reference = payment.reference
    if payment.kind == "stk_push" and not payee.tells_references:
        bill_reference = ""

    # A validation names no balance, as nothing has been paid yet (documented).
    balance = ""
    if payment.result == "0":
        balance = Money(payee.balance_minor, "KES").text

    return {
        "TransactionType": transaction_type,
        "TransID": payment.receipt or "",
        "TransTime": timestamp(now),
        "TransAmount": Money(payment.amount_minor, "KES").text,
        "BusinessShortCode": payee.id,
        "BillRefNumber": bill_reference,
        "InvoiceNumber": "",
        "OrgAccountBalance": balance,
        "ThirdPartyTransID": payment.third_party_id,
        # Masked, as version 2 of C2B has it (documented).
        "MSISDN": f"{payer.id[:4]} ***** {payer.id[-3:]}",
        "FirstName": first,
        "MiddleName": "",
        "LastName": last,
    }


def c2b_response(originator_id: str, description: str) -> dict[str, str]:
    """Return the response to a registration of URLs, and to a simulated deposit; its first member
    is spelt so."""
    return {
        "OriginatorCoversationID": originator_id,
        "ResponseCode": "0",
        "ResponseDescription": description,
    }


def pull_response(
    id: str,
    form: Mapping[str, str],
    received: Sequence[SimulatedMpesaPayment],
    payee: SimulatedMpesaAccount,
) -> dict[str, Any]:
    """Return one page of what the shortcode has received in the period of the request; its rows are
    nested twice."""
    rows = [
        _pull_row(payment, payment.ended_at, payee)
        for payment in received
        if payment.ended_at is not None
        and form["StartDate"] <= spaced_timestamp(payment.ended_at) <= form["EndDate"]
    ]
    begin = int(form["OffSetValue"])
    page = rows[begin : begin + PULL_PAGE_ROWS]

    # The portal's sample shows an empty list as this text.
    if not page:
        return {
            "ResponseRefID": id,
            "ResponseCode": "1001",
            "ResponseMessage": "No transactions",
            "Response": "[[]]",
        }

    return {
        "ResponseRefID": id,
        "ResponseCode": "1000",
        "ResponseMessage": "Success",
        "Response": [page],
    }


def _pull_row(
    payment: SimulatedMpesaPayment, ended_at: Instant, payee: SimulatedMpesaAccount
) -> dict[str, Any]:
    transaction_type = "c2b-pay-bill-debit"
    if payment.is_for_goods:
        transaction_type = "c2b-buy-goods-debit"

    return {
        "transactionId": payment.receipt,
        "trxDate": to_datetime(ended_at).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "msisdn": int(payment.payer[3:]),
        "sender": "MPESA",
        "transactiontype": transaction_type,
        "billreference": payment.reference,
        "amount": Money(payment.amount_minor, "KES").text,
        "organizationname": payee.name,
    }


def parse_verdict(response: HttpResponse | None) -> tuple[bool | None, str]:
    """Return whether the gateway accepts a deposit, and its ThirdPartyTransID; None when its
    response can't be read."""
    if response is None or response.status != 200:
        return None, ""
    try:
        document = parse_json_object(response.body)
    except ValueError:
        return None, ""
    return str(document.get("ResultCode")) == "0", str(document.get("ThirdPartyTransID") or "")
