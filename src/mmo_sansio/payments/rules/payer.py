"""Decides what follows from what a payer does: the button of the page (clause W1), a code, and the
return from a page of the operator, which proves nothing and causes a question (clauses W2, S6)."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from attrs import evolve

from mmo_sansio.messages.inputs import ConfirmPage, PayerReturned
from mmo_sansio.messages.intents import PollProvider, SubmitToProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, ignore, transition_changes
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MIN
from mmo_sansio.payments.states import is_legal
from mmo_sansio.values.clock import Moment, elapsed, later
from mmo_sansio.values.model import Stage, Transaction
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl, PayerAction

# The inputs that this module decides.
PayerInput: TypeAlias = ConfirmPage | PayerReturned


def reads(input_: PayerInput) -> Reads:
    """Return the keys that `decide` will look at."""
    return Reads(transactions=frozenset((input_.gateway_reference,)))


def decide(ledger: Ledger, input_: PayerInput, *, now: Moment) -> Decision:
    """Decide what follows from what the payer does."""
    match input_:
        case ConfirmPage():
            return confirm_page(ledger, input_, now=now)
        case PayerReturned():
            return record_return(ledger, input_, now=now)
        case _:
            assert_never(input_)


def actor(_: PayerInput) -> str:
    """Return who acts, for the journal."""
    return "payer"


def detail(_: PayerInput) -> dict[str, object]:
    """Return what the journal holds of the input: never the code, which whoever reads it could
    use."""
    return {}


def confirm_page(ledger: Ledger, input_: ConfirmPage, *, now: Moment) -> Decision:
    """Submit the payment, once: a second press, a closed page or an ended payment changes
    nothing. Where the page asks for a code, nothing but a code does; one that the provider has
    asked for is told to it at once."""
    # 1. A page, and a payment that can still be confirmed: a second press does nothing.
    before = ledger.transaction(input_.gateway_reference)
    if before is None or before.order.page is None:
        return ignore("There is no hosted page for this reference.")
    if not is_legal(before.progress.stage, input_):
        return ignore("The payment was confirmed before or has ended.", before)

    # 2. Once the provider has the payment, the page has a part only where a code is asked for.
    asked = before.progress.payer_action
    has_provider = before.progress.stage is Stage.AWAITING_RESULT
    if has_provider and not isinstance(asked, EnterCode):
        return ignore("The payment was confirmed before.", before)
    if not has_provider and now.time >= before.order.page.closes_at:
        return ignore("The page has closed.", before)

    # 3. A code counts once and in its time. The version tells whether an answer knows of it.
    if isinstance(asked, EnterCode):
        if input_.code is None or asked.code is not None:
            return ignore("It waits for a code, or has one.", before)
        if asked.ends_at is not None and now.time >= asked.ends_at:
            return ignore("The time for the code is over.", before)

        asked = evolve(asked, code=input_.code, given_version=before.progress.version + 1)

    # 4. The provider is asked with the code at once, or the payment is submitted.
    if has_provider:
        return _ask_soon(before, input_, asked, now=now)

    after = advance(before, input_, Stage.CREATED, payer_action=asked)
    return Decision(
        Applied(after), transition_changes(before, after), (SubmitToProvider(before.reference),)
    )


def record_return(ledger: Ledger, input_: PayerReturned, *, now: Moment) -> Decision:
    """Ask the provider, at most once in POLL_INTERVAL_MIN, however often somebody comes back."""
    before = ledger.transaction(input_.gateway_reference)
    if before is None or not is_legal(before.progress.stage, input_):
        return ignore("The payment waits for no result.", before)

    # Only who was sent to a page of the operator can come back from it.
    sent_to = before.progress.payer_action
    if not isinstance(sent_to, OpenUrl):
        return ignore("Its payer was sent nowhere.", before)

    # Anybody may open the address again and again: no flood of questions follows (W2).
    last = sent_to.returned_at
    if last is not None and elapsed(last, now.time) < POLL_INTERVAL_MIN:
        return ignore("The provider was asked because of a return just now.", before)

    return _ask_soon(before, input_, evolve(sent_to, returned_at=now.time), now=now)


def _ask_soon(
    before: Transaction,
    input_: ConfirmPage | PayerReturned,
    action: PayerAction | None,
    *,
    now: Moment,
) -> Decision:
    """Record what the payer has done, and ask at once unless the provider is about to be asked."""
    # No question brings the receipt, only a notification.
    if before.progress.receipt_awaited_since is not None:
        return ignore("It is paid, and waits for its receipt.", before)

    wake_at = before.progress.wake_at
    assert wake_at is not None
    soon = min(later(now.time, POLL_INTERVAL_MIN), before.order.expires_at)
    after = advance(
        before,
        input_,
        before.progress.stage,
        payer_action=action,
        wake_at=min(wake_at, soon),
    )
    changes = transition_changes(before, after)
    # The scheduler asks within the same time anyhow.
    if wake_at <= soon:
        return Decision(Applied(after), changes)

    return Decision(Applied(after), changes, (PollProvider(before.reference),))
