"""Defines a decision (reply, changes and intents) and the functions with which rules make one."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from mmo_sansio.messages.changes import Change, IntentConcluded, TransactionAdvanced
from mmo_sansio.messages.intents import Intent, IntentKind
from mmo_sansio.messages.replies import Ignored, Rejected, Reply
from mmo_sansio.payments.brand_usage import released_usage
from mmo_sansio.payments.states import target_stages
from mmo_sansio.values.clock import Instant, Moment
from mmo_sansio.values.model import Stage, Transaction
from mmo_sansio.values.problems import Problem


@frozen
class Decision:
    """Holds reply, changes and intents of one input; they become visible together, changes first (law 4)."""

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

    Raises AssertionError when the table does not have the move: the state machine moves first, the other changes
    follow.
    """
    assert stage in target_stages(before.progress.stage, input_), f"{before.progress.stage} x {input_} -> {stage}"
    after = evolve(before.progress, stage=stage, version=before.progress.version + 1, **progress)
    assert (after.wake_at is None) == stage.is_terminal
    return Transaction(before.order, after)


def completion_time(before: Transaction, now: Moment) -> Instant:
    """Return the wall time at which a payment completes now: not before its creation, which another machine may have
    dated by a clock that was ahead."""
    return max(now.utc, before.order.created_at)


def transition_changes(before: Transaction, after: Transaction) -> tuple[Change, ...]:
    """Return the changes of a move. Leaving `CREATED` withdraws the intent to submit; an end takes back what the
    payment added to its brand's counters."""
    changes: tuple[Change, ...] = (TransactionAdvanced(before, after),)
    if before.progress.stage is Stage.CREATED:
        changes = (*changes, IntentConcluded((before.reference, IntentKind.SUBMIT)))
    if before.order.usage and after.progress.stage.is_terminal:
        changes = (*changes, *released_usage(after))
    return changes
