"""Reads the answers about refunds, by which Wave gives the money of a checkout back, all of it.

A session has one refund, however often it is asked for, and the refund has no id. Wave's list of
transactions tells whether it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any, Final

from mmo_provider_wave.codes import ACCOUNT_REFUSALS
from mmo_provider_wave.wire import parse_refusal
from mmo_sansio import HOUR, MINUTE, SECOND, Moment
from mmo_sansio.providers import (
    WEB_PAYIN,
    HttpResponse,
    OperationKey,
    Reversal,
    ReversalOperation,
    ReversalReport,
    ReversalReports,
    Span,
    earlier,
    elapsed,
    to_datetime,
)

# Assumed: how soon the list of transactions has a refund is not published.
_OPERATION: Final = ReversalOperation(
    is_idempotent=True,
    can_be_polled=True,
    not_found_is_final_after=Span(15 * MINUTE),
    poll_intervals=(*(Span(seconds * SECOND) for seconds in (30, 60, 300, 900)), HOUR),
)
OPERATIONS: Final[Mapping[OperationKey, ReversalOperation]] = MappingProxyType(
    {WEB_PAYIN: _OPERATION}
)

# How many pages of one day's transactions are read.
PAGES_MAX: Final = 20


def submission_report(about: ReversalReports, response: HttpResponse) -> ReversalReport:
    """Return the report from the answer to a request for a refund: 200, and no body. A page with a
    status of 200, as of a proxy, says nothing."""
    refusal = parse_refusal(response.body)
    # A refusal has to be Wave's own, with a code: anything else leaves it open.
    match response.status:
        case 200 if not response.body.strip():
            return about.succeeded()
        case 429:
            return about.never_received()
        case 401 | 403 if refusal is not None and refusal.code in ACCOUNT_REFUSALS:
            return about.never_received()
        case 400 | 404 | 409 | 422 if refusal is not None:
            words = refusal.message or "Wave refuses the refund."
            lacks_float = refusal.code == "insufficient-funds"
            return about.failed(words, refusal.code, lacks_float=lacks_float)
        case status:
            return about.unreachable(f"Wave answered {status} to a refund.")


def days_of(reversal: Reversal, *, now: Moment) -> Iterable[date]:
    """Return the days, in UTC, on which the refund may stand: of its request, and the next one."""
    since = elapsed(reversal.sent_at or now.time, now.time)
    # By wall time, as Wave's days are; the span to it is measured by the gateway's own time.
    today = to_datetime(now.utc).date()
    sent_on = to_datetime(earlier(now.utc, since)).date()
    return [day for day in (sent_on, sent_on + timedelta(days=1)) if day <= today]


def is_refund_of(receipt: str, transaction: Mapping[str, Any]) -> bool:
    """Tell whether a transaction of Wave's list gives the money of this one back."""
    return transaction.get("transaction_id") == receipt and transaction.get("is_reversal") is True


def not_found(about: ReversalReports, *, now: Moment) -> ReversalReport:
    """Return the report where Wave lists no refund. It is asked for again then, which makes no
    second one; where it may not be, only a person can tell."""
    reversal = about.reversal
    # Restored from a backup, or refused, it may have been made without a trace here.
    may_repeat = not (reversal.is_restored or reversal.native_code or reversal.state.has_ended)
    is_final = reversal.sent_at is not None and _OPERATION.is_not_found_final(
        reversal.sent_at, now=now.time
    )
    if may_repeat and is_final:
        return about.never_received()
    return about.unreachable("Wave lists no refund of it.")
