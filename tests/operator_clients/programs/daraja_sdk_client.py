"""Drives the simulated M-Pesa by daraja-sdk-py: every operation, and its model of results."""

from __future__ import annotations

import base64
from typing import Any

from callback_receiver import ORIGIN, CallbackReceiver, balances, control
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding
from daraja import Mpesa, environment
from daraja.models import MpesaResult

PASSKEY = "bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919"
CUSTOMER = 254708374149


def read(body: Any) -> Any:
    """The result, as the client's model reads it."""
    for each in body["Result"].get("ResultParameters", {}).get("ResultParameter", []):
        # The portal's own sample of a status has a TransactionReason without a value, which the model refuses.
        if each["Key"] == "TransactionReason":
            each.setdefault("Value", "")
    # The portal's samples of payments between organisations have a list of items; the model reads one.
    items = body["Result"]["ReferenceData"]["ReferenceItem"]
    body["Result"]["ReferenceData"]["ReferenceItem"] = items[0] if isinstance(items, list) else items
    return MpesaResult.model_validate(body).Result


def main() -> None:
    receiver = CallbackReceiver()
    certificate = x509.load_pem_x509_certificate(control("/_simulator/certificate").encode())
    credential = base64.b64encode(certificate.public_key().encrypt(b"Safaricom999!*!", padding.PKCS1v15())).decode()
    environment.SANDBOX_BASE_URL = ORIGIN
    client = Mpesa(
        {
            "consumer_key": "consumer-key",
            "consumer_secret": "consumer-secret",
            "passkey": PASSKEY,
            "initiator_name": "testapi",
            "security_credential": credential,
        }
    )
    initiator = {
        "Initiator": "testapi",
        "SecurityCredential": credential,
        "Remarks": "OK",
        "QueueTimeOutURL": receiver.url("timeout"),
        "ResultURL": receiver.url("result"),
    }
    pushed = client.stk_push_service.initiate(
        {
            "BusinessShortCode": 174379,
            "TransactionType": "CustomerPayBillOnline",
            "Amount": 100,
            "PartyA": CUSTOMER,
            "PartyB": 174379,
            "PhoneNumber": CUSTOMER,
            "CallBackURL": receiver.url("mpesa/stk"),
            "AccountReference": "INV0001",
            "TransactionDesc": "Deposit",
        }
    )
    items = receiver.next()["Body"]["stkCallback"]["CallbackMetadata"]["Item"]
    receipt = next(each["Value"] for each in items if each["Name"] == "MpesaReceiptNumber")
    asked = client.stk_push_service.query(
        {"BusinessShortCode": "174379", "CheckoutRequestID": pushed.CheckoutRequestID}
    )
    assert str(asked.ResultCode) == "0", asked

    payment = {**initiator, "PartyA": 600997, "PartyB": 174379, "Amount": 50, "AccountReference": "ACC1"}
    client.b2c_service.send(
        {
            **{name: value for name, value in initiator.items() if name != "Initiator"},
            "OriginatorConversationID": "daraja-sdk-1",
            "InitiatorName": "testapi",
            "CommandID": "BusinessPayment",
            "Amount": 100,
            "PartyA": 600997,
            "PartyB": CUSTOMER,
        }
    )
    assert read(receiver.next()).ResultCode in (0, "0")
    client.business_goods_service.buy_goods(payment)
    assert read(receiver.next()).ResultCode in (0, "0")
    client.business_goods_service.pay_bill(payment)
    assert read(receiver.next()).ResultCode in (0, "0")
    client.transaction_status_service.query(
        {**initiator, "CommandID": "TransactionStatusQuery", "TransactionID": receipt, "PartyA": 174379}
    )
    assert read(receiver.next()).ResultCode in (0, "0")
    client.account_balance_service.query({**initiator, "CommandID": "AccountBalance", "PartyA": 600997})
    assert read(receiver.next()).ResultCode in (0, "0")
    client.reversal_service.reverse(
        {
            **initiator,
            "CommandID": "TransactionReversal",
            "TransactionID": receipt,
            "Amount": 100,
            "ReceiverParty": 174379,
        }
    )
    assert read(receiver.next()).ResultCode in (0, "0")
    code = client.dynamic_qr_service.generate(
        {"MerchantName": "TEST", "RefNo": "INV0001", "Amount": 1, "TrxCode": "BG", "CPI": "373132", "Size": "300"}
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
    client.c2b_service.simulate(
        {
            "ShortCode": 174379,
            "CommandID": "CustomerPayBillOnline",
            "Amount": 5,
            "Msisdn": CUSTOMER,
            "BillRefNumber": "ACC1",
        }
    )
    assert receiver.next()["BillRefNumber"] == "ACC1"
    assert balances() == {"174379": "105.00", "600997": "999800.00", str(CUSTOMER): "100095.00"}, balances()


main()
