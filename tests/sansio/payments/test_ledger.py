"""The ledger: what another process is deciding about isn't looked at."""

from __future__ import annotations

import pytest

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.ledger import Ledger, TransactionLocked
from mmo_sansio.testing import a_transaction


def test_a_decision_about_a_locked_transaction_is_made_later() -> None:
    """Also where the transaction is there: another key has brought it, as it was."""
    transaction = a_transaction()
    about = BeginSubmission(transaction.reference)
    for known in ({}, {transaction.reference: transaction}):
        ledger = Ledger(prefetched=reads(about), transactions=dict(known), locked=frozenset({transaction.reference}))
        with pytest.raises(TransactionLocked):
            decide(ledger, about, now=transaction.order.created_at)
