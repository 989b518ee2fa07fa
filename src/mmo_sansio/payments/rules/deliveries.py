"""The end of the one attempt to deliver a callback (clause K3) or a QR code (clause Q1)."""

from __future__ import annotations

from mmo_sansio.messages.changes import (
    BreakerKept,
    CallbackRecorded,
    Change,
    IntentConcluded,
    QrRecorded,
)
from mmo_sansio.messages.inputs import CallbackConcluded, QrConcluded
from mmo_sansio.messages.intents import DeliverCallback, IntentKind
from mmo_sansio.messages.replies import Noted
from mmo_sansio.payments.decision import Decision, ignored
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Instant


def conclude_callback(ledger: Ledger, given: CallbackConcluded, *, now: Instant) -> Decision:
    """Record the outcome, once; the transaction itself is unaffected.

    Of two who sent it, because the first lost its lease, the one that claimed it later records what became of it; the
    first may as long as nobody has claimed it since.
    """
    transaction = ledger.transaction(given.gateway_reference)
    key = (given.gateway_reference, IntentKind.CALLBACK)
    waiting = ledger.open_intent(key)
    if transaction is None or not isinstance(waiting, DeliverCallback):
        return ignored("No callback is waiting for its outcome.", transaction)
    if given.fence < waiting.fence:
        return ignored("Another process has claimed the callback since.", transaction)
    brand = transaction.order.brand
    recorded = CallbackRecorded(given.gateway_reference, brand, given.attempt, now)
    changes: tuple[Change, ...] = (recorded, IntentConcluded(key))
    if given.breaker is not None:
        changes = (*changes, BreakerKept(brand, given.fence, given.breaker))
    return Decision(Noted(transaction), changes)


def conclude_qr(ledger: Ledger, given: QrConcluded, *, now: Instant) -> Decision:
    """Record the outcome, once; the transaction itself is unaffected."""
    transaction = ledger.transaction(given.gateway_reference)
    key = (given.gateway_reference, IntentKind.QR)
    if transaction is None or ledger.open_intent(key) is None:
        return ignored("No QR code is waiting for its outcome.", transaction)
    recorded = QrRecorded(given.gateway_reference, transaction.order.brand, given.attempt, now)
    return Decision(Noted(transaction), (recorded, IntentConcluded(key)))
