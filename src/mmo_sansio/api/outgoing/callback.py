"""What a callback is: the request that tells a merchant how a payment ended (K1)."""

from __future__ import annotations

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.model import Transaction


def callback_request(transaction: Transaction, key: bytes) -> HttpRequest:
    """The request that tells the merchant how this transaction ended (K1), authenticated with one
    of its own API keys (A4).

    The transaction is terminal and has a result URL: nothing else is ever to be called back.
    """
    url = transaction.order.result_url
    assert transaction.progress.stage.is_terminal, "a pending transaction is never called back"
    assert url is not None, "a transaction without a result URL is never called back"
    headers = ((b"content-type", b"application/json"), (b"x-api-key", key))
    return HttpRequest("POST", url.encode(), headers, transaction_object(transaction))
