"""Decides what a payer has to do elsewhere, by what the provider says: give a code before the
payment is sent, or open a page of the operator, which has it (clauses S6, W1)."""

from __future__ import annotations

from typing import assert_never

from attrs import evolve

from mmo_sansio.messages.inputs import ProviderAccepted, ProviderNeverReceived
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, fail_payment, transition_changes
from mmo_sansio.values.clock import Instant, Moment
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Stage, Transaction
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl, PayerAction


def ask_payer(
    before: Transaction,
    input_: ProviderNeverReceived,
    asked: EnterCode,
    *,
    unsent: int,
    now: Moment,
) -> Decision:
    """Let a payment that was never sent wait for its payer's code. Without a page nobody can give
    it: the method does not suit the operator."""
    # Only the page of a web payment can ask for a code.
    page = before.order.page
    if page is None:
        code = ErrorCode.MERCHANT_MISCONFIGURED
        return fail_payment(before, input_, code, Source.POLL, now=now)

    after = advance(
        before,
        input_,
        Stage.AWAITING_CUSTOMER,
        # It ends with its page, or earlier where the code is of no use later.
        wake_at=min(page.closes_at, asked.ends_at or page.closes_at),
        unsent=unsent,
        payer_action=asked,
    )
    return Decision(Applied(after), transition_changes(before, after))


def action_after(before: Transaction, input_: ProviderAccepted) -> PayerAction | None:
    """Return what the payer has to do once the provider has said this."""
    known, told = before.progress.payer_action, input_.payer_action
    # Without a page nobody could act, so the payment just waits.
    if before.order.page is None or (known is None and told is None):
        return None

    match known:
        case None:
            return told
        case OpenUrl():
            # The same page again: when its payer came back is remembered, which limits the
            # questions.
            if isinstance(told, OpenUrl) and told.url == known.url:
                return evolve(told, returned_at=known.returned_at)
            return told or known
        case EnterCode():
            # The code went with the submission.
            if before.progress.stage is not Stage.AWAITING_RESULT:
                return told
            # The provider was asked before the payer gave the code: "I need a code" is no news.
            is_older = input_.version is not None and input_.version < known.given_version
            if is_older:
                return known
            return told or known
        case _:
            assert_never(known)


def asked_by_end(action: PayerAction | None, at: Instant, *, now: Moment) -> Instant:
    """Return the time of the next question, at the latest `at`: the operator has a result when the
    payer's time is over."""
    if action is None or isinstance(action, EnterCode) or action.ends_at is None:
        return at
    # Only a time that is still to come moves the question.
    if action.ends_at > now.time:
        return min(at, action.ends_at)
    return at
