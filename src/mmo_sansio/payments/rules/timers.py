"""The clock: expiry, the end of a hosted page, and when to ask a provider again (clauses S3, W1)."""

from __future__ import annotations

from mmo_sansio.messages.inputs import TransactionWoke
from mmo_sansio.messages.intents import AskProvider, DeliverCallback
from mmo_sansio.messages.replies import Noted
from mmo_sansio.payments.decision import Decision, advanced, ignored, moved
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Order, Source, Stage, Transaction

FIRST_ASK: Span = 2 * clock.SECOND
"""How long after a provider took a request it is asked for the result, unless it says otherwise."""

LONGEST_ASK: Span = clock.HOUR
"""The interval between questions doubles up to this, so that each payment is asked for in its last hour."""

SUBMISSION_PATIENCE: Span = 30 * clock.SECOND
"""How long a submission may be under way before the provider is asked what became of it; longer than any
conversation with a provider may take."""

LAST_ASK: Span = 10 * clock.MINUTE
"""How long before its expiry a payment is asked about for the last time, however slow a provider's pace is."""

_DOUBLINGS_MAX = 11
"""2 s doubled eleven times is beyond LONGEST_ASK."""


def ask_interval(polls: int) -> Span:
    """How long to wait after this many questions without a result."""
    return min(FIRST_ASK << min(polls, _DOUBLINGS_MAX), LONGEST_ASK)


def asked_at(order: Order, after: Span, *, now: Instant) -> Instant:
    """When to ask next: after this span, but not without a last question before the order expires."""
    at, last = now + after, order.expires_at - LAST_ASK
    return last if now < last < at else min(at, order.expires_at)


def wake(ledger: Ledger, given: TransactionWoke, *, now: Instant) -> Decision:
    """Do what is due. Waking too early, or when nothing can change any more, is harmless."""
    was = ledger.transaction(given.gateway_reference)
    if was is None or was.progress.wake_at is None or now < was.progress.wake_at:
        return ignored("Nothing is due.", was)
    if now >= was.order.expires_at:
        return _fail(was, given, ErrorCode.TRANSACTION_EXPIRED, now=now)
    if was.progress.stage in (Stage.CREATED, Stage.AWAITING_CUSTOMER):
        return _fail(was, given, ErrorCode.USER_TIMEOUT, now=now)
    after = advanced(
        was,
        given,
        was.progress.stage,
        polls=was.progress.polls + 1,
        wake_at=asked_at(was.order, ask_interval(was.progress.polls), now=now),
    )
    return Decision(Noted(after), moved(was, after), (AskProvider(was.reference),))


def _fail(was: Transaction, given: TransactionWoke, code: ErrorCode, *, now: Instant) -> Decision:
    after = advanced(
        was,
        given,
        Stage.FAILED,
        wake_at=None,
        completed_at=now,
        completion_source=Source.EXPIRY,
        error_code=code,
        error_message=EXPLANATIONS[code].meaning,
    )
    return Decision(Noted(after), moved(was, after), (DeliverCallback(was.reference),))
