"""Decides what the payer's confirmation on the hosted page does (W1)."""

from __future__ import annotations

from mmo_sansio.messages.inputs import ConfirmPage
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, ignore, transition_changes
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.states import is_legal
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.model import Stage


def confirm_page(ledger: Ledger, input_: ConfirmPage, *, now: Moment) -> Decision:
    """Submit the payment, once: a second press, a closed page or an ended payment changes nothing."""
    before = ledger.transaction(input_.gateway_reference)
    if before is None or before.order.page is None:
        return ignore("There is no hosted page for this reference.")
    if not is_legal(before.progress.stage, input_):
        return ignore("The payment was confirmed before or has ended.", before)
    if now.time >= before.order.page.closes_at:
        return ignore("The page has closed.", before)
    after = advance(before, input_, Stage.CREATED)
    return Decision(Applied(after), transition_changes(before, after), (SubmitToProvider(before.reference),))
