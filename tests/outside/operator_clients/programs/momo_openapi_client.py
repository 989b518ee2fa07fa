"""Drives the simulated MTN MoMo by momo-openapi: collections, pay-outs and remittances, with the
environment named at the token request."""

from __future__ import annotations

import time
from typing import Any

from momo_openapi import Collection, Disbursement, MomoConfig, Remittance

from support import ORIGIN, CallbackReceiver, balances

USER, TOKEN = "c72025f5-5cd1-4630-99e4-8ba4722fad56", "f1db798c98df4bcf83b538175893bbf0"
COLLECTION_KEY = "5c011ec7104e4d84a1f0c2e9106a2d34"
DISBURSEMENT_KEY = "d15b0250e3f74a6c9b1d7e2f4c8a0b36"
REMITTANCE_KEY = "4e317a9cb20f4c5d8a6b1f3e7d9c2b40"
PAYER = "46733123999"


def configuration(key: str, callback_url: str) -> MomoConfig:
    return MomoConfig(
        subscription_key=key,
        user_id=USER,
        credential_token=TOKEN,
        target_environment="sandbox",
        currency="EUR",
        callback_url=callback_url,
        base_url=ORIGIN,
    )


def ended(client: Any, id: str) -> str:
    while (status := str(client.get_transaction_status(id)["status"])) == "PENDING":
        time.sleep(0.5)
    return status


def main() -> None:
    receiver = CallbackReceiver()
    collection = Collection(configuration(COLLECTION_KEY, receiver.url()))
    paid = collection.request_to_pay(
        "100", PAYER, external_id="order-42", payer_message="Order 42", payee_note="Thanks"
    )
    assert receiver.next()["externalId"] == "order-42"
    assert ended(collection, paid) == "SUCCESSFUL"
    refused = collection.request_to_pay(
        "100", "46733123451", external_id="order-43", payer_message="x", payee_note="x"
    )
    assert receiver.next()["status"] == "FAILED"
    assert ended(collection, refused) == "FAILED"
    disbursement = Disbursement(configuration(DISBURSEMENT_KEY, receiver.url()))
    assert (
        ended(disbursement, disbursement.transfer("30", PAYER, external_id="payout-7"))
        == "SUCCESSFUL"
    )
    remittance = Remittance(configuration(REMITTANCE_KEY, receiver.url()))
    assert (
        ended(remittance, remittance.transfer("20", PAYER, external_id="remittance-1"))
        == "SUCCESSFUL"
    )
    for client, balance in (
        (collection, "1000100"),
        (disbursement, "999970"),
        (remittance, "999980"),
    ):
        assert client.get_balance() == {"availableBalance": balance, "currency": "EUR"}
    assert balances()[PAYER] == "999950.00"


main()
