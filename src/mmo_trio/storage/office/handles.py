"""By what else than its two references a payment is looked for: pure.

Providers' words may be of any length; what is looked for is cut to what an index can hold.
"""

from __future__ import annotations

from mmo_sansio.model import Order, Progress, Type

HANDLE_MAX = 255


def msisdn_of(order: Order) -> str | None:
    """The customer's number without a leading plus; None for a tax payout, which has no customer (M5)."""
    return None if order.type is Type.TAX else order.party.msisdn.removeprefix("+")[:HANDLE_MAX]


def reconciliation_reference_of(order: Order) -> str | None:
    """What the merchant reconciles by, where it isn't the merchantReference (C7)."""
    named = order.reconciliation_reference
    return None if named == order.merchant_reference else named


def provider_reference_of(progress: Progress) -> str | None:
    """The provider's own reference, once it is known."""
    named = progress.provider_reference
    return None if named is None else named[:HANDLE_MAX]
