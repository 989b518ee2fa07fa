"""Drives the simulated Airtel Money by umojasdk: collections, and its reading of callbacks. Its
pay-outs have no PIN, which Airtel Money requires."""

from __future__ import annotations

from typing import Any

from umojasdk.providers.airtel import AirtelCollectionRequest, AirtelConfig, UmojaAirtel

from support import ORIGIN, CallbackReceiver, control, plan, read

PAYER = "254752000000"


def main() -> None:
    receiver = CallbackReceiver()
    control(
        "/_simulator/accounts",
        {"accounts": [{"account": "collection", "callback_url": receiver.url()}]},
    )
    client = UmojaAirtel(AirtelConfig("client-id", "client-secret", country="UG", currency="UGX"))
    client._base = ORIGIN

    def collect(reference: str) -> Any:
        asked = client.request_to_pay(AirtelCollectionRequest(PAYER, 1000, reference))
        assert asked["status"]["success"] is True, asked
        return receiver.next()

    paid = read("collection", collect("order-1"), client.parse_callback)
    assert (paid["transaction_id"], paid["status"]) == ("order-1", "TS"), paid
    assert client.query_transaction("order-1")["data"]["transaction"]["status"] == "TS"
    plan("collection", "DP00800001007")
    failed = read("collection that fails", collect("order-2"), client.parse_callback)
    assert (failed["transaction_id"], failed["status"]) == ("order-2", "TF"), failed


main()
