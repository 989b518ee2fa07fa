"""Drives the simulated MTN MoMo by mobilemoney.py: withdrawals, balances in a currency, and users.

Its own functions for deposits and refunds stop with an error of their own before anything is sent;
so these are sent by its general request."""

from __future__ import annotations

import asyncio
from typing import Any

from mobilemoney import Client
from mobilemoney.request.route import Route
from mobilemoney.utils.utils import DISBURSEMENTS_PATH

from support import ORIGIN, CallbackReceiver, balances

COLLECTION_KEY = "5c011ec7104e4d84a1f0c2e9106a2d34"
DISBURSEMENT_KEY = "d15b0250e3f74a6c9b1d7e2f4c8a0b36"
PAYER = "46733123999"


def payment(party: str, amount: str, reference: str) -> dict[str, Any]:
    return {
        "amount": amount,
        "currency": "EUR",
        "externalId": reference,
        party: {"partyIdType": "MSISDN", "partyId": PAYER},
        "payerMessage": "message",
        "payeeNote": "note",
    }


async def run(receiver: CallbackReceiver) -> None:
    client = Client()
    client.is_sandbox()
    # Three of its functions read this name instead of its own.
    client.http.is_Live = False
    user = client.get_reference_id()
    assert await client.create_api_user(user, COLLECTION_KEY, "127.0.0.1")
    _, made = await client.get_api_user(user, COLLECTION_KEY)
    assert made["providerCallbackHost"] == "127.0.0.1", made
    _, key = await client.create_api_key(user, COLLECTION_KEY)
    basic = client.basic_token(user, key["apiKey"])

    async def sign_in(product: Any) -> str:
        _, token = await product.create_access_token(basic)
        return client.bearer_token(token["access_token"])

    async def submit(path: str, id: str, body: Any) -> None:
        headers = {
            "Authorization": bearer,
            "Ocp-Apim-Subscription-Key": DISBURSEMENT_KEY,
            "X-Target-Environment": "sandbox",
            "X-Reference-Id": id,
            "X-Callback-Url": receiver.url(),
            "Content-Type": "application/json",
        }
        answered = await client.http.request(Route("POST", path, False, headers, body))
        assert answered.status == 202, client.http.data

    async def told(reference: str) -> None:
        body = await asyncio.to_thread(receiver.next)
        assert (body["externalId"], body["status"]) == (reference, "SUCCESSFUL"), body

    collection = client.collection(COLLECTION_KEY)
    bearer = await sign_in(collection)
    paid, withdrawn = client.get_reference_id(), client.get_reference_id()
    await collection.request_to_pay(
        bearer, paid, "sandbox", payment("payer", "100", "order-1"), receiver.url()
    )
    await told("order-1")
    await collection.withdraw(
        bearer, withdrawn, "sandbox", payment("payer", "40", "withdrawal-1"), receiver.url()
    )
    await told("withdrawal-1")
    _, state = await collection.get_withdraw_status(bearer, withdrawn)
    assert state["status"] == "SUCCESSFUL", state
    _, balance = await collection.get_account_balance_in("EUR", bearer, "sandbox")
    assert balance == {"availableBalance": "1000140", "currency": "EUR"}, balance
    _, person = await collection.get_basic_user_info(PAYER, bearer, "sandbox")
    assert person["sub"] == PAYER, person
    _, active = await collection.isActive(PAYER, authorization=bearer)
    assert active == {"result": True}, active

    disbursement = client.disbursements(DISBURSEMENT_KEY)
    # It keeps the key under a name that none of its functions read.
    disbursement.subscription_key = DISBURSEMENT_KEY
    bearer = await sign_in(disbursement)
    deposited, refunded = client.get_reference_id(), client.get_reference_id()
    deposit, refund = (DISBURSEMENTS_PATH[each]["sandbox"] for each in ("deposit", "refund"))
    await submit(deposit, deposited, payment("payee", "20", "deposit-1"))
    await told("deposit-1")
    body = {**payment("payee", "30", "refund-1"), "referenceIdToRefund": paid}
    del body["payee"]
    await submit(refund, refunded, body)
    await told("refund-1")
    _, state = await disbursement.get_refund_status(refunded, bearer, "sandbox")
    assert state["status"] == "SUCCESSFUL", state
    assert balances()[PAYER] == "999910.00", balances()


def main() -> None:
    Route.BASE["sandbox"] = ORIGIN
    asyncio.run(run(CallbackReceiver()))


main()
