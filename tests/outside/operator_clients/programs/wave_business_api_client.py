"""Drives the simulated Wave by wave-business-api: checkouts, pay-outs, refunds, the list of
transactions, and its verification of webhooks, both of which are signed."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from wave_business_api import WaveClient, WebhookVerifier
from wave_business_api.exceptions import (
    WaveAPIError,
    WaveAuthError,
    WaveIdempotencyError,
    WaveNotFoundError,
    WaveValidationError,
)

from support import ORIGIN, CallbackReceiver, control, plan, read

API_KEY = "wave_sn_prod_simulated-key"
SECRET = "wave_sn_WHS_simulated-secret"
PAYEE = "+221555110219"
PAYER = "+221761110000"


class StaysHere(urllib.request.HTTPRedirectHandler):
    """Does not follow the payer back to the shop, which there is none of."""

    def redirect_request(self, *args: Any) -> None:
        return None


def approve(session: dict[str, Any]) -> None:
    """Press the button of the page to which the payer is sent."""
    body = urllib.parse.urlencode({"mobile": PAYER}).encode()
    try:
        urllib.request.build_opener(StaysHere).open(session["wave_launch_url"], body)
    except urllib.error.HTTPError as answer:
        if answer.code != 303:
            raise


def refused(kind: type[WaveAPIError], act: Any, *arguments: Any, **options: Any) -> str:
    """The code with which the client says that Wave refuses this."""
    try:
        act(*arguments, **options)
    except kind as error:
        return str(error.error_code)
    raise AssertionError("it was not refused")


def main() -> None:
    receiver = CallbackReceiver()
    settings = {"account": "merchant", "webhook_url": receiver.url()}
    control("/_simulator/accounts", {"accounts": [settings]})
    client = WaveClient(API_KEY, base_url=ORIGIN)
    checkout, payout, balance = client.checkout, client.payout, client.balance
    verifier, other = WebhookVerifier(SECRET), WebhookVerifier("wave_sn_WHS_other")

    def webhook(kind: str) -> dict[str, Any]:
        headers, body = receiver.next_signed()
        text, signature = body.decode(), headers["Wave-Signature"]
        event = read(kind, text, lambda text: verifier.verify_and_parse(text, signature))
        try:
            other.verify_and_parse(text, signature)
        except WaveAPIError:
            return dict(event)
        raise AssertionError("another secret verifies it")

    def create(reference: str) -> dict[str, Any]:
        return dict(
            checkout.create_session(
                "1000",
                "XOF",
                "https://shop.example/success",
                "https://shop.example/error",
                client_reference=reference,
                restrict_payer_mobile=PAYER,
            )
        )

    opening = int(balance.get()["amount"])
    session = create("order-1")
    approve(session)
    paid = webhook("checkout")
    assert paid["type"] == "checkout.session.completed"
    assert paid["data"] == checkout.get_session(session["id"])
    assert paid["data"] == checkout.get_session_by_transaction(paid["data"]["transaction_id"])
    assert checkout.search_sessions("order-1") == [paid["data"]]
    assert refused(WaveIdempotencyError, checkout.expire_session, session["id"])
    checkout.refund_session(session["id"])
    balance.refund_transaction(paid["data"]["transaction_id"])
    assert int(balance.get()["amount"]) == opening

    plan("checkout", "insufficient-funds")
    session = create("order-2")
    failed = webhook("checkout whose attempt fails")
    assert failed["type"] == "checkout.session.payment_failed"
    assert failed["data"]["last_payment_error"]["code"] == "insufficient-funds"
    checkout.expire_session(session["id"])
    assert checkout.get_session(session["id"])["checkout_status"] == "expired"

    sent = payout.create("XOF", "500", PAYEE, idempotency_key="k", client_reference="p")
    assert sent["status"] == "succeeded"
    again = payout.create("XOF", "500", PAYEE, idempotency_key="k", client_reference="p")
    assert again == sent == payout.get(sent["id"])
    assert payout.search("p") == [sent]
    code = refused(WaveValidationError, payout.create, "XOF", "600", PAYEE, idempotency_key="k")
    assert code == "idempotency-mismatch"
    wallet = {"account": PAYEE, "balance": "500", "name": "Fatou Ndiaye"}
    control("/_simulator/accounts", {"accounts": [wallet]})
    for name, match in (("Fatou Ndiaye", "MATCH"), ("Awa Diop", "NO_MATCH")):
        assert payout.verify_recipient(PAYEE, name=name)["name_match"] == match
    payout.reverse(sent["id"])
    assert len(list(balance.get_all_transactions())) == 4
    assert int(balance.get()["amount"]) == opening

    assert refused(WaveValidationError, payout.create, "XOF", "1", "0555110219")
    assert refused(WaveNotFoundError, checkout.get_session, "cos-unknown")
    stranger = WaveClient("wave_sn_prod_other", base_url=ORIGIN)
    assert refused(WaveAuthError, stranger.balance.get) == "no-matching-api-key"


main()
