"""The ledger: what another process is deciding about isn't looked at."""

from __future__ import annotations

import pytest

from mmo_sansio.messages.inputs import BeginSubmission, TransactionWoke
from mmo_sansio.messages.replies import Ignored
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


def test_a_wake_does_not_wait_for_a_locked_transaction() -> None:
    """It is found again as long as it is due."""
    transaction = a_transaction()
    about = TransactionWoke(transaction.reference)
    ledger = Ledger(prefetched=reads(about), locked=frozenset({transaction.reference}))
    decision = decide(ledger, about, now=transaction.order.expires_at)
    assert isinstance(decision.reply, Ignored)
    assert not decision.changes
