"""Lets an answer count once that came, unsigned, to an address of its own question (clause S5).

Only the operator was given that address, and only until the answer came: from then on it may be read in an access log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import evolve

from mmo_sansio.messages.changes import TransactionAdvanced
from mmo_sansio.messages.inputs import Input, ProviderAnswer
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction

ANSWERED_MAX: Final = 8
"""How many of the latest answered questions a payment remembers; older ones count as answered."""


def answer_once(ledger: Ledger, input_: Input, decide: Callable[[], Decision]) -> Decision:
    """Return the decision about an answer, which is on record then; about a second one that nothing changes. About any
    other input it is that of `decide`."""
    if not isinstance(input_, ProviderAnswer) or input_.asked_at is None:
        return decide()
    before = ledger.transaction(input_.gateway_reference)
    if before is None:
        return decide()
    answered = before.progress.answered
    if input_.asked_at in answered or (len(answered) == ANSWERED_MAX and input_.asked_at < answered[0]):
        return ignore("This question was answered before, or later ones were.", before)
    return _on_record(decide(), before, tuple(sorted((*answered, input_.asked_at))[-ANSWERED_MAX:]))


def _on_record(decision: Decision, before: Transaction, answered: tuple[Instant, ...]) -> Decision:
    """Return the decision with the answered question in the payment's progress. One that has ended changes no more."""
    moves = [each for each in decision.changes if isinstance(each, TransactionAdvanced)]
    others = tuple(each for each in decision.changes if not isinstance(each, TransactionAdvanced))
    if moves:
        (move,) = moves
        after = Transaction(move.after.order, evolve(move.after.progress, answered=answered))
        return Decision(Applied(after), (TransactionAdvanced(before, after), *others), decision.intents)
    if before.progress.stage.is_terminal:
        return decision
    progress = evolve(before.progress, version=before.progress.version + 1, answered=answered)
    change = TransactionAdvanced(before, Transaction(before.order, progress))
    return evolve(decision, changes=(change, *others))
