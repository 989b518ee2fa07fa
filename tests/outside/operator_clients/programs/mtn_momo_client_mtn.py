"""Drives the simulated MTN MoMo by mtn-momo-client: a user of its own, collections, pay-outs,
deposits, refunds.

Withdrawals and remittances, which it has no function for, are sent by its general request; its
model reads their callbacks as well."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from momo_api import (
    Config,
    MomoApi,
    PaymentRequest,
    RefundRequest,
    Transaction,
    TransferRequest,
    generate_uuid,
)
from momo_api.products.base import AbstractApiProduct

from support import ORIGIN, CallbackReceiver, balances, read

COLLECTION_KEY = "5c011ec7104e4d84a1f0c2e9106a2d34"
DISBURSEMENT_KEY = "d15b0250e3f74a6c9b1d7e2f4c8a0b36"
REMITTANCE_KEY = "4e317a9cb20f4c5d8a6b1f3e7d9c2b40"
PAYER = "46733123999"


class RemittanceApi(AbstractApiProduct):
    """The client's own base of a product, for one that it leaves out."""

    PRODUCT_PATH = "remittance"


def ended(ask: Callable[[str], Any], id: str) -> Any:
    """The state of a submission once it is no longer pending."""
    while (found := ask(id)).is_pending():
        time.sleep(0.5)
    return found


def main() -> None:
    receiver = CallbackReceiver()

    def told(kind: str, reference: str) -> Any:
        """What the client's model of a payment reads in the next callback."""
        found = read(kind, receiver.next(), Transaction.parse)
        assert (found.external_id, found.currency) == (reference, "EUR"), found
        return found

    MomoApi.get_base_url = classmethod(lambda cls, environment: ORIGIN)
    api = MomoApi.create(MomoApi.ENVIRONMENT_SANDBOX)
    sandbox = api.sandbox(COLLECTION_KEY)
    user = generate_uuid()
    sandbox.create_api_user(user, "127.0.0.1")
    key = sandbox.create_api_key(user)

    collection = api.get_collection(Config.collection(COLLECTION_KEY, user, key, receiver.url()))
    paid = collection.request_to_pay(PaymentRequest.make("100", PAYER, "order-1", "EUR"))
    assert told("request to pay", "order-1").is_successful()
    assert ended(collection.get_payment_status, paid).is_successful()
    failed = collection.request_to_pay(PaymentRequest.make("100", "46733123451", "order-2", "EUR"))
    reason = told("request to pay that fails", "order-2").reason
    assert reason.is_approval_rejected(), reason
    assert ended(collection.get_payment_status, failed).is_failed()
    assert collection.get_balance().currency == "EUR"
    assert collection.check_account_holder(PAYER) is True
    assert collection.check_account_holder("46733123451") is False

    disbursement = api.get_disbursement(
        Config.disbursement(DISBURSEMENT_KEY, user, key, receiver.url())
    )
    sent = disbursement.transfer(TransferRequest.make("30", PAYER, "payout-1", "EUR"))
    assert told("transfer", "payout-1").is_successful()
    assert ended(disbursement.get_transfer_status, sent).is_successful()
    # A deposit has a payee; the client's own example sends a payer, which MTN does not document.
    deposited = disbursement.deposit(TransferRequest.make("20", PAYER, "deposit-1", "EUR"))
    assert told("deposit", "deposit-1").is_successful()
    assert ended(disbursement.get_deposit_status, deposited).is_successful()
    refunded = disbursement.refund(RefundRequest.make("40", paid, "refund-1", "EUR"))
    assert told("refund", "refund-1").is_successful()
    assert ended(disbursement.get_refund_status, refunded).is_successful()

    withdrawal = PaymentRequest.make("10", PAYER, "withdrawal-1", "EUR").to_dict()
    collection._submit("v1_0/requesttowithdraw", withdrawal)
    assert told("withdrawal", "withdrawal-1").is_successful()
    remittance = RemittanceApi(
        Config.disbursement(REMITTANCE_KEY, user, key, receiver.url()),
        collection.base_url,
        collection.environment,
    )
    remittance._submit(
        "v1_0/transfer", TransferRequest.make("5", PAYER, "remittance-1", "EUR").to_dict()
    )
    assert told("remittance", "remittance-1").is_successful()
    expected = {PAYER: "999985.00", "collection": "1000110.00", "disbursement": "999910.00"}
    assert balances().items() >= expected.items(), balances()


main()
