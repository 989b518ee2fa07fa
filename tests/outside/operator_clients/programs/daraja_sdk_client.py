"""Drives the simulated M-Pesa by daraja-sdk-py: every operation, and its models of callbacks."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta, timezone
from typing import Any

from daraja import Mpesa, environment
from daraja.models import C2BValidationRequest, MpesaResult, STKCallbackPayload
from mpesa import CUSTOMER, NOT_REGISTERED, PASSKEY, QUEUE_TIMEOUT, credential

from support import ORIGIN, CallbackReceiver, balances, control, plan, read, refuse

SPACED = "%Y-%m-%d %H:%M:%S"


def main() -> None:
    receiver = CallbackReceiver()
    encrypted = credential()
    environment.SANDBOX_BASE_URL = ORIGIN
    client = Mpesa(
        {
            "consumer_key": "consumer-key",
            "consumer_secret": "consumer-secret",
            "passkey": PASSKEY,
            "initiator_name": "testapi",
            "security_credential": encrypted,
        }
    )
    urls = {"QueueTimeOutURL": receiver.url("timeout"), "ResultURL": receiver.url("result")}
    initiator = {"Initiator": "testapi", "SecurityCredential": encrypted, "Remarks": "OK", **urls}

    # It sends no request twice that is the same in all members, so each has a reference of its own.
    def push(reference: str) -> Any:
        return client.stk_push_service.initiate(
            {
                "BusinessShortCode": 174379,
                "TransactionType": "CustomerPayBillOnline",
                "Amount": 100,
                "PartyA": CUSTOMER,
                "PartyB": 174379,
                "PhoneNumber": CUSTOMER,
                "CallBackURL": receiver.url("mpesa/stk"),
                "AccountReference": reference,
                "TransactionDesc": "Deposit",
            }
        )

    def pay_out(name: str) -> None:
        client.b2c_service.send(
            {
                "OriginatorConversationID": name,
                "InitiatorName": "testapi",
                "SecurityCredential": encrypted,
                "Remarks": "OK",
                "CommandID": "BusinessPayment",
                "Amount": 100,
                "PartyA": 600997,
                "PartyB": CUSTOMER,
                **urls,
            }
        )

    def result(kind: str) -> Any:
        return read(kind, receiver.next(), MpesaResult.model_validate).Result

    plan("stk_push", "1032")
    push("INV0001")
    failed = read("prompt that fails", receiver.next(), STKCallbackPayload.model_validate)
    assert failed.Body.stkCallback.ResultCode == 1032, failed
    pushed = push("INV0002")
    paid = read("prompt", receiver.next(), STKCallbackPayload.model_validate).Body.stkCallback
    receipt = next(
        each.Value for each in paid.CallbackMetadata.Item if each.Name == "MpesaReceiptNumber"
    )
    asked = client.stk_push_service.query(
        {"BusinessShortCode": "174379", "CheckoutRequestID": pushed.CheckoutRequestID}
    )
    assert str(asked.ResultCode) == "0", asked

    pay_out("daraja-sdk-1")
    assert result("pay-out").ResultCode == 0
    plan("b2c", NOT_REGISTERED)
    pay_out("daraja-sdk-2")
    assert result("pay-out that fails").ResultCode == int(NOT_REGISTERED)
    plan("b2c", QUEUE_TIMEOUT)
    pay_out("daraja-sdk-3")
    assert result("queue time-out").OriginatorConversationID == "daraja-sdk-3"

    payment = {
        **initiator,
        "PartyA": 600997,
        "PartyB": 174379,
        "Amount": 50,
        "AccountReference": "ACC1",
    }
    client.business_goods_service.buy_goods(payment)
    refuse("payment between organisations", receiver.next(), MpesaResult.model_validate)
    client.business_goods_service.pay_bill(payment)
    refuse("payment between organisations", receiver.next(), MpesaResult.model_validate)
    plan("b2b", "1")
    client.business_goods_service.pay_bill({**payment, "AccountReference": "ACC2"})
    refuse("payment between organisations that fails", receiver.next(), MpesaResult.model_validate)
    client.transaction_status_service.query(
        {
            **initiator,
            "CommandID": "TransactionStatusQuery",
            "TransactionID": receipt,
            "PartyA": 174379,
        }
    )
    refuse("status", receiver.next(), MpesaResult.model_validate)
    client.account_balance_service.query(
        {**initiator, "CommandID": "AccountBalance", "PartyA": 600997}
    )
    assert result("balance").ResultCode == 0
    client.reversal_service.reverse(
        {
            **initiator,
            "CommandID": "TransactionReversal",
            "TransactionID": receipt,
            "Amount": 100,
            "ReceiverParty": 174379,
        }
    )
    assert result("reversal").ResultCode == 0
    code = client.dynamic_qr_service.generate(
        {
            "MerchantName": "TEST",
            "RefNo": "INV0001",
            "Amount": 1,
            "TrxCode": "BG",
            "CPI": "373132",
            "Size": "300",
        }
    )
    assert base64.b64decode(code.QRCode).startswith(b"\x89PNG")
    client.c2b_service.register_url(
        {
            "ShortCode": "174379",
            "ResponseType": "Completed",
            "ConfirmationURL": receiver.url("confirmation"),
            "ValidationURL": receiver.url("validation"),
        }
    )
    control("/_simulator/accounts", {"accounts": [{"account": "174379", "validates": True}]})
    client.c2b_service.simulate(
        {
            "ShortCode": 174379,
            "CommandID": "CustomerPayBillOnline",
            "Amount": 5,
            "Msisdn": CUSTOMER,
            "BillRefNumber": "ACC1",
        }
    )
    read("validation of a deposit", receiver.next(), C2BValidationRequest.model_validate)
    assert (
        read("deposit", receiver.next(), C2BValidationRequest.model_validate).BillRefNumber
        == "ACC1"
    )
    pull = client.pull_transactions_service
    own = {"ShortCode": "174379"}
    pull.register({**own, "NominatedNumber": "254722000000", "CallBackURL": receiver.url("pull")})
    now = datetime.now(timezone(timedelta(hours=3)))
    period = {
        "StartDate": f"{now - timedelta(hours=1):{SPACED}}",
        "EndDate": f"{now + timedelta(minutes=1):{SPACED}}",
    }
    listed = {
        each.transactionId for page in pull.query({**own, **period}).Response for each in page
    }
    assert receipt in listed, listed
    assert balances() == {"174379": "105.00", "600997": "999800.00", CUSTOMER: "100095.00"}, (
        balances()
    )


main()
