"""The end of a callback's one attempt (clause K3)."""

from __future__ import annotations

from mmo_sansio.changes import CallbackRecorded, IntentConcluded
from mmo_sansio.clock import Instant
from mmo_sansio.decisions import Decision, ignored
from mmo_sansio.inputs import CallbackConcluded
from mmo_sansio.intents import IntentKind
from mmo_sansio.ledger import Ledger
from mmo_sansio.replies import Noted


def conclude_callback(ledger: Ledger, given: CallbackConcluded, *, now: Instant) -> Decision:
    """Record the outcome, once; the transaction itself is unaffected."""
    transaction = ledger.transaction(given.gateway_reference)
    key = (given.gateway_reference, IntentKind.CALLBACK)
    if transaction is None or not ledger.is_open(key):
        return ignored("No callback is waiting for its outcome.", transaction)
    recorded = CallbackRecorded(
        given.gateway_reference, transaction.order.brand, given.attempt, now
    )
    return Decision(Noted(transaction), (recorded, IntentConcluded(key)))
