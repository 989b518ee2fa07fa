"""Finds payments by the beginning of a reference, by reading the newest ones: no index has beginnings."""

from __future__ import annotations

from mmo_sansio.messages.queries import Position
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin_types import PaymentFilter, PaymentPage
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.payment_search import PAYMENTS_SCANNED_MAX, position_of

READ_AT_ONCE = 250
"""Payments that are read from the store at once."""


async def search_by_beginning(
    admin: AdminStore,
    beginning: str,
    *,
    brand: str | None = None,
    status: Status | None = None,
    before: Position | None = None,
    limit: int = 50,
    scanned_max: int = PAYMENTS_SCANNED_MAX,
) -> PaymentPage:
    """Return payments of which any reference (the gateway's, the merchant's, for reconciliation, the provider's) begins
    with this text, newest first. One call reads `scanned_max` payments; the page's position is where a next call goes
    on, None when there are no older payments."""
    found: list[Transaction] = []
    at, scanned = before, 0
    while scanned < scanned_max:
        page = await admin.list_payments(PaymentFilter(brand=brand, before=at, limit=READ_AT_ONCE))
        for each in page.transactions:
            scanned, at = scanned + 1, position_of(each)
            if status in (None, each.status) and _begins(each, beginning):
                found.append(each)
                if len(found) == limit:
                    return PaymentPage(found, at)
        if page.next_position is None:
            return PaymentPage(found, None)
    return PaymentPage(found, at)


def _begins(transaction: Transaction, beginning: str) -> bool:
    order = transaction.order
    references = (order.merchant_reference, order.reconciliation_reference, transaction.progress.provider_reference)
    return transaction.reference.startswith(beginning.upper()) or any(
        each is not None and each.startswith(beginning) for each in references
    )
