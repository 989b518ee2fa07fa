"""Finds payments by a reference as people write it; and by its beginning or end, by reading the
newest payments, as no index has these."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.messages.queries import Position
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin_types import PaymentFilter, PaymentPage
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.payment_search import PAYMENTS_SCANNED_MAX, position_of

# Payments that are read from the store at once: some milliseconds of its time.
READ_AT_ONCE = 250


# Letters and digits that make the end of a reference; fewer are at the end of too many.
SHORTEST_END = 4


async def search_by_reference(
    admin: AdminStore,
    text: str,
    *,
    msisdns: Sequence[str] = (),
    before: Position | None = None,
    limit: int = 50,
) -> PaymentPage:
    """Return what `search_payments` finds by a reference; where that is nothing, by another
    spelling of it."""
    page = await admin.search_payments(text, msisdns=msisdns, before=before, limit=limit)
    # As it was written first: nothing else is asked for where that is found.
    for spelling in spellings(text):
        if page.transactions:
            break
        page = await admin.search_payments(spelling, before=before, limit=limit)

    return page


def spellings(text: str) -> Sequence[str]:
    """Return a reference as it may be written instead: without a number sign, with hyphens for
    spaces, in other capitals. Each is looked for by an index."""
    bare = text.strip().removeprefix("#").strip()
    # "# ABC 12" on a till's slip may be ABC-12 in the merchant's books.
    written = (bare, "-".join(bare.split()))
    notations = dict.fromkeys(
        cased
        for notation in written
        for cased in (notation, notation.lower(), notation.upper(), notation.capitalize())
        if cased
    )
    return [notation for notation in notations if notation != text]


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
    """Return payments of which any reference (the gateway's, the merchant's, for reconciliation,
    the provider's) begins or ends with the letters and digits of this text, newest first. One call
    reads `scanned_max` payments; the page's position is where a next call goes on, None when there
    are no older payments."""
    transactions: list[Transaction] = []
    found_at = before
    scanned = 0
    sought = _letters_and_digits(beginning)

    # Signs alone are the beginning of everything.
    if not sought:
        return PaymentPage((), None)

    while scanned < scanned_max:
        selection = PaymentFilter(brand=brand, before=found_at, limit=READ_AT_ONCE)
        page = await admin.list_payments(selection)
        for transaction in page.transactions:
            # The position moves with each payment: the next call begins behind the last one read.
            scanned += 1
            found_at = position_of(transaction)
            if status in (None, transaction.status) and _has_part(transaction, sought):
                transactions.append(transaction)
                if len(transactions) == limit:
                    return PaymentPage(transactions, found_at)

        if page.next_position is None:
            return PaymentPage(transactions, None)

    return PaymentPage(transactions, found_at)


def _has_part(transaction: Transaction, sought: str) -> bool:
    order = transaction.order
    references = (
        transaction.reference,
        order.merchant_reference,
        order.reconciliation_reference,
        transaction.progress.provider_reference,
    )
    written = [_letters_and_digits(reference) for reference in references if reference is not None]
    return any(
        notation.startswith(sought) or (len(sought) >= SHORTEST_END and notation.endswith(sought))
        for notation in written
    )


def _letters_and_digits(text: str) -> str:
    """Return what remains of a reference however it is written."""
    return "".join(filter(str.isalnum, text.casefold()))
