"""Says what a checkout session means for its payment.

A failed attempt ends nothing: the payer may try again until the session expires. Wave ends a
session after half an hour; where the payment expires earlier, the gateway ends the session first,
so that nobody pays what was told as expired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mmo_provider_wave.codes import find_failure
from mmo_provider_wave.wire import SUCCEEDED, Session, Unclear
from mmo_sansio import HOUR, MINUTE, SECOND, ErrorCode, Instant, Moment, Transaction, later
from mmo_sansio.providers import (
    OpenUrl,
    PaymentReports,
    ProviderOperation,
    ProviderReport,
    Span,
    Type,
    earlier,
    elapsed,
)

# How long before the payment's expiry its session is ended: several polls may still fail.
ENDS_BEFORE_EXPIRY: Final[Span] = Span(2 * MINUTE)

# For how long an attempt may go on that was being processed when its session ended (assumed).
SETTLES_WITHIN: Final[Span] = Span(15 * MINUTE)

# A session that is not found after a minute was lost on its way, or nobody can pay it: its address
# is told in that answer only. While it is open it is polled often enough to be ended in time.
OPERATION: Final = ProviderOperation(
    is_idempotent=False,
    can_be_polled=True,
    not_found_is_final_after=MINUTE,
    poll_intervals=(
        *(Span(5 * SECOND) for _ in range(6)),
        *(Span(10 * SECOND) for _ in range(9)),
        *(Span(30 * SECOND) for _ in range(70)),
        Span(5 * MINUTE),
        Span(15 * MINUTE),
        HOUR,
    ),
)


def choose(sessions: Sequence[Session]) -> tuple[Session | None, Sequence[Session]]:
    """Return the session of a payment among those that name it, and the others: one that is paid,
    else one that can be, else one that may have been, else the newest."""
    # The others may still be paid: the caller ends them.
    ranked = sorted(
        sessions,
        key=lambda session: (
            session.payment_status == SUCCEEDED,
            session.is_open,
            session.was_paid or session.payment_status != "cancelled",
            session.created_at or 0,
        ),
        reverse=True,
    )
    chosen = None
    if ranked:
        chosen = ranked[0]
    return chosen, ranked[1:]


def must_end(transaction: Transaction, *, now: Moment) -> bool:
    """Tell whether the payment has ended, or is about to expire, so that nobody may pay it."""
    left = elapsed(now.time, transaction.order.expires_at)
    return transaction.progress.stage.is_terminal or left <= ENDS_BEFORE_EXPIRY


def session_report(about: PaymentReports, session: Session, *, now: Moment) -> ProviderReport:
    """Return the report from a session. Raises Unclear for a status that is unknown."""
    receipt = session.transaction_id
    # From the surest pair on; docs.wave.com has the statuses, and not their pairs.
    match session.checkout_status, session.payment_status:
        case _, "succeeded":
            return about.succeeded(receipt, session.amount, lacks_receipt=receipt is None)
        case "open", _:
            page = _page(about.transaction, session, now=now)
            return about.accepted(session.id, payer_action=page)
        # A transaction without a success: paid, and given back.
        case "complete", "cancelled" if receipt is not None:
            raise Unclear("It was paid, and is cancelled.", is_paid=True, receipt=receipt)
        case "complete" | "expired", "cancelled":
            return _failed(about, session)
        # An attempt that was under way when the session ended may still succeed, for a while.
        case "expired", "processing" if _has_settled(session, now=now.utc):
            return _failed(about, session)
        case "complete" | "expired", "processing":
            return about.accepted(session.id)
        case _:
            raise Unclear("Its status is none that is known.")


def _page(transaction: Transaction, session: Session, *, now: Moment) -> OpenUrl | None:
    """Return where the payer approves; None where that is known: its end is told once, as our
    clock may be set meanwhile."""
    known = transaction.progress.payer_action
    if session.launch_url is None:
        return None
    if isinstance(known, OpenUrl) and known.url == session.launch_url:
        return None

    # The earlier end of two: of our payment, and of Wave's session.
    ends_at = earlier(transaction.order.expires_at, ENDS_BEFORE_EXPIRY)
    if session.expires_at is not None:
        ends_at = min(ends_at, later(now.time, elapsed(now.utc, session.expires_at)))

    return OpenUrl(session.launch_url, ends_at)


def _has_settled(session: Session, *, now: Instant) -> bool:
    ended_at = session.ended_at or session.expires_at
    return ended_at is not None and elapsed(ended_at, now) >= SETTLES_WITHIN


def _failed(about: PaymentReports, session: Session) -> ProviderReport:
    """Report the failure of the payer's last attempt; of a session without any, its end."""
    if session.error_code is not None:
        failure = find_failure(session.error_code)
        message = session.error_message or failure.reason
        return about.failed(failure.error_code(Type.PAYIN), session.error_code, message, session.id)

    # Nobody has tried, or nobody to the end.
    if session.checkout_status == "expired":
        return about.failed(ErrorCode.USER_TIMEOUT, session.checkout_status, None, session.id)
    return about.failed(ErrorCode.USER_CANCELLED, session.payment_status, None, session.id)
