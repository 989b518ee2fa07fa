"""Drives the simulated MTN MoMo by mtnmomo, which sends `{}` for a token and wants keys that are
UUIDs."""

from __future__ import annotations

import os
import time
from typing import Any

from support import ORIGIN, CallbackReceiver, balances

USER, SECRET = "c72025f5-5cd1-4630-99e4-8ba4722fad56", "f1db798c98df4bcf83b538175893bbf0"
CONFIGURATION = {
    "ENVIRONMENT": "sandbox",
    "BASE_URL": ORIGIN,
    "CALLBACK_HOST": "http://127.0.0.1",
    "COLLECTION_PRIMARY_KEY": "5c011ec7104e4d84a1f0c2e9106a2d34",
    "COLLECTION_USER_ID": USER,
    "COLLECTION_API_SECRET": SECRET,
    "DISBURSEMENT_PRIMARY_KEY": "d15b0250e3f74a6c9b1d7e2f4c8a0b36",
    "DISBURSEMENT_USER_ID": USER,
    "DISBURSEMENT_API_SECRET": SECRET,
    "DISBURSEMENTS_API_SECRET": SECRET,
    "REMITTANCE_PRIMARY_KEY": "4e317a9cb20f4c5d8a6b1f3e7d9c2b40",
    "REMITTANCE_USER_ID": USER,
    "REMITTANCE_API_SECRET": SECRET,
}
os.environ.update(CONFIGURATION)

from mtnmomo.collection import Collection  # noqa: E402 - it reads the environment when it is imported.
from mtnmomo.disbursement import Disbursement  # noqa: E402
from mtnmomo.remittance import Remittance  # noqa: E402

PAYER = "256772123456"


def ended(client: Any, id: str) -> str:
    while (status := str(client.getTransactionStatus(id)["status"])) == "PENDING":
        time.sleep(0.5)
    return status


def main() -> None:
    receiver = CallbackReceiver()
    collection = Collection(CONFIGURATION)
    asked = collection.requestToPay(
        PAYER, "100", "order-1", "note", "message", callback_url=receiver.url()
    )
    assert receiver.next()["externalId"] == "order-1"
    assert ended(collection, asked["transaction_ref"]) == "SUCCESSFUL"
    assert collection.getBalance() == {"availableBalance": "1000100", "currency": "EUR"}
    disbursement = Disbursement(CONFIGURATION)
    sent = disbursement.transfer("30", PAYER, "payout-1", "note", "message")
    assert ended(disbursement, sent["transaction_ref"]) == "SUCCESSFUL"
    assert disbursement.getBalance() == {"availableBalance": "999970", "currency": "EUR"}
    remittance = Remittance(CONFIGURATION)
    assert remittance.isActive(PAYER) == {"result": True}
    sent = remittance.transfer(
        "20", PAYER, "remittance-1", "note", "message", callback_url=receiver.url()
    )
    assert receiver.next()["externalId"] == "remittance-1"
    assert ended(remittance, sent["transaction_ref"]) == "SUCCESSFUL"
    assert balances()[PAYER] == "999950.00"


main()
