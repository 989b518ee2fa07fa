"""Decides by the clock: expiry, the end of a hosted page, and the times of polls (clauses S3,
W1)."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.inputs import TransactionWoke
from mmo_sansio.messages.intents import PollEnded, PollProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, fail_payment, ignore, transition_changes
from mmo_sansio.payments.evidence import (
    ask_on,
    is_settled_by,
    receipt_entry,
    settle,
    unproved_entries,
)
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.settlement import end_without_receipt
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Moment, Span, earlier, later
from mmo_sansio.values.error_codes import EXPIRED_WITH_RECEIPT, ErrorCode
from mmo_sansio.values.model import Order, Source, Stage, Transaction

# The time between a provider's acceptance and the first poll, unless the provider advises another.
POLL_INTERVAL_MIN = Span(2 * clock.SECOND)

# The interval between polls doubles up to this, so that each payment is polled in its last hour.
POLL_INTERVAL_MAX: Span = clock.HOUR

# The time of the last poll before the expiry of a payment, however long a provider's interval is.
FINAL_POLL_BEFORE_EXPIRY = Span(10 * clock.MINUTE)

# 2 s doubled eleven times is beyond POLL_INTERVAL_MAX.
_DOUBLINGS_MAX = 11


def poll_interval(polls: int) -> Span:
    """Return the interval after this many polls without a result."""
    return Span(min(POLL_INTERVAL_MIN << min(polls, _DOUBLINGS_MAX), POLL_INTERVAL_MAX))


def next_poll_at(order: Order, after: Span, *, now: Moment) -> Instant:
    """Return the time of the next poll: after this span, but with a last poll before the order
    expires."""
    # The last poll is ten minutes before the end: an answer still ends the payment in time.
    at, last = later(now.time, after), earlier(order.expires_at, FINAL_POLL_BEFORE_EXPIRY)
    if now.time < last < at:
        return last
    return min(at, order.expires_at)


def reads(input_: TransactionWoke) -> Reads:
    """Return the keys that `decide` will look at."""
    return Reads(transactions=frozenset((input_.gateway_reference,)))


def actor(_: TransactionWoke) -> str:
    """Return who acts, for the journal."""
    return "clock"


def detail(_: TransactionWoke) -> dict[str, object]:
    """Return what the journal holds of the input."""
    return {}


def decide(ledger: Ledger, input_: TransactionWoke, *, now: Moment) -> Decision:
    """Do what is due. Waking too early, or when nothing can change any more, does no harm."""
    # A wake may come twice, from two processes, or after a result: the first one moves `wake_at`.
    before = ledger.transaction(input_.gateway_reference)
    if before is None or before.progress.wake_at is None or now.time < before.progress.wake_at:
        return ignore("Nothing is due.", before)

    # 1. What is paid ends as paid, even past its expiry.
    if before.progress.receipt_awaited_since is not None:
        return end_without_receipt(before, input_, now=now)

    # 2. So does what a notification has reported and nobody has contradicted.
    known = before.progress.evidence
    if known is not None and is_settled_by(known, now=now):
        return settle(before, input_, known, now=now)

    # 3. The expiry comes before the page and the polls, as a gateway may wake long after all three.
    if now.time >= before.order.expires_at:
        return _expire(before, input_, now=now)

    # 4. The page has closed, and nothing was sent.
    if before.progress.stage.is_unsent:
        return fail_payment(before, input_, ErrorCode.USER_TIMEOUT, Source.EXPIRY, now=now)

    # 5. Asked about: a reported receipt by its own schedule, anything else in growing intervals.
    if known is not None:
        at = next_poll_at(before.order, POLL_INTERVAL_MAX, now=now)
        asked = ask_on(before, input_, known, at, now=now, polls=before.progress.polls + 1)
        return evolve(asked, intents=(PollProvider(before.reference),))

    after = advance(
        before,
        input_,
        before.progress.stage,
        polls=before.progress.polls + 1,
        wake_at=next_poll_at(before.order, poll_interval(before.progress.polls), now=now),
    )
    return Decision(
        Applied(after), transition_changes(before, after), (PollProvider(before.reference),)
    )


def _expire(before: Transaction, input_: TransactionWoke, *, now: Moment) -> Decision:
    """Fail the payment (S3). What was reported of a success and not confirmed goes to the suspense
    book (S5)."""
    code, known = ErrorCode.TRANSACTION_EXPIRED, before.progress.evidence
    message = None
    if known is not None:
        message = EXPIRED_WITH_RECEIPT

    expired = fail_payment(before, input_, code, Source.EXPIRY, now=now, message=message)
    entries = unproved_entries(before, now=now)
    if known is not None and not known.is_in_suspense:
        entries = (receipt_entry(before, known, now=now),)

    expired = evolve(expired, changes=(*expired.changes, *entries))
    # One more question where the money may have moved unseen: a poll is overdue, as no gateway ran
    # at its time; the provider never said that it has the payment; or it notifies of nothing.
    is_unknown = before.progress.stage is Stage.SUBMITTING
    if not (before.progress.is_told_when_asked or is_unknown or _lacks_poll(before)):
        return expired

    return evolve(expired, intents=(*expired.intents, PollEnded(before.reference, now.time)))


def _lacks_poll(before: Transaction) -> bool:
    progress = before.progress
    assert progress.wake_at is not None
    is_submitted = progress.stage in (Stage.SUBMITTING, Stage.AWAITING_RESULT)
    return is_submitted and (progress.polls == 0 or progress.wake_at < before.order.expires_at)
