"""The clock: expiry, the end of a hosted page, and when to ask a provider again (clauses S3, W1)."""

from __future__ import annotations

from mmo_sansio.messages.inputs import TransactionWoke
from mmo_sansio.messages.intents import DeliverCallback, PollProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, ignore, transition_changes
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Order, Source, Stage, Transaction

POLL_INTERVAL_MIN = Span(2 * clock.SECOND)
"""How long after a provider took a request it is asked for the result, unless it says otherwise."""

POLL_INTERVAL_MAX: Span = clock.HOUR
"""The interval between questions doubles up to this, so that each payment is asked for in its last hour."""

SUBMISSION_TIMEOUT = Span(30 * clock.SECOND)
"""How long a submission may be under way before the provider is asked what became of it; longer than any
conversation with a provider may take."""

FINAL_POLL_BEFORE_EXPIRY = Span(10 * clock.MINUTE)
"""How long before its expiry a payment is asked about for the last time, however slow a provider's pace is."""

_DOUBLINGS_MAX = 11
"""2 s doubled eleven times is beyond POLL_INTERVAL_MAX."""


def poll_interval(polls: int) -> Span:
    """How long to wait after this many questions without a result."""
    return Span(min(POLL_INTERVAL_MIN << min(polls, _DOUBLINGS_MAX), POLL_INTERVAL_MAX))


def next_poll_at(order: Order, after: Span, *, now: Instant) -> Instant:
    """When to ask next: after this span, but not without a last question before the order expires."""
    at, last = now + after, order.expires_at - FINAL_POLL_BEFORE_EXPIRY
    return Instant(last if now < last < at else min(at, order.expires_at))


def wake(ledger: Ledger, input_: TransactionWoke, *, now: Instant) -> Decision:
    """Do what is due. Waking too early, or when nothing can change any more, is harmless."""
    was = ledger.transaction(input_.gateway_reference)
    if was is None or was.progress.wake_at is None or now < was.progress.wake_at:
        return ignore("Nothing is due.", was)
    if now >= was.order.expires_at:
        return _fail(was, input_, ErrorCode.TRANSACTION_EXPIRED, now=now)
    if was.progress.stage in (Stage.CREATED, Stage.AWAITING_CUSTOMER):
        return _fail(was, input_, ErrorCode.USER_TIMEOUT, now=now)
    after = advance(
        was,
        input_,
        was.progress.stage,
        polls=was.progress.polls + 1,
        wake_at=next_poll_at(was.order, poll_interval(was.progress.polls), now=now),
    )
    return Decision(Applied(after), transition_changes(was, after), (PollProvider(was.reference),))


def _fail(
    before: Transaction, input_: TransactionWoke, code: ErrorCode, *, now: Instant
) -> Decision:
    after = advance(
        before,
        input_,
        Stage.FAILED,
        wake_at=None,
        completed_at=now,
        completion_source=Source.EXPIRY,
        error_code=code,
        error_message=EXPLANATIONS[code].meaning,
    )
    return Decision(
        Applied(after), transition_changes(before, after), (DeliverCallback(before.reference),)
    )
