"""Drives the simulated Airtel Money by airtelmoney-py: signed collections, pay-outs, refunds, users and balances."""

from __future__ import annotations

from typing import Any

from airtelmoney import AirtelMoney
from callback_receiver import ORIGIN, CallbackReceiver, balances, control

PAYER = "752000000"


def main() -> None:
    receiver = CallbackReceiver()
    settings = {"account": "collection", "callback_url": receiver.url(), "callback_key": "client-secret"}
    control("/_simulator/accounts", {"accounts": [settings]})
    client = AirtelMoney("client-id", "client-secret", base_url=ORIGIN)

    asked = client.collection.payment(reference="Order #1", msisdn=PAYER, amount=1000)
    id = asked["data"]["transaction"]["id"]
    told = receiver.next()
    assert told["transaction"]["id"] == id
    assert client.collection.verify_callback_hash(told, "client-secret")
    found = client.collection.enquiry(id)["data"]["transaction"]
    assert found["status"] == "TS", found
    assert client.collection.refund(found["airtel_money_id"])["status"]["success"] is True

    paid: Any = client.disbursement.payment(msisdn=PAYER, amount=500, reference="order-99", pin="1234")
    assert paid["data"]["transaction"]["status"] == "TS", paid
    found = client.disbursement.enquiry(paid["data"]["transaction"]["id"])
    assert found["data"]["transaction"]["status"] == "TS", found

    assert client.kyc.user_enquiry(PAYER)["data"]["first_name"] == "Jane"
    assert client.account.balance()["data"]["balance"] == "9,999,500.00"
    expected = {PAYER: "1000500", "collection": "0", "disbursement": "9999500"}
    assert balances().items() >= expected.items(), balances()


main()
