"""Decides which payments are stuck: those without a result for too long (clause S6)."""

from __future__ import annotations

from typing import Final

from mmo_sansio.values.clock import HOUR, Instant, elapsed
from mmo_sansio.values.model import Stage, Transaction

# How long after the beginning of its submission a payment without a result is stuck.
STUCK_AFTER: Final = HOUR


def is_stuck(transaction: Transaction, *, now: Instant) -> bool:
    """Tell whether the outcome of a payment has been unknown for too long (S6).

    Its submission began at least STUCK_AFTER ago, so that its provider may have moved the money,
    and there is no result. Lists, the metric and its alert all mean this. `now` is the gateway's
    own time."""
    if transaction.progress.stage not in (Stage.SUBMITTING, Stage.AWAITING_RESULT):
        return False
    return elapsed(unknown_since(transaction), now) >= STUCK_AFTER


def unknown_since(transaction: Transaction) -> Instant:
    """Return since when the outcome of a payment that may have been sent is unknown, by the
    gateway's own time."""
    return transaction.progress.submitted_at or transaction.order.accepted_at
