"""Drives the simulated Airtel Money by mtn-momo-client: collections, pay-outs and balances, with amounts as text."""

from __future__ import annotations

import httpx
from callback_receiver import ORIGIN, CallbackReceiver, balances, control
from momo_api import AirtelApi, AirtelConfig, encrypt_airtel_pin

PAYER = "752000000"


def main() -> None:
    receiver = CallbackReceiver()
    control("/_simulator/accounts", {"accounts": [{"account": "collection", "callback_url": receiver.url()}]})
    api = AirtelApi(ORIGIN)
    config = AirtelConfig.collection("client-id", "client-secret", country="UG", currency="UGX")
    collection = api.get_collection(config)
    id = collection.request_to_pay("1000", PAYER, "Order 1")
    assert receiver.next()["transaction"]["id"] == id
    assert collection.get_payment_status(id).is_successful()
    assert collection.get_balance().currency == "UGX"

    headers = {"Authorization": f"Bearer {collection.get_access_token()}", "X-Country": "UG", "X-Currency": "UGX"}
    key = httpx.get(f"{ORIGIN}/v1/rsa/encryption-keys", headers=headers).json()["data"]["key"]
    pin = encrypt_airtel_pin("1234", key)
    disbursement = api.get_disbursement(
        AirtelConfig.disbursement("client-id", "client-secret", pin, country="UG", currency="UGX")
    )
    id = disbursement.transfer("500", PAYER, "Order 2")
    assert disbursement.get_transfer_status(id).is_successful()
    expected = {PAYER: "999500", "collection": "1000", "disbursement": "9999500"}
    assert balances().items() >= expected.items(), balances()


main()
