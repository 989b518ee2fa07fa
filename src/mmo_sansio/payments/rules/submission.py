"""Between sending and knowing: a request goes out once, and an unknown outcome is asked for (clause S6)."""

from __future__ import annotations

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    ProviderAccepted,
    ProviderNeverReceived,
    ProviderUnreachable,
)
from mmo_sansio.messages.intents import DeliverQr, Intent, SubmitToProvider
from mmo_sansio.messages.replies import Noted
from mmo_sansio.payments.decision import Decision, advanced, ignored, moved
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.rules.timers import SUBMISSION_PATIENCE, ask_interval, asked_at
from mmo_sansio.payments.states import is_legal
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Order, ProviderData, Stage, Transaction


def begin(ledger: Ledger, given: BeginSubmission, *, now: Instant) -> Decision:
    """Put on record that the request is about to leave. `Noted` lets the worker send it; `Ignored` forbids it."""
    was = ledger.transaction(given.gateway_reference)
    if was is None or not is_legal(was.progress.stage, given):
        return ignored("The payment was submitted before or has ended.", was)
    if was.progress.wake_at is not None and now >= was.progress.wake_at:
        return ignored("Its time is over.", was)
    after = advanced(
        was,
        given,
        Stage.SUBMITTING,
        wake_at=min(now + SUBMISSION_PATIENCE, was.order.expires_at),
        polls=0,
        hint=None,
        submitted_at=now,
        provider_data=_first_words(was.order),
    )
    return Decision(Noted(after), moved(was, after))


def accept(ledger: Ledger, given: ProviderAccepted, *, now: Instant) -> Decision:
    """The provider has it: wait for the result, and ask for it when it doesn't come."""
    was = _addressed(ledger, given)
    if was is None:
        return ignored("No such payment waits for this provider.")
    known = given.provider_reference or was.progress.provider_reference
    if was.progress.stage is Stage.AWAITING_RESULT and given.ask_after is None:
        if known == was.progress.provider_reference:
            return ignored("Still pending.", was)
        after = advanced(was, given, Stage.AWAITING_RESULT, provider_reference=known)
    else:
        after = advanced(
            was,
            given,
            Stage.AWAITING_RESULT,
            provider_reference=known,
            wake_at=asked_at(was.order, given.ask_after or ask_interval(0), now=now),
            qr=was.progress.qr or given.qr,
        )
    return Decision(Noted(after), moved(was, after), _shown(was))


def _shown(was: Transaction) -> tuple[Intent, ...]:
    """A QR pay-in's code goes to the merchant once, when the provider first has the payment (Q1): also when no code
    was given, so that this is on record."""
    is_first = was.progress.stage is not Stage.AWAITING_RESULT
    wanted = is_first and was.order.display_qr_url is not None
    return (DeliverQr(was.reference),) if wanted else ()


def lose_touch(ledger: Ledger, given: ProviderUnreachable, *, now: Instant) -> Decision:
    """No usable answer: whatever was sent may have been received, so the next step is to ask, soon."""
    was = _addressed(ledger, given)
    if was is None or was.progress.wake_at is None:
        return ignored("No such payment waits for this provider.")
    if given.ask_after is None:
        at = min(now + ask_interval(was.progress.polls), was.progress.wake_at)
    else:
        at = asked_at(was.order, given.ask_after, now=now)
    after = advanced(was, given, was.progress.stage, wake_at=at)
    return Decision(Noted(after), moved(was, after))


def submit_again(ledger: Ledger, given: ProviderNeverReceived, *, now: Instant) -> Decision:
    """The provider is certain that nothing reached it: the one way back to a submission.

    Only the answer to the latest question counts: an older one may have been answered before the submission that
    is on record now.
    """
    was = _addressed(ledger, given)
    if was is None:
        return ignored("No such payment waits for this provider.")
    if not _is_about_latest(was, given):
        return ignored("The payment has moved since the provider was asked.", was)
    after = advanced(was, given, Stage.CREATED, wake_at=was.order.expires_at)
    return Decision(Noted(after), moved(was, after), (SubmitToProvider(was.reference),))


def _is_about_latest(was: Transaction, given: ProviderNeverReceived) -> bool:
    if given.submitted_at is not None:
        return given.submitted_at == was.progress.submitted_at
    return given.version == was.progress.version


def _addressed(
    ledger: Ledger, given: ProviderAccepted | ProviderUnreachable | ProviderNeverReceived
) -> Transaction | None:
    """The transaction that this report may move, if there is one."""
    was = ledger.transaction(given.gateway_reference)
    if was is None or was.order.provider != given.provider:
        return None
    if was.progress.provider_data is None:
        return None  # Nothing of ours was sent to this provider.
    return was if is_legal(was.progress.stage, given) else None


def _first_words(order: Order) -> ProviderData:
    return ProviderData(order.provider, order.provider_title)
