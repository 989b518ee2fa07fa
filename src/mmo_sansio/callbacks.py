"""What a callback is, and how many of them one merchant may have under way (K1, K6)."""

from __future__ import annotations

from mmo_sansio.api.transaction_object import transaction_object
from mmo_sansio.http import HttpRequest
from mmo_sansio.model import Transaction

PLACES = 2048
"""Deliveries under way at one time, of all merchants together (K6)."""
PLACES_PER_MERCHANT = 16
"""Deliveries under way at one time of one merchant, while there is plenty of room (K6)."""


def build(transaction: Transaction, key: bytes) -> HttpRequest:
    """The request that tells the merchant how this transaction ended (K1), authenticated with one
    of its own API keys (A4).

    The transaction is terminal and has a result URL: nothing else is ever to be called back.
    """
    url = transaction.order.result_url
    assert transaction.progress.stage.is_terminal, "a pending transaction is never called back"
    assert url is not None, "a transaction without a result URL is never called back"
    headers = ((b"content-type", b"application/json"), (b"x-api-key", key))
    return HttpRequest("POST", url.encode(), headers, transaction_object(transaction))


def fair_share(free: int, *, places: int = PLACES, per_merchant: int = PLACES_PER_MERCHANT) -> int:
    """How many deliveries one merchant may have under way while `free` of all `places` are free.

    All `per_merchant` while nearly all are free, and fewer and fewer as they fill up: with the
    fourth power, so that with the usual figures the last half of the places goes only to merchants
    that have none under way. More than a thousand merchants whose receivers hang, with whatever
    backlogs and in whatever order they come, therefore leave a place to a newcomer; with a fixed
    share, 128 of them would have taken all. At least 1 while any place is free, and 0 when none is.
    """
    return -(-per_merchant * free**4 // places**4)
