"""Drives the simulated M-Pesa by mpesakit: every operation, and its models for each result."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from callback_receiver import ORIGIN, CallbackReceiver, balances, control
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding
from mpesakit import MpesaClient
from mpesakit.b2c.schemas import B2CCommandIDType
from mpesakit.b2c_account_top_up.schemas import B2CAccountTopUpCallback
from mpesakit.business_buy_goods.schemas import BusinessBuyGoodsResultCallback
from mpesakit.business_paybill.schemas import BusinessPayBillResultCallback
from mpesakit.c2b.schemas import C2BResponseType, C2BValidationRequest
from mpesakit.dynamic_qr_code.schemas import DynamicQRTransactionType
from mpesakit.errors import MpesaApiException
from mpesakit.mpesa_express.schemas import TransactionType

PASSKEY = "bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919"
CUSTOMER = "254708374149"


def flattened(body: Any) -> Any:
    """The body as two of the models want it: a list where the portal's own samples have an object with the list in it,
    and a value for each parameter."""
    found = body["Result"]["ResultParameters"]["ResultParameter"]
    parameters = [{"Value": "", **each} for each in found]
    return {"Result": {**body["Result"], "ResultParameters": parameters}}


def failure_of(call: Callable[[], object]) -> str:
    """The client's own error of a call that fails."""
    try:
        call()
    except MpesaApiException as error:
        return str(error)
    return ""


def main() -> None:
    receiver = CallbackReceiver()
    certificate = x509.load_pem_x509_certificate(control("/_simulator/certificate").encode())
    credential = base64.b64encode(certificate.public_key().encrypt(b"Safaricom999!*!", padding.PKCS1v15())).decode()
    urls = {"result_url": receiver.url("result"), "queue_timeout_url": receiver.url("timeout")}
    initiator = {"initiator": "testapi", "security_credential": credential, **urls}
    client = MpesaClient("consumer-key", "consumer-secret")
    client.http_client.base_url = ORIGIN

    pushed = client.stk_push(
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
    paid = client.process_stk_callback(receiver.next())
    assert paid.Body.stkCallback.ResultCode == 0, paid
    receipt = next(i.Value for i in paid.Body.stkCallback.CallbackMetadata.Item if i.Name == "MpesaReceiptNumber")
    asked = client.stk_query(business_short_code=174379, passkey=PASSKEY, checkout_request_id=pushed.CheckoutRequestID)
    assert str(asked.ResultCode) == "0", asked

    client.b2c.send_payment(
        originator_conversation_id="mpesakit-1",
        initiator_name="testapi",
        security_credential=credential,
        command_id=B2CCommandIDType.BusinessPayment,
        amount=100,
        party_a="600997",
        party_b=CUSTOMER,
        remarks="payout",
        **urls,
    )
    assert client.process_b2c_callback(flattened(receiver.next())).Result.ResultCode == 0

    client.tax.remittance(amount=239, party_a=600997, remarks="OK", account_reference="353353", **initiator)
    taxed = client.process_tax_remittance_callback(receiver.next())
    assert str(taxed.Result.ResultCode) == "0", taxed

    client.transactions.query_status(
        transaction_id=receipt, party_a=174379, identifier_type=4, remarks="OK", **initiator
    )
    assert client.process_transactions_callback(flattened(receiver.next())).Result.ResultCode == 0

    client.balance.query(command_id="AccountBalance", party_a=600997, identifier_type=4, remarks="OK", **initiator)
    told = receiver.next()
    assert client.process_account_balance_callback(told).Result.ResultCode == "0"
    assert "Utility Account|KES|999661.00" in str(told), told

    client.b2b.paybill(
        amount=50,
        party_a=600997,
        party_b=174379,
        account_reference="ACC1",
        requester=CUSTOMER,
        remarks="OK",
        **initiator,
    )
    assert str(BusinessPayBillResultCallback.model_validate(receiver.next()).Result.ResultCode) == "0"
    client.b2b.buygoods(
        amount=50,
        party_a=600997,
        party_b=174379,
        account_reference="ACC1",
        requester=CUSTOMER,
        remarks="OK",
        **initiator,
    )
    assert str(BusinessBuyGoodsResultCallback.model_validate(receiver.next()).Result.ResultCode) == "0"
    client.b2c.account_topup(
        amount=50,
        party_a=174379,
        party_b=600997,
        account_reference="ACC1",
        requester=CUSTOMER,
        remarks="OK",
        **initiator,
    )
    assert str(B2CAccountTopUpCallback.model_validate(receiver.next()).Result.ResultCode) == "0"

    client.reversal.reverse(
        transaction_id=receipt, amount=100, receiver_party=174379, remarks="Payment reversal", **initiator
    )
    assert client.process_reversal_callback(receiver.next()).is_successful()

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
    asked, confirmed = (C2BValidationRequest.model_validate(receiver.next()) for _ in range(2))
    assert asked.TransID == confirmed.TransID, (asked, confirmed)

    wrong = MpesaClient("consumer-key", "wrong")
    wrong.http_client.base_url = ORIGIN
    assert "AUTH_INVALID_CREDENTIALS" in failure_of(wrong.token_manager.get_token)

    assert balances() == {"174379": "55.00", "600997": "999611.00", CUSTOMER: "100095.00", "572572": "239.00"}, (
        balances()
    )


main()
