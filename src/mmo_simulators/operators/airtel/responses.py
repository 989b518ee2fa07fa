"""Builds the responses and callbacks about payments of the simulated Airtel Money."""

from __future__ import annotations

import json
from typing import Any

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.airtel_money.results import callback_hash
from mmo_sansio.values.money import Money
from mmo_simulators.common.messages import JSON_HEADERS
from mmo_simulators.operators.airtel.accounts import (
    CODE_PREFIXES,
    COLLECTION,
    IN_PROCESS,
    SUCCESS,
    SimulatedAirtelPayment,
    SimulatedAirtelWallet,
)
from mmo_simulators.operators.airtel.request_checks import operator_response


def payment_response(
    payment: SimulatedAirtelPayment, *, failures_succeed: bool = False
) -> HttpResponse:
    """Return the response to an enquiry or a pay-out; of a payment that has failed, with `success:
    true` where `failures_succeed`."""
    transaction = {"id": payment.id, "message": payment.message, "status": payment.status}
    # Only a success names Airtel's own id (documented, enquiry).
    if payment.is_paid:
        transaction["airtel_money_id"] = payment.receipt

    code = payment.result or CODE_PREFIXES[payment.kind] + IN_PROCESS
    is_well = payment.status in ("TS", "TIP") or (failures_succeed and payment.status == "TF")
    return operator_response({"transaction": transaction}, code, payment.message, success=is_well)


def refund_response(payment: SimulatedAirtelPayment, code: str) -> HttpResponse:
    """Return the response to a refund, whose result has the code of a collection."""
    status = "FAILED"
    message = "The refund was refused"
    success = code == CODE_PREFIXES[COLLECTION] + SUCCESS
    if success:
        status = "SUCCESS"
        message = "SUCCESS"

    data = {"transaction": {"airtel_money_id": payment.receipt, "status": status}}
    return operator_response(data, code, message, success=success)


def user_response(wallet: SimulatedAirtelWallet) -> HttpResponse:
    """Return the response to an enquiry about a user."""
    # As a number where it is one (assumed): other members are numbers, too.
    number: str | int = wallet.number
    if wallet.number.isdecimal():
        number = int(wallet.number)

    data = {
        "first_name": wallet.first_name,
        "last_name": wallet.last_name,
        "grade": "SUBS",
        "is_barred": wallet.is_barred,
        "is_pin_set": True,
        "msisdn": number,
        "reg_status": "Y",
        "registration": {"id": "", "status": "Y"},
    }
    return operator_response(data, "DP02200000001", "SUCCESS")


def balance_response(balance: Money) -> HttpResponse:
    """Return the response to a question about a balance, which is text with separators of
    thousands."""
    whole, point, decimals = balance.text.partition(".")
    text = f"{int(whole):,}{point or '.'}{decimals or '00'}"
    data = {"balance": text, "currency": balance.currency, "account_status": "Active"}
    return operator_response(data, "DP02000000001", "SUCCESS")


def build_callback(
    payment: SimulatedAirtelPayment, url: str, key: str | None, *, names_code: bool = False
) -> HttpRequest:
    """Return the callback about a payment, with its hash where there is a key for that."""
    status = "TF"
    if payment.is_paid:
        status = "TS"

    transaction = {
        "id": payment.id,
        "message": payment.message,
        "status_code": status,
        "airtel_money_id": payment.receipt,
    }
    if names_code:
        transaction["code"] = payment.result or ""

    document: dict[str, Any] = {"transaction": transaction}
    # Over the transaction in compact JSON, as most clients verify it.
    if key is not None:
        text = json.dumps(transaction, separators=(",", ":"), ensure_ascii=False)
        document["hash"] = callback_hash(key, text.encode())

    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return HttpRequest("POST", url.encode(), JSON_HEADERS, body)
