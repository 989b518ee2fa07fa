"""Drives the simulated Airtel Money by pyairtel, whose numbers have their country code."""

from __future__ import annotations

import base64
import json
import urllib.request

from pyairtel import AirtelMoney

from support import ORIGIN, CallbackReceiver, balances, control

PAYER = "255681219610"


def main() -> None:
    receiver = CallbackReceiver()
    accounts = [
        {"account": PAYER, "balance": "100000"},
        {"account": "collection", "callback_url": receiver.url()},
    ]
    control("/_simulator/accounts", {"accounts": accounts})
    client = AirtelMoney("client-id", "client-secret", sandbox=True, country="UG", currency="UGX")
    for part in (client, client._token_manager, client._collection, client._disbursement):
        part._base_url = ORIGIN

    asked = client.collect(phone="0681219610", amount=1000, reference="invoice-42")
    assert asked.status == "DP00800001006", asked
    assert receiver.next()["transaction"]["id"] == asked.transaction_id
    found = client.get_collection_status(asked.transaction_id)
    assert found.is_successful, found
    refunded = client.refund(found.airtel_money_id)
    assert refunded.raw["status"]["success"] is True, refunded

    token = client._token_manager.access_token
    headers = {"Authorization": f"Bearer {token}", "X-Country": "UG", "X-Currency": "UGX"}
    request = urllib.request.Request(f"{ORIGIN}/v1/rsa/encryption-keys", headers=headers)
    with urllib.request.urlopen(request) as answer:
        key = json.load(answer)["data"]["key"]
    lines = "\n".join(key[at : at + 64] for at in range(0, len(key), 64))
    pem = f"-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n"
    assert base64.b64decode(key)
    paid = client.transfer(
        phone=PAYER,
        amount=500,
        pin="1234",
        public_key_pem=pem,
        payer_first_name="Test",
        payer_last_name="Shop",
        reference="order-99",
    )
    assert paid.status == "DP00900001001", paid
    expected = {PAYER: "100500", "collection": "0", "disbursement": "9999500"}
    assert balances().items() >= expected.items(), balances()


main()
