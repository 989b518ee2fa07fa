"""Drives the simulated M-Pesa by mpesa-daraja-mcp: its tools for every operation, and its reading
of callbacks."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable
from typing import Any

from mpesa import CUSTOMER, NOT_REGISTERED, PASSKEY, QUEUE_TIMEOUT, credential

from support import ORIGIN, CallbackReceiver, balances, control, plan, read

FOLDER = tempfile.mkdtemp()
os.environ.update(
    {
        "DARAJA_CONFIG_DIR": FOLDER,
        "DARAJA_STATE_DB": f"{FOLDER}/state.db",
        "DARAJA_OUTPUT_DIR": FOLDER,
        "DARAJA_CONSUMER_KEY": "consumer-key",
        "DARAJA_CONSUMER_SECRET": "consumer-secret",
        "DARAJA_SHORTCODE": "174379",
        "DARAJA_PASSKEY": PASSKEY,
        "DARAJA_INITIATOR_NAME": "testapi",
        "DARAJA_SECURITY_CREDENTIAL": credential(),
    }
)

from mpesa_mcp import client, server, validation  # noqa: E402 - their settings come first.
from mpesa_mcp.helpers import parse_callback  # noqa: E402


def beginning(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(4)


async def run(receiver: CallbackReceiver) -> None:
    urls = {"result_url": receiver.url("result"), "timeout_url": receiver.url("timeout")}

    async def told(kind: str, request: Awaitable[Any]) -> Any:
        """What the client reads in the callback that a request leads to."""
        sent = await request
        assert getattr(sent, "status", "ACCEPTED") == "ACCEPTED", sent
        return read(kind, await asyncio.to_thread(receiver.next), parse_callback)

    def push() -> Any:
        return server.stk_push(CUSTOMER, 100, "INV0001", callback_url=receiver.url("mpesa/stk"))

    def pay_out(key: str) -> Any:
        return server.b2c_payment(CUSTOMER, 100, "payout", key, party_a="600997", **urls)

    def pay_supplier(key: str, **parameters: Any) -> Any:
        return server.b2b_payment(
            "174379",
            50,
            "ACC1",
            idempotency_key=key,
            requester_phone=CUSTOMER,
            party_a="600997",
            **urls,
            **parameters,
        )

    plan("stk_push", "1032")
    assert (await told("prompt that fails", push()))["result_code"] == 1032
    paid = await told("prompt", push())
    assert (paid["success"], paid["amount"]) == (True, 100), paid
    asked = await server.stk_query(paid["checkout_request_id"])
    assert asked.status == "SUCCESS", asked

    assert (await told("pay-out", pay_out("pay-out-1")))["parameters"]["TransactionAmount"] == 100
    plan("b2c", NOT_REGISTERED)
    assert (await told("pay-out that fails", pay_out("pay-out-2")))["result_code"] == int(
        NOT_REGISTERED
    )
    plan("b2c", QUEUE_TIMEOUT)
    assert (await told("queue time-out", pay_out("pay-out-3")))["originator_conversation_id"]

    kind = "payment between organisations"
    assert (await told(kind, pay_supplier("supplier-1")))["success"]
    assert (await told(kind, pay_supplier("supplier-2", command="BusinessBuyGoods")))["success"]
    plan("b2b", "1")
    assert (await told(f"{kind} that fails", pay_supplier("supplier-3")))["result_code"] == 1
    taxed = server.b2b_payment("572572", 239, "353353", "PayTaxToKRA", party_a="600997", **urls)
    assert (await told("tax", taxed))["parameters"]["Amount"] == "239.00"

    status = await told("status", server.transaction_status(paid["receipt"], **urls))
    assert status["parameters"]["TransactionStatus"] == "Completed", status
    balance = await told("balance", server.account_balance("600997", **urls))
    assert balance["balances"][2]["available"] == 999561.0, balance
    reversal = server.reverse_transaction(paid["receipt"], 100, "Payment reversal", **urls)
    assert (await told("reversal", reversal))["success"]

    picture = await server.generate_dynamic_qr("TEST", "INV0001", 1, "373132")
    assert beginning(picture["path"]) == b"\x89PNG"
    await server.c2b_register_urls(receiver.url("confirmation"), receiver.url("validation"))
    control("/_simulator/accounts", {"accounts": [{"account": "174379", "validates": True}]})
    asked = await told("validation of a deposit", server.c2b_simulate(5, CUSTOMER, "ACC1"))
    confirmed = read("deposit", await asyncio.to_thread(receiver.next), parse_callback)
    assert asked["transaction_id"] == confirmed["transaction_id"], (asked, confirmed)
    expected = {
        "174379": "105.00",
        "600997": "999561.00",
        CUSTOMER: "100095.00",
        "572572": "239.00",
    }
    assert balances() == expected, balances()


def main() -> None:
    client.BASE_URLS["sandbox"] = ORIGIN
    # It insists on https for callbacks, which the simulated operator sends in the clear here.
    client.Config.callback = lambda self, explicit, path: explicit
    validation.URL_FIELDS = ()
    asyncio.run(run(CallbackReceiver()))


main()
