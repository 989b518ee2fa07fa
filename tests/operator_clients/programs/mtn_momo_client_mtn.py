"""Drives the simulated MTN MoMo by mtn-momo-client: a user of its own, collections, pay-outs, deposits, refunds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from callback_receiver import ORIGIN, CallbackReceiver, balances
from momo_api import Config, MomoApi, PaymentRequest, RefundRequest, TransferRequest, generate_uuid

COLLECTION_KEY = "5c011ec7104e4d84a1f0c2e9106a2d34"
DISBURSEMENT_KEY = "d15b0250e3f74a6c9b1d7e2f4c8a0b36"
PAYER = "46733123999"


def ended(ask: Callable[[str], Any], id: str) -> Any:
    """The state of a submission once it is no longer pending."""
    while (found := ask(id)).is_pending():
        time.sleep(0.5)
    return found


def main() -> None:
    receiver = CallbackReceiver()
    MomoApi.get_base_url = classmethod(lambda cls, environment: ORIGIN)
    api = MomoApi.create(MomoApi.ENVIRONMENT_SANDBOX)
    sandbox = api.sandbox(COLLECTION_KEY)
    user = generate_uuid()
    sandbox.create_api_user(user, "127.0.0.1")
    key = sandbox.create_api_key(user)

    collection = api.get_collection(Config.collection(COLLECTION_KEY, user, key, receiver.url()))
    paid = collection.request_to_pay(PaymentRequest.make("100", PAYER, "order-1", "EUR"))
    told = receiver.next()
    assert (told["externalId"], told["status"]) == ("order-1", "SUCCESSFUL"), told
    assert ended(collection.get_payment_status, paid).is_successful()
    failed = collection.request_to_pay(PaymentRequest.make("100", "46733123451", "order-2", "EUR"))
    assert receiver.next()["status"] == "FAILED"
    assert ended(collection.get_payment_status, failed).is_failed()
    assert collection.get_balance().currency == "EUR"
    assert collection.check_account_holder(PAYER) is True
    assert collection.check_account_holder("46733123451") is False

    disbursement = api.get_disbursement(Config.disbursement(DISBURSEMENT_KEY, user, key))
    sent = disbursement.transfer(TransferRequest.make("30", PAYER, "payout-1", "EUR"))
    assert ended(disbursement.get_transfer_status, sent).is_successful()
    # A deposit has a payee; the client's own example sends a payer, which MTN does not document.
    deposited = disbursement.deposit(TransferRequest.make("20", PAYER, "deposit-1", "EUR"))
    assert ended(disbursement.get_deposit_status, deposited).is_successful()
    refunded = disbursement.refund(RefundRequest.make("40", paid, "refund-1", "EUR"))
    assert ended(disbursement.get_refund_status, refunded).is_successful()
    expected = {PAYER: "999990.00", "collection": "1000100.00", "disbursement": "999910.00"}
    assert balances().items() >= expected.items(), balances()


main()
