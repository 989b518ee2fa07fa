"""Ending a payment by hand: refused when what is on record speaks against it."""

from __future__ import annotations

from mmo_sansio.payments.stuck import contradiction
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.store import Store


async def evidence_against(store: Store, about: Transaction, *, succeeded: bool) -> str | None:
    """What its provider has told otherwise, in closed entries of the suspense book, too; None: nothing."""
    entries = await store.office.suspense_about(about.reference)
    told = [(each.reason, each.told) for each in entries]
    return contradiction(succeeded, told, provider=about.order.provider_title)
