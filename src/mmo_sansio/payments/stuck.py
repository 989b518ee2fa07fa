"""Payments whose outcome has been unknown for too long, and what speaks against ending one by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.values.clock import HOUR, Instant, Span, earlier, later
from mmo_sansio.values.model import Stage, Transaction

STUCK_AFTER: Span = HOUR
"""How long after its submission began a payment without a result stands before a person."""

_NOT_EVIDENCE = frozenset({SuspenseReason.WRONG_PROVIDER, SuspenseReason.UNREADABLE})


def is_stuck(transaction: Transaction, *, now: Instant) -> bool:
    """Whether the provider may have been told to move the money for an hour, and nobody knows whether it did."""
    return has_unknown_outcome(transaction, later(earlier(now, STUCK_AFTER), Span(1)))


def has_unknown_outcome(transaction: Transaction, submitted_before: Instant) -> bool:
    """Whether a submission that began before this time is without a result."""
    if transaction.progress.stage not in (Stage.SUBMITTING, Stage.AWAITING_RESULT):
        return False
    return (transaction.progress.submitted_at or transaction.order.created_at) < submitted_before


def contradicting_entry(
    succeeded: bool, entries: Iterable[tuple[SuspenseReason, str]], *, provider: str
) -> str | None:
    """What in the suspense book says otherwise about a payment; None when nothing does.

    `told` are the reasons and texts of its entries.
    """
    wanted = "success" if succeeded else "failed"
    for reason, text in entries:
        result = json.loads(text).get("result")
        if reason not in _NOT_EVIDENCE and result in ("success", "failed") and result != wanted:
            return f"{provider} has told a result '{result}', which stands in the suspense book."
    return None
