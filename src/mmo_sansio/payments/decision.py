"""A decision: what the caller is told, what becomes true, what is to be done; and the words rules make one with."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from mmo_sansio.messages.changes import Change, IntentConcluded, TransactionAdvanced
from mmo_sansio.messages.intents import Intent, IntentKind
from mmo_sansio.messages.replies import Ignored, Refused, Reply
from mmo_sansio.payments.states import targets
from mmo_sansio.values.model import Stage, Transaction
from mmo_sansio.values.problems import Problem


@frozen
class Decision:
    """Reply, changes and intents of one input; they become visible together, changes first (law 4)."""

    reply: Reply
    changes: tuple[Change, ...] = ()
    intents: tuple[Intent, ...] = ()


def refused(problem: Problem) -> Decision:
    """Nothing becomes true; the caller gets the problem."""
    return Decision(Refused(problem))


def ignored(reason: str, transaction: Transaction | None = None) -> Decision:
    """Nothing becomes true, and that is no fault."""
    return Decision(Ignored(reason, transaction))


def advanced(was: Transaction, given: object, to: Stage, **progress: Any) -> Transaction:
    """The transaction after a legal move, with these members of its progress changed.

    Raises AssertionError when the table doesn't know the move: the machine moves first, the rest follows.
    """
    assert to in targets(was.progress.stage, given), f"{was.progress.stage} x {given} -> {to}"
    after = evolve(was.progress, stage=to, version=was.progress.version + 1, **progress)
    assert (after.wake_at is None) == to.is_terminal
    return Transaction(was.order, after)


def moved(was: Transaction, now: Transaction) -> tuple[Change, ...]:
    """The changes of a move. Leaving `CREATED` withdraws the wish to submit."""
    step = TransactionAdvanced(was, now)
    if was.progress.stage is Stage.CREATED:
        return (step, IntentConcluded((was.reference, IntentKind.SUBMIT)))
    return (step,)
