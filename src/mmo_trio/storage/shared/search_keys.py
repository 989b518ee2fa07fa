"""By what else than its two references a payment is looked for: pure.

Providers' words may be of any length and hold anything; what is looked for is cut to what every index can hold.
"""

from __future__ import annotations

import re

from mmo_sansio.values.model import Order, Progress, Type

SEARCH_KEY_LENGTH_MAX = 255
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def msisdn_key(order: Order) -> str | None:
    """The customer's number without a leading plus; None for a tax payout, which has no customer (M5)."""
    return None if order.type is Type.TAX else _to_storable(order.party.msisdn.removeprefix("+"))


def reconciliation_reference_key(order: Order) -> str | None:
    """What the merchant reconciles by, where it isn't the merchantReference (C7)."""
    named = order.reconciliation_reference
    return None if named is None or named == order.merchant_reference else _to_storable(named)


def provider_receipt_key(progress: Progress) -> str | None:
    """The provider's own reference, once it is known."""
    named = progress.provider_reference
    return None if named is None else _to_storable(named)


def _to_storable(text: str) -> str:
    return _UNSTORABLE.sub("", text)[:SEARCH_KEY_LENGTH_MAX]
