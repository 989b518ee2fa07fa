"""The messages of the simulated pawaPay are those of the documentation's examples, to the last
member."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mmo_sansio.values.clock import Instant, parse_timestamp
from mmo_simulators.operators.pawapay.markets import OperationType
from tests.simulators.operators.pawapay.test_api import Merchant, a_merchant, path_of, request_to

RWANDA = {
    "type": "MMO",
    "accountDetails": {"phoneNumber": "250783456789", "provider": "MTN_MOMO_RWA"},
}
ZAMBIA = {
    "type": "MMO",
    "accountDetails": {"phoneNumber": "260763456789", "provider": "MTN_MOMO_ZMB"},
}
METADATA = [{"orderId": "ORD-123456789"}, {"customerId": "customer@email.com", "isPII": True}]
FLAT_METADATA = {"orderId": "ORD-123456789", "customerId": "customer@email.com"}
GUIDE_ID = "afb57b93-7849-49aa-babb-4c3ccbfe3d79"
REFERENCE_ID = "f4401bd2-1568-4140-bf2d-eb77d2b2b639"
ASKED_ID = "8917c345-4791-4285-a416-62f24b6982db"
REFUND_ID = "f02b543c-541c-4f21-bbea-20d2d56063d6"
DEPOSIT, PAYOUT, REFUND = OperationType.DEPOSIT, OperationType.PAYOUT, OperationType.REFUND

REQUESTS: list[tuple[OperationType, dict[str, Any]]] = [
    (DEPOSIT, {"depositId": GUIDE_ID, "amount": "100", "currency": "RWF", "payer": RWANDA}),
    (
        DEPOSIT,
        {
            "depositId": REFERENCE_ID,
            "payer": ZAMBIA,
            "amount": "15",
            "currency": "ZMW",
            "preAuthorisationCode": "<string>",
            "clientReferenceId": "INV-123456",
            "customerMessage": "Note of 4 to 22 chars",
            "metadata": METADATA,
        },
    ),
    (PAYOUT, {"payoutId": GUIDE_ID, "amount": "100", "currency": "RWF", "recipient": RWANDA}),
]
"""Of the guides to deposits and pay-outs, and of the reference."""


def at(timestamp: str, **settings: Any) -> Merchant:
    """A merchant at this time."""
    merchant = a_merchant(**settings)
    merchant.now = Instant(parse_timestamp(timestamp))
    return merchant


@pytest.mark.parametrize(("operation", "request_body"), REQUESTS)
def test_each_request_is_accepted_and_then_a_duplicate(
    operation: OperationType, request_body: dict[str, Any]
) -> None:
    merchant = at("2020-10-19T11:17:01Z")
    answer = {
        operation.id_member: request_body[operation.id_member],
        "created": "2020-10-19T11:17:01Z",
    }
    next_step = {"nextStep": "FINAL_STATUS"} if operation is DEPOSIT else {}
    assert merchant.submit(operation, request_body) == {**answer, "status": "ACCEPTED", **next_step}
    assert merchant.submit(operation, request_body) == {**answer, "status": "DUPLICATE_IGNORED"}


def test_a_rejection_has_the_words_of_the_reference() -> None:
    account = {"phoneNumber": "2607634", "provider": "MTN_MOMO_ZMB"}
    wrong = {**REQUESTS[1][1], "payer": {"type": "MMO", "accountDetails": account}}
    words = "The phone number '2607634' seems to be invalid for the provider 'MTN_MOMO_ZMB'."
    assert a_merchant().submit(DEPOSIT, wrong) == {
        "depositId": REFERENCE_ID,
        "status": "REJECTED",
        "failureReason": {"failureCode": "INVALID_PHONE_NUMBER", "failureMessage": words},
    }


def test_a_wrong_token_is_answered_with_the_id_of_the_request() -> None:
    request = request_to(
        "POST", path_of(DEPOSIT), REQUESTS[1][1], {"Authorization": "Bearer wrong"}
    )
    merchant = a_merchant()
    answer = merchant.simulator.handle_request(request, now=merchant.now)
    assert json.loads(getattr(answer, "body", b"")) == {
        "depositId": REFERENCE_ID,
        "status": "REJECTED",
        "failureReason": {
            "failureCode": "AUTHENTICATION_ERROR",
            "failureMessage": "The API token in the request is invalid.",
        },
    }


@pytest.mark.parametrize(
    ("operation", "own", "message"),
    [
        (DEPOSIT, {"clientReferenceId": "REF-987654321"}, "To ACME company"),
        (PAYOUT, {}, "From ACME company"),
    ],
)
def test_a_status_is_that_of_the_reference(
    operation: OperationType, own: dict[str, str], message: str
) -> None:
    merchant = at("2020-10-19T08:17:01Z")
    request_body = {
        operation.id_member: ASKED_ID,
        operation.party_member: ZAMBIA,
        "amount": "123",
        "currency": "ZMW",
        "customerMessage": message,
        "metadata": METADATA,
        **own,
    }
    assert merchant.status(operation, ASKED_ID) == {"status": "NOT_FOUND"}
    merchant.submit(operation, request_body)
    [callback] = merchant.wait()
    found = merchant.status(operation, ASKED_ID)
    receipt = found["data"]["providerTransactionId"]
    data = {
        operation.id_member: ASKED_ID,
        "status": "COMPLETED",
        "amount": "123.00",
        "currency": "ZMW",
        "country": "ZMB",
        operation.party_member: ZAMBIA,
        "customerMessage": message,
        "created": "2020-10-19T08:17:01Z",
        "providerTransactionId": receipt,
        "metadata": FLAT_METADATA,
    }
    assert found == {"status": "FOUND", "data": {**data, **own}}
    assert json.loads(callback.body) == data
    assert receipt.isdigit()


def test_a_refund_is_that_of_the_guide() -> None:
    merchant = at("2025-05-15T07:38:56Z")
    merchant.submit(DEPOSIT, REQUESTS[0][1])
    merchant.wait()
    merchant.now = Instant(parse_timestamp("2025-05-15T07:40:56Z"))
    assert merchant.submit(REFUND, {"refundId": REFUND_ID, "depositId": GUIDE_ID}) == {
        "refundId": REFUND_ID,
        "status": "ACCEPTED",
        "created": "2025-05-15T07:40:56Z",
    }


def test_wallet_balances_are_those_of_the_reference() -> None:
    merchant = a_merchant()
    wallets = [
        {"account": "ZMB/ZMW", "balance": "21798.03"},
        {"account": "UGA/UGX", "balance": "10798"},
    ]
    merchant.simulator.open_accounts(wallets)
    balances = merchant.ask("GET", "/v2/wallet-balances")["balances"]
    assert {"country": "ZMB", "balance": "21798.03", "currency": "ZMW", "provider": ""} in balances
    assert {"country": "UGA", "balance": "10798", "currency": "UGX", "provider": ""} in balances


def test_the_availability_of_a_country_is_that_of_the_reference() -> None:
    merchant = a_merchant()
    states = {"MTN_MOMO_ZMB": {"DEPOSIT": "CLOSED"}, "AIRTEL_OAPI_ZMB": {"PAYOUT": "DELAYED"}}
    merchant.simulator.open_accounts([{"account": name, **state} for name, state in states.items()])
    [served] = merchant.ask("GET", "/v2/availability?country=ZMB")
    for each in served["providers"]:
        each["operationTypes"] = [
            it for it in each["operationTypes"] if it["operationType"] != REFUND
        ]
    assert served == {
        "country": "ZMB",
        "providers": [
            {
                "provider": "MTN_MOMO_ZMB",
                "operationTypes": [
                    {"operationType": "DEPOSIT", "status": "CLOSED"},
                    {"operationType": "PAYOUT", "status": "OPERATIONAL"},
                ],
            },
            {
                "provider": "AIRTEL_OAPI_ZMB",
                "operationTypes": [
                    {"operationType": "DEPOSIT", "status": "OPERATIONAL"},
                    {"operationType": "PAYOUT", "status": "DELAYED"},
                ],
            },
        ],
    }
