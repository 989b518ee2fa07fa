"""Decides the correction of what a wrong clock has dated (clause S3)."""

from __future__ import annotations

from mmo_sansio.messages.changes import TransactionAdvanced
from mmo_sansio.messages.inputs import CorrectTimes
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments import misdated
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Moment


def correct_times(ledger: Ledger, input_: CorrectTimes, *, now: Moment) -> Decision:
    """Correct the times of a payment that was created in the future. Its stage, and whatever was decided, stay."""
    before = ledger.transaction(input_.gateway_reference)
    if before is None:
        return ignore("There is no such transaction.")
    if not misdated.is_misdated(before, now=now):
        return ignore("Its times are right.", before)
    after = misdated.correct_times(before, now=now)
    return Decision(Applied(after), (TransactionAdvanced(before, after),))
