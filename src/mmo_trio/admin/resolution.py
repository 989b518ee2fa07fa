"""Ending a payment by hand: refused when what is on record speaks against it."""

from __future__ import annotations

from mmo_sansio.payments.stuck import contradicting_entry
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.store import Store


async def find_contradicting_evidence(
    store: Store, transaction: Transaction, *, succeeded: bool
) -> str | None:
    """What its provider has told otherwise, in closed entries of the suspense book, too; None: nothing."""
    entries = await store.admin.suspense_of_payment(transaction.reference)
    told = [(each.reason, each.content) for each in entries]
    return contradicting_entry(succeeded, told, provider=transaction.order.provider_title)
