"""Defines which payments are stuck, and what in the suspense book contradicts the end of one."""

from __future__ import annotations

import json
from typing import Final

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.values.clock import HOUR, Instant, elapsed
from mmo_sansio.values.model import Stage, Transaction

STUCK_AFTER = HOUR
"""How long after the beginning of its submission a payment without a result is stuck."""

CONTRARY_REASONS: Final = (
    SuspenseReason.LATE_RESULT,
    SuspenseReason.CONFLICTING_RESULT,
    SuspenseReason.UNCONFIRMED_RECEIPT,
)
"""The reasons of the entries that can say of a payment which has ended that its merchant was told something wrong."""

_NOT_EVIDENCE = frozenset({SuspenseReason.WRONG_PROVIDER, SuspenseReason.UNREADABLE})


def is_stuck(transaction: Transaction, *, now: Instant) -> bool:
    """Tell whether the outcome of a payment has been unknown for too long (S6).

    Its submission began at least STUCK_AFTER ago, so that its provider may have moved the money, and there is no
    result. Lists, the metric and its alert all mean this. `now` is the gateway's own time.
    """
    if transaction.progress.stage not in (Stage.SUBMITTING, Stage.AWAITING_RESULT):
        return False
    began_at = transaction.progress.submitted_at or transaction.order.accepted_at
    return elapsed(began_at, now) >= STUCK_AFTER


def contradicts(succeeded: bool, reason: SuspenseReason, content: str) -> bool:
    """Tell whether an entry of the suspense book, by its reason and text, reports the opposite of this outcome. The
    confirmed deposit of one who named the payment is a success."""
    told = json.loads(content)
    is_paid = told.get("result") == "success" or (told.get("result"), told.get("confirmed")) == ("deposit", True)
    return reason not in _NOT_EVIDENCE and (told.get("result") == "failed" if succeeded else is_paid)
