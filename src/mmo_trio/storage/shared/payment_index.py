"""Defines how staff find payments: the search keys, and pages of payments, newest first. It is pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.personal_data import MASKED_PARTY
from mmo_sansio.values.clock import LAST_INSTANT
from mmo_sansio.values.model import Order, Progress, Transaction, Type
from mmo_trio.storage.interface.admin_types import PaymentPage

SEARCH_KEY_LENGTH_MAX = 255
"""Providers' references may have any length; a key is cut to what every index can hold."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def msisdn_key(order: Order) -> str | None:
    """Return the customer's number without its plus sign; None for a tax payout (M5), and once it is masked."""
    if order.type is Type.TAX or order.party == MASKED_PARTY:
        return None
    return _to_storable(order.party.msisdn.removeprefix("+"))


def reconciliation_reference_key(order: Order) -> str | None:
    """Return the reconciliation reference, unless it is the merchantReference (C7)."""
    named = order.reconciliation_reference
    return None if named is None or named == order.merchant_reference else _to_storable(named)


def provider_receipt_key(progress: Progress) -> str | None:
    """Return the provider's own reference, once it is known."""
    named = progress.provider_reference
    return None if named is None else _to_storable(named)


def _to_storable(text: str) -> str:
    return _UNSTORABLE.sub("", text)[:SEARCH_KEY_LENGTH_MAX]


AFTER_NEWEST = Position(LAST_INSTANT, "~")
"""The position after the newest payment: every reference is in upper case."""


def newest_page(transactions: Iterable[Transaction], limit: int) -> PaymentPage:
    """Return the newest of these transactions, each once."""
    different = {each.reference: each for each in transactions}
    ordered = sorted(different.values(), key=position_of, reverse=True)
    page = ordered[:limit]
    return PaymentPage(page, position_of(page[-1]) if len(ordered) > limit else None)


def position_of(transaction: Transaction) -> Position:
    """Return the position of a transaction among all payments."""
    return Position(transaction.order.created_at, transaction.reference)
