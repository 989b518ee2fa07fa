"""Defines which payments are stuck, and what in the suspense book contradicts the end of one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.values.clock import HOUR, Instant, elapsed
from mmo_sansio.values.model import Evidence, Stage, Transaction

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
    """Tell whether an entry of the suspense book, by its reason and text, reports the opposite of this outcome."""
    result = json.loads(content).get("result")
    return reason not in _NOT_EVIDENCE and result == ("failed" if succeeded else "success")


def contradicting_entry(
    succeeded: bool, entries: Iterable[tuple[SuspenseReason, str]], *, provider: str, known: Evidence | None = None
) -> str | None:
    """Return what contradicts this outcome of a payment; None when nothing does.

    `entries` are the reasons and texts of the payment's entries in the suspense book, `known` a reported receipt, which
    may not be there yet.
    """
    if known is not None and not succeeded:
        return f"{provider} has reported the receipt {known.receipt}."
    if any(contradicts(succeeded, reason, text) for reason, text in entries):
        result = "failed" if succeeded else "success"
        return f"{provider} has reported a result '{result}', which is in the suspense book."
    return None
