"""Drives the simulated M-Pesa by mpesakit: every operation, and its models for each result."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from mpesa import CUSTOMER, NOT_REGISTERED, PASSKEY, QUEUE_TIMEOUT, credential
from mpesakit import MpesaClient
from mpesakit.b2c.schemas import B2CCommandIDType, B2CResultCallback, B2CTimeoutCallback
from mpesakit.b2c_account_top_up.schemas import B2CAccountTopUpCallback
from mpesakit.business_buy_goods.schemas import BusinessBuyGoodsResultCallback
from mpesakit.business_paybill.schemas import BusinessPayBillResultCallback
from mpesakit.c2b.schemas import C2BResponseType, C2BValidationRequest
from mpesakit.dynamic_qr_code.schemas import DynamicQRTransactionType
from mpesakit.errors import MpesaApiException
from mpesakit.mpesa_express.schemas import TransactionType

from support import ORIGIN, CallbackReceiver, balances, control, plan, read, refuse


def failure_of(call: Callable[[], object]) -> str:
    """The client's own error of a call that fails."""
    try:
        call()
    except MpesaApiException as error:
        return str(error)
    return ""


def main() -> None:
    receiver = CallbackReceiver()
    urls = {"result_url": receiver.url("result"), "queue_timeout_url": receiver.url("timeout")}
    initiator: dict[str, Any] = {
        "initiator": "testapi",
        "security_credential": credential(),
        "remarks": "OK",
        **urls,
    }
    client = MpesaClient("consumer-key", "consumer-secret")
    client.http_client.base_url = ORIGIN

    def push() -> Any:
        return client.stk_push(
            business_short_code=174379,
            passkey=PASSKEY,
            transaction_type=TransactionType.CUSTOMER_PAYBILL_ONLINE,
            amount=100,
            party_a=CUSTOMER,
            party_b="174379",
            phone_number=CUSTOMER,
            callback_url=receiver.url("mpesa/stk"),
            account_reference="INV0001",
            transaction_desc="Deposit",
        )

    def pay_out(name: str) -> None:
        client.b2c.send_payment(
            originator_conversation_id=name,
            initiator_name="testapi",
            security_credential=initiator["security_credential"],
            command_id=B2CCommandIDType.BusinessPayment,
            amount=100,
            party_a="600997",
            party_b=CUSTOMER,
            remarks="payout",
            **urls,
        )

    plan("stk_push", "1032")
    push()
    failed = read("prompt that fails", receiver.next(), client.process_stk_callback)
    assert failed.Body.stkCallback.ResultCode == 1032, failed
    pushed = push()
    paid = read("prompt", receiver.next(), client.process_stk_callback)
    assert paid.Body.stkCallback.ResultCode == 0, paid
    receipt = next(
        i.Value
        for i in paid.Body.stkCallback.CallbackMetadata.Item
        if i.Name == "MpesaReceiptNumber"
    )
    asked = client.stk_query(
        business_short_code=174379, passkey=PASSKEY, checkout_request_id=pushed.CheckoutRequestID
    )
    assert str(asked.ResultCode) == "0", asked

    pay_out("mpesakit-1")
    refuse("pay-out", receiver.next(), B2CResultCallback.model_validate)
    plan("b2c", NOT_REGISTERED)
    pay_out("mpesakit-2")
    failed = read("pay-out that fails", receiver.next(), client.process_b2c_callback)
    assert str(failed.Result.ResultCode) == NOT_REGISTERED, failed
    plan("b2c", QUEUE_TIMEOUT)
    pay_out("mpesakit-3")
    timed_out = read("queue time-out", receiver.next(), B2CTimeoutCallback.model_validate)
    assert timed_out.Result.OriginatorConversationID == "mpesakit-3", timed_out

    client.tax.remittance(amount=239, party_a=600997, account_reference="353353", **initiator)
    taxed = read("tax", receiver.next(), client.process_tax_remittance_callback)
    assert str(taxed.Result.ResultCode) == "0", taxed

    client.transactions.query_status(
        transaction_id=receipt, party_a=174379, identifier_type=4, **initiator
    )
    refuse("status", receiver.next(), client.process_transactions_callback)

    client.balance.query(
        command_id="AccountBalance", party_a=600997, identifier_type=4, **initiator
    )
    told = receiver.next()
    assert read("balance", told, client.process_account_balance_callback).Result.ResultCode == "0"
    assert "Utility Account|KES|999661.00" in str(told), told

    supplier = {
        "amount": 50,
        "party_a": 600997,
        "party_b": 174379,
        "account_reference": "ACC1",
        "requester": CUSTOMER,
    }
    for model, pay, parties in (
        (BusinessPayBillResultCallback, client.b2b.paybill, {}),
        (BusinessBuyGoodsResultCallback, client.b2b.buygoods, {}),
        (B2CAccountTopUpCallback, client.b2c.account_topup, {"party_a": 174379, "party_b": 600997}),
    ):
        pay(**supplier | parties, **initiator)
        found = read("payment between organisations", receiver.next(), model.model_validate)
        assert str(found.Result.ResultCode) == "0", found
    plan("b2b", "1")
    client.b2b.paybill(**supplier, **initiator)
    refuse(
        "payment between organisations that fails",
        receiver.next(),
        BusinessPayBillResultCallback.model_validate,
    )

    client.reversal.reverse(transaction_id=receipt, amount=100, receiver_party=174379, **initiator)
    assert read("reversal", receiver.next(), client.process_reversal_callback).is_successful()

    code = client.dynamic_qr.generate(
        merchant_name="TEST SUPERMARKET",
        ref_no="INV0001",
        amount=1,
        trx_code=DynamicQRTransactionType.BUY_GOODS,
        cpi="373132",
        size="300",
    )
    assert base64.b64decode(code.QRCode).startswith(b"\x89PNG")

    client.c2b.register_url(
        short_code=174379,
        response_type=C2BResponseType.COMPLETED,
        confirmation_url=receiver.url("confirmation"),
        validation_url=receiver.url("validation"),
    )
    control("/_simulator/accounts", {"accounts": [{"account": "174379", "validates": True}]})
    token = client.token_manager.get_token()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    deposit = {
        "ShortCode": 174379,
        "CommandID": "CustomerPayBillOnline",
        "Amount": 5,
        "Msisdn": CUSTOMER,
        "BillRefNumber": "ACC1",
    }
    client.http_client.post("/mpesa/c2b/v2/simulate", json=deposit, headers=headers)
    asked = read("validation of a deposit", receiver.next(), C2BValidationRequest.model_validate)
    confirmed = read("deposit", receiver.next(), C2BValidationRequest.model_validate)
    assert asked.TransID == confirmed.TransID, (asked, confirmed)

    wrong = MpesaClient("consumer-key", "wrong")
    wrong.http_client.base_url = ORIGIN
    assert "AUTH_INVALID_CREDENTIALS" in failure_of(wrong.token_manager.get_token)

    assert balances() == {
        "174379": "55.00",
        "600997": "999611.00",
        CUSTOMER: "100095.00",
        "572572": "239.00",
    }, balances()


main()
