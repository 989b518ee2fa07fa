"""What a callback consists of (K1)."""

from __future__ import annotations

import pytest

from mmo_sansio.api.outgoing.callback import callback_request
from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.testing import a_transaction
from mmo_sansio.values.model import Stage


@pytest.mark.spec("K1", "T4")
def test_a_callback_posts_the_transaction_to_the_result_url_with_the_merchant_s_key() -> None:
    url = "https://merchant.example/callbacks?of=acme"
    transaction = a_transaction(Stage.SUCCEEDED, result_url=url)
    assert callback_request(transaction, b"key-of-acme") == HttpRequest(
        "POST",
        url.encode(),
        ((b"content-type", b"application/json"), (b"x-api-key", b"key-of-acme")),
        transaction_object(transaction),
    )


@pytest.mark.spec("K1")
def test_a_pending_transaction_is_never_called_back() -> None:
    pending = a_transaction(Stage.AWAITING_RESULT)
    with pytest.raises(AssertionError, match="pending"):
        callback_request(pending, b"key-of-acme")
