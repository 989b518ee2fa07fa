"""Finds the payment that a person names by one of its references."""

from __future__ import annotations

import click

from mmo_sansio.values.model import Transaction
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.storage.sql.store import Store

brand_option = click.option("--brand", help="Only this brand's.")


async def find_transaction(store: Store, reference: str, brand: str | None) -> Transaction:
    """Return the transaction with this reference, the newest if a brand used it again (C12).

    Raises NegativeAnswer when there is none, UsageProblem when several brands have one.
    """
    transactions = await store.admin.find_transactions(reference=reference, brand=brand)
    # A gatewayReference is the same in any letter case (L1); a merchant's is not, so it comes
    # first.
    if not transactions and reference != reference.upper():
        transactions = await store.admin.find_transactions(reference=reference.upper(), brand=brand)

    if not transactions:
        of_brand = ""
        if brand:
            of_brand = f" of brand {brand}"
        raise NegativeAnswer(f"There is no transaction{of_brand} with the reference {reference}.")

    # Two merchants may have chosen the same reference: one's payment must not be taken for the
    # other's.
    brands = sorted({payment.order.brand for payment in transactions})
    if len(brands) > 1:
        raise UsageProblem(
            f"Several brands have a transaction {reference}: {', '.join(brands)}. Say which one "
            f"with --brand."
        )

    return transactions[0]
