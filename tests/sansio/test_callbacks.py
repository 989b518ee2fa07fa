"""What a callback consists of (K1)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from attrs import evolve

from mmo_sansio.api.transaction_object import transaction_object
from mmo_sansio.callbacks import build
from mmo_sansio.http import HttpRequest
from mmo_sansio.model import (
    Flow,
    Order,
    Party,
    Progress,
    Source,
    Stage,
    Transaction,
    Type,
)
from mmo_sansio.money import Money

TRANSACTION = Transaction(
    Order(
        gateway_reference="01JD0000000000000000000000",
        brand="acme",
        type=Type.PAYIN,
        flow=Flow.DIRECT,
        method="mpesa_ke",
        country="KE",
        provider="sandbox",
        provider_title="Sandbox",
        requested=Money(Decimal(100), "KES"),
        party=Party("customer", "+254700000000"),
        merchant_reference="order-1",
        reconciliation_reference="order-1",
        labels=None,
        result_url="https://merchant.example/callbacks?of=acme",
        created_at=0,
        expires_at=1,
    ),
    Progress(
        Stage.SUCCEEDED,
        version=2,
        wake_at=None,
        final=Money(Decimal(100), "KES"),
        completed_at=1,
        completion_source=Source.POLL,
    ),
)


@pytest.mark.spec("K1", "T4")
def test_a_callback_posts_the_transaction_to_the_result_url_with_the_merchant_s_key() -> None:
    assert build(TRANSACTION, b"key-of-acme") == HttpRequest(
        "POST",
        b"https://merchant.example/callbacks?of=acme",
        ((b"content-type", b"application/json"), (b"x-api-key", b"key-of-acme")),
        transaction_object(TRANSACTION),
    )


@pytest.mark.spec("K1")
def test_a_pending_transaction_is_never_called_back() -> None:
    pending = evolve(TRANSACTION, progress=Progress(Stage.AWAITING_RESULT, version=2, wake_at=1))
    with pytest.raises(AssertionError, match="pending"):
        build(pending, b"key-of-acme")
