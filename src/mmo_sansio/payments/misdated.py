"""Decides the correction of what a wrong clock has dated: which payments those are, and what their
times have to be (clause S3)."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.changes import TransactionAdvanced
from mmo_sansio.messages.inputs import CorrectTimes
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import MINUTE, Instant, Moment, Span, earlier, elapsed
from mmo_sansio.values.model import Order, Progress, Transaction

MISDATED_FROM: Span = MINUTE
"""How far in the future a time must lie: more than the clocks of synchronised machines differ."""


def is_misdated(transaction: Transaction, *, now: Moment) -> bool:
    """Tell whether a payment was created in the future: by a wall clock that was ahead, or by a
    time of the gateway's own that began with such a clock."""
    order = transaction.order
    return (
        elapsed(now.utc, order.created_at) > MISDATED_FROM
        or elapsed(now.time, order.accepted_at) > MISDATED_FROM
    )


def _corrected(transaction: Transaction, *, now: Moment) -> Transaction:
    """Return the payment with the times that it would have, had the wall clock been right.

    The gateway's own time was right all along, so wall time follows from it. Where even that lies
    in the future, it began with a wrong clock, and nothing tells when the payment was taken: now is
    the earliest moment that ends it too early for nobody."""
    order, progress = transaction.order, transaction.progress
    excess = Span(max(0, elapsed(now.time, order.accepted_at)))
    utc_offset = elapsed(now.time, now.utc)
    error = Span(order.utc_offset - utc_offset + excess)
    return Transaction(
        _corrected_order(order, excess=excess, error=error, utc_offset=utc_offset),
        _corrected_progress(progress, excess=excess, error=error, now=now),
    )


def _corrected_order(order: Order, *, excess: Span, error: Span, utc_offset: Span) -> Order:
    return evolve(
        order,
        created_at=earlier(order.created_at, error),
        utc_offset=utc_offset,
        expires_at=earlier(order.expires_at, excess),
        page=order.page and evolve(order.page, closes_at=earlier(order.page.closes_at, excess)),
    )


def _corrected_progress(progress: Progress, *, excess: Span, error: Span, now: Moment) -> Progress:
    def own(moment: Instant | None) -> Instant | None:
        return None if moment is None else earlier(moment, excess)

    completed, evidence = progress.completed_at, progress.evidence
    return evolve(
        progress,
        version=progress.version + 1,
        wake_at=own(progress.wake_at),
        submitted_at=own(progress.submitted_at),
        answered=tuple(earlier(each, excess) for each in progress.answered),
        not_found_since=own(progress.not_found_since),
        evidence=evidence and evolve(evidence, reported_at=earlier(evidence.reported_at, excess)),
        completed_at=None if completed is None else min(earlier(completed, error), now.utc),
    )


def correct_times(ledger: Ledger, input_: CorrectTimes, *, now: Moment) -> Decision:
    """Correct the times of a payment that was created in the future. Its stage, and whatever was
    decided, stay."""
    before = ledger.transaction(input_.gateway_reference)
    if before is None:
        return ignore("There is no such transaction.")
    if not is_misdated(before, now=now):
        return ignore("Its times are right.", before)
    after = _corrected(before, now=now)
    return Decision(Applied(after), (TransactionAdvanced(before, after),))
