"""Describes what a provider offers for each operation: whether a submission may be repeated, and
how it is polled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from attrs import evolve, field, frozen
from attrs.validators import min_len

from mmo_sansio.messages.inputs import ProviderAccepted, ProviderReport, ProviderUnreachable
from mmo_sansio.messages.reversals import ReversalReport
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Span, later
from mmo_sansio.values.model import Flow, Order, Transaction, Type

OperationKey = tuple[Type, Flow]
"""Type and flow of the transactions that an operation carries."""

DIRECT_PAYIN: OperationKey = (Type.PAYIN, Flow.DIRECT)
WEB_PAYIN: OperationKey = (Type.PAYIN, Flow.WEB)
QR_PAYIN: OperationKey = (Type.PAYIN, Flow.QR)
PUSH: OperationKey = (Type.PAYIN, Flow.PUSH)
DIRECT_PAYOUT: OperationKey = (Type.PAYOUT, Flow.DIRECT)
DIRECT_TAXPAYOUT: OperationKey = (Type.TAX, Flow.DIRECT)


@frozen
class ProviderOperation:
    """Describes how one operation behaves with one provider; an adapter declares one for each that
    it offers."""

    is_idempotent: bool
    """Whether the provider recognises a repeated submission and moves no money twice (S6)."""
    can_be_polled: bool
    """Whether the provider can be polled about a submission."""
    # Right after a submission an operator may not find what it is about to book.
    not_found_is_final_after: Span | None
    """How long after the beginning of the submission "not found" means that it was never received;
    None: never."""
    poll_intervals: Sequence[Span] = field(validator=min_len(1))
    """How long to wait before each poll; the last repeats."""

    def poll_interval(self, polls: int) -> Span:
        """Return how long to wait after this many polls without a result."""
        return self.poll_intervals[min(polls, len(self.poll_intervals) - 1)]

    def is_not_found_final(self, submitted_at: Instant, *, now: Instant) -> bool:
        """Tell whether "not found" at this time means that nothing was received."""
        after = self.not_found_is_final_after
        return after is not None and now - submitted_at >= after


@frozen
class ReversalOperation(ProviderOperation):
    """Describes how the reversals of one operation's payments behave."""

    can_be_partial: bool = False
    """Whether the provider moves a part of a payment's money back."""


# How long a pay-in is submitted again that its provider has certainly not received: no payer waits
# longer.
PAYIN_RESUBMISSION_PERIOD = Span(5 * MINUTE)

# The same for money out: long enough for a "not found" that is final after an hour, while a
# merchant prefers a failure to a pay-out on another day.
PAYOUT_RESUBMISSION_PERIOD = Span(3 * HOUR)


def resubmission_ends_at(order: Order) -> Instant:
    """Return the time until which this order is submitted, repeatedly if need be; then it fails as
    `provider_unavailable`.

    The time of a web pay-in begins when its page closes, as it may be started on the page until
    then."""
    begins = order.accepted_at
    if order.page:
        begins = order.page.closes_at

    if order.type is Type.PAYIN:
        return later(begins, PAYIN_RESUBMISSION_PERIOD)
    return later(begins, PAYOUT_RESUBMISSION_PERIOD)


def operation_key(transaction: Transaction) -> OperationKey:
    """Return the operation that a transaction belongs to."""
    return transaction.order.type, transaction.order.flow


ReportT = TypeVar("ReportT", bound=ProviderReport | ReversalReport)


def with_version(report: ReportT, version: int) -> ReportT:
    """Return a conversation's report with the version of the payment or reversal that it was about,
    where it names none: what it answers is judged by that."""
    if report.version is not None:
        return report
    return evolve(report, version=version)


def with_poll_interval(
    report: ProviderReport,
    operations: Mapping[OperationKey, ProviderOperation],
    transaction: Transaction,
) -> ProviderReport:
    """Return the report with the provider's own poll interval, where it names no other.

    Only the reports of submissions and polls say when to poll next; notifications do not, nor does
    what is said of a payment that had ended when it was polled."""
    if not isinstance(report, ProviderAccepted | ProviderUnreachable):
        return report

    # It is over: nobody polls it, whatever this report says.
    if transaction.progress.stage.is_terminal:
        return evolve(report, poll_after=None)

    operation = operations.get(operation_key(transaction))
    if operation is None or report.poll_after is not None:
        return report

    return evolve(report, poll_after=operation.poll_interval(transaction.progress.polls))
