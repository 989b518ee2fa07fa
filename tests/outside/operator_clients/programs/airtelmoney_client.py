"""Drives the simulated Airtel Money by airtelmoney-py: signed collections, pay-outs, refunds, users
and balances.

The newer versions of refunds, balances and pay-outs, which it has no function for, are sent by its
general request, the pay-out with its own signature."""

from __future__ import annotations

from typing import Any

from airtelmoney import AirtelMoney
from airtelmoney.encryption import encrypt_pin, sign_payload

from support import ORIGIN, CallbackReceiver, balances, control, plan, read

PAYER = "752000000"


def main() -> None:
    receiver = CallbackReceiver()
    settings = {
        "account": "collection",
        "callback_url": receiver.url(),
        "callback_key": "client-secret",
    }
    control("/_simulator/accounts", {"accounts": [settings]})
    client = AirtelMoney("client-id", "client-secret", base_url=ORIGIN)

    def is_genuine(told: Any) -> Any:
        assert client.collection.verify_callback_hash(told, "client-secret")
        return told["transaction"]

    def collect(kind: str) -> Any:
        asked = client.collection.payment(reference="Order #1", msisdn=PAYER, amount=1000)
        told = read(kind, receiver.next(), is_genuine)
        assert told["id"] == asked["data"]["transaction"]["id"], told
        return client.collection.enquiry(told["id"])["data"]["transaction"]

    def send(method: str, path: str, **parameters: Any) -> Any:
        return client.request(method, path, include_country_currency=True, auth=True, **parameters)

    plan("collection", "DP00800001007")
    assert collect("collection that fails")["status"] == "TF"
    found = collect("collection")
    assert found["status"] == "TS", found
    assert client.collection.refund(found["airtel_money_id"])["status"]["success"] is True
    again = {"transaction": {"airtel_money_id": collect("collection")["airtel_money_id"]}}
    assert (
        send("POST", "/standard/v2/payments/refund", json_body=again)["status"]["success"] is True
    )

    paid: Any = client.disbursement.payment(
        msisdn=PAYER, amount=500, reference="order-99", pin="1234"
    )
    assert paid["data"]["transaction"]["status"] == "TS", paid
    found = client.disbursement.enquiry(paid["data"]["transaction"]["id"])
    assert found["data"]["transaction"]["status"] == "TS", found

    key = client.get_encryption_key()
    newer = {
        "payee": {"msisdn": PAYER, "wallet_type": "NORMAL"},
        "reference": "order-100",
        "pin": encrypt_pin(key, "1234"),
        "transaction": {"amount": 250, "id": "signed-pay-out", "type": "B2C"},
    }
    signed = sign_payload(key, newer)
    paid = send(
        "POST", "/standard/v3/disbursements", raw_body=signed.payload, headers=signed.headers
    )
    assert paid["data"]["transaction"]["status"] == "TS", paid

    assert client.kyc.user_enquiry(PAYER)["data"]["first_name"] == "Jane"
    assert client.account.balance()["data"]["balance"] == "9,999,250.00"
    for type, balance in (("COLL", "0.00"), ("DISB", "9,999,250.00")):
        assert send("GET", f"/standard/v2/users/balance?type={type}")["data"]["balance"] == balance
    expected = {PAYER: "1000750", "collection": "0", "disbursement": "9999250"}
    assert balances().items() >= expected.items(), balances()


main()
