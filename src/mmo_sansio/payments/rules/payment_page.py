"""The payer confirms on the hosted page (W1)."""

from __future__ import annotations

from mmo_sansio.messages.inputs import ConfirmPage
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.messages.replies import Noted
from mmo_sansio.payments.decision import Decision, advanced, ignored, moved
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.states import is_legal
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Stage


def confirm_page(ledger: Ledger, given: ConfirmPage, *, now: Instant) -> Decision:
    """Submit the payment, once: a second press, a closed page or an ended payment changes nothing."""
    was = ledger.transaction(given.gateway_reference)
    if was is None or was.order.page is None:
        return ignored("There is no hosted page for this reference.")
    if not is_legal(was.progress.stage, given):
        return ignored("The payment was confirmed before or has ended.", was)
    if now >= was.order.page.closes_at:
        return ignored("The page has closed.", was)
    after = advanced(was, given, Stage.CREATED)
    return Decision(Noted(after), moved(was, after), (SubmitToProvider(was.reference),))
