"""Between sending and knowing: a request goes out once, and an unknown outcome is asked for (clause S6)."""

from __future__ import annotations

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    ProviderAccepted,
    ProviderNeverReceived,
    ProviderUnreachable,
)
from mmo_sansio.messages.intents import DeliverQr, Intent, SubmitToProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, ignore, transition_changes
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.rules.timers import SUBMISSION_TIMEOUT, next_poll_at, poll_interval
from mmo_sansio.payments.states import is_legal
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Order, ProviderData, Stage, Transaction


def begin(ledger: Ledger, input_: BeginSubmission, *, now: Instant) -> Decision:
    """Put on record that the request is about to leave. `Applied` lets the worker send it; `Ignored` forbids it."""
    was = ledger.transaction(input_.gateway_reference)
    if was is None or not is_legal(was.progress.stage, input_):
        return ignore("The payment was submitted before or has ended.", was)
    if was.progress.wake_at is not None and now >= was.progress.wake_at:
        return ignore("Its time is over.", was)
    after = advance(
        was,
        input_,
        Stage.SUBMITTING,
        wake_at=min(now + SUBMISSION_TIMEOUT, was.order.expires_at),
        polls=0,
        hint=None,
        submitted_at=now,
        provider_data=_initial_provider_data(was.order),
    )
    return Decision(Applied(after), transition_changes(was, after))


def accept(ledger: Ledger, input_: ProviderAccepted, *, now: Instant) -> Decision:
    """The provider has it: wait for the result, and ask for it when it doesn't come."""
    was = _find_pending(ledger, input_)
    if was is None:
        return ignore("No such payment waits for this provider.")
    known = input_.provider_reference or was.progress.provider_reference
    if was.progress.stage is Stage.AWAITING_RESULT and input_.poll_after is None:
        if known == was.progress.provider_reference:
            return ignore("Still pending.", was)
        after = advance(was, input_, Stage.AWAITING_RESULT, provider_reference=known)
    else:
        after = advance(
            was,
            input_,
            Stage.AWAITING_RESULT,
            provider_reference=known,
            wake_at=next_poll_at(was.order, input_.poll_after or poll_interval(0), now=now),
            qr=was.progress.qr or input_.qr,
        )
    return Decision(Applied(after), transition_changes(was, after), _qr_intents(was))


def _qr_intents(before: Transaction) -> tuple[Intent, ...]:
    """A QR pay-in's code goes to the merchant once, when the provider first has the payment (Q1): also when no code
    was given, so that this is on record."""
    is_first = before.progress.stage is not Stage.AWAITING_RESULT
    wanted = is_first and before.order.display_qr_url is not None
    return (DeliverQr(before.reference),) if wanted else ()


def record_unreachable(ledger: Ledger, input_: ProviderUnreachable, *, now: Instant) -> Decision:
    """No usable answer: whatever was sent may have been received, so the next step is to ask, soon."""
    was = _find_pending(ledger, input_)
    if was is None or was.progress.wake_at is None:
        return ignore("No such payment waits for this provider.")
    if input_.poll_after is None:
        at = min(now + poll_interval(was.progress.polls), was.progress.wake_at)
    else:
        at = next_poll_at(was.order, input_.poll_after, now=now)
    after = advance(was, input_, was.progress.stage, wake_at=at)
    return Decision(Applied(after), transition_changes(was, after))


def resubmit(ledger: Ledger, input_: ProviderNeverReceived, *, now: Instant) -> Decision:
    """The provider is certain that nothing reached it: the one way back to a submission.

    Only the answer to the latest question counts: an older one may have been answered before the submission that
    is on record now.
    """
    was = _find_pending(ledger, input_)
    if was is None:
        return ignore("No such payment waits for this provider.")
    if not _is_about_latest_submission(was, input_):
        return ignore("The payment has moved since the provider was asked.", was)
    after = advance(was, input_, Stage.CREATED, wake_at=was.order.expires_at)
    return Decision(
        Applied(after), transition_changes(was, after), (SubmitToProvider(was.reference),)
    )


def _is_about_latest_submission(before: Transaction, input_: ProviderNeverReceived) -> bool:
    if input_.submitted_at is not None:
        return input_.submitted_at == before.progress.submitted_at
    return input_.version == before.progress.version


def _find_pending(
    ledger: Ledger, input_: ProviderAccepted | ProviderUnreachable | ProviderNeverReceived
) -> Transaction | None:
    """The transaction that this report may move, if there is one."""
    was = ledger.transaction(input_.gateway_reference)
    if was is None or was.order.provider != input_.provider:
        return None
    if was.progress.provider_data is None:
        return None  # Nothing of ours was sent to this provider.
    return was if is_legal(was.progress.stage, input_) else None


def _initial_provider_data(order: Order) -> ProviderData:
    return ProviderData(order.provider, order.provider_title)
