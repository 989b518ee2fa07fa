"""Defines a decision (reply, changes and intents) and the functions with which rules make one."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from mmo_sansio.messages.changes import Change, IntentConcluded, TransactionAdvanced
from mmo_sansio.messages.intents import DeliverCallback, Intent, IntentKind
from mmo_sansio.messages.replies import Applied, Ignored, Rejected, Reply
from mmo_sansio.payments.brand_usage import released_usage
from mmo_sansio.payments.states import target_stages
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Source, Stage, Transaction
from mmo_sansio.values.problems import Problem


@frozen
class Decision:
    """Holds reply, changes and intents of one input; they become visible together, changes first
    (law 4)."""

    reply: Reply
    changes: tuple[Change, ...] = ()
    intents: tuple[Intent, ...] = ()


def reject(problem: Problem) -> Decision:
    """Return a decision that changes nothing and answers with this problem."""
    return Decision(Rejected(problem))


def ignore(reason: str, transaction: Transaction | None = None) -> Decision:
    """Return a decision that changes nothing, without a fault."""
    return Decision(Ignored(reason, transaction))


def advance(before: Transaction, input_: object, stage: Stage, **progress: Any) -> Transaction:
    """Return the transaction after a legal move, with these fields of its progress changed.

    Raises AssertionError when the table does not have the move: the state machine moves first, the
    other changes follow."""
    # The table moves first: a rule that would leave a terminal stage must fail, and not pay twice
    # (S1).
    assert stage in target_stages(before.progress.stage, input_), (
        f"{before.progress.stage} x {input_} -> {stage}"
    )
    after = evolve(before.progress, stage=stage, version=before.progress.version + 1, **progress)
    # A pending payment without a wake would never expire (S3).
    assert (after.wake_at is None) == stage.is_terminal
    return Transaction(before.order, after)


def transition_changes(before: Transaction, after: Transaction) -> tuple[Change, ...]:
    """Return the changes of a move. Leaving `CREATED` withdraws the intent to submit; an end takes
    back what the payment added to its brand's counters."""
    changes: tuple[Change, ...] = (TransactionAdvanced(before, after),)
    # Else the next process to start would find the intent, and try to submit what has moved on.
    if before.progress.stage is Stage.CREATED:
        changes = (*changes, IntentConcluded((before.reference, IntentKind.SUBMIT)))
    # Most brands have no limits, so most payments have nothing to take back.
    if before.order.usage and after.progress.stage.is_terminal:
        changes = (*changes, *released_usage(after))
    return changes


def end(
    before: Transaction,
    input_: object,
    stage: Stage,
    source: Source,
    *,
    now: Moment,
    **progress: Any,
) -> Transaction:
    """Return the transaction after the move that ends it, with these fields of its progress
    changed."""
    # It completes at the wall time, and not before its creation, which another machine may have
    # dated by a clock that was ahead.
    at = max(now.utc, before.order.created_at)
    return advance(
        before,
        input_,
        stage,
        wake_at=None,
        completed_at=at,
        completion_source=source,
        # An address or a code must not stay where nobody needs it any more.
        payer_action=None,
        **progress,
    )


def complete(before: Transaction, after: Transaction, *others: Change) -> Decision:
    """Return the decision that ends a payment, with other changes, and calls the merchant back."""
    changes = (*transition_changes(before, after), *others)
    return Decision(Applied(after), changes, (DeliverCallback(before.reference),))


def fail_payment(
    before: Transaction,
    input_: object,
    code: ErrorCode,
    source: Source,
    *,
    now: Moment,
    message: str | None = None,
    **progress: Any,
) -> Decision:
    """Return the decision that fails a payment for this reason, with the meaning of the code unless
    there is another message."""
    # Merchants read the meaning; the provider's own words are in providerData (T3).
    told = message or EXPLANATIONS[code].meaning
    after = end(
        before,
        input_,
        Stage.FAILED,
        source,
        now=now,
        error_code=code,
        error_message=told,
        **progress,
    )
    return complete(before, after)
