"""What a provider offers for each operation: whether a submission may be repeated, and how it is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen
from attrs.validators import min_len

from mmo_sansio.messages.inputs import ProviderAccepted, ProviderReport, ProviderUnreachable
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
    """How one operation behaves with one provider; an adapter declares one for each that it offers."""

    is_idempotent: bool
    """Whether a repeated submission is recognised by the provider and moves no money twice (S6)."""
    can_be_polled: bool
    """Whether the provider tells, when asked, what became of a submission."""
    not_found_is_final_after: Span | None
    """From when on, counted from the beginning of the submission, "not found" means that it was never received;
    None: never."""
    poll_intervals: Sequence[Span] = field(validator=min_len(1))
    """How long to wait before each question; the last repeats."""

    def poll_interval(self, polls: int) -> Span:
        """How long to wait after this many questions without a result."""
        return self.poll_intervals[min(polls, len(self.poll_intervals) - 1)]

    def is_not_found_final(self, submitted_at: Instant, *, now: Instant) -> bool:
        """Whether "not found" at this time says that nothing was received."""
        after = self.not_found_is_final_after
        return after is not None and now - submitted_at >= after


PAYIN_RESUBMISSION_PERIOD = Span(5 * MINUTE)
"""For how long a pay-in is submitted whose provider has certainly not taken it: no payer waits longer."""

PAYOUT_RESUBMISSION_PERIOD = Span(3 * HOUR)
"""The same for money out: long enough for a "not found" that is believed after an hour, and a merchant is better
served by an answer than by a pay-out some other day."""


def resubmission_ends_at(order: Order) -> Instant:
    """Until when this order is submitted, again and again if need be; then it fails as `provider_unavailable`.

    A web pay-in's time begins when its page closes, as it may be started on it until then.
    """
    begins = order.page.closes_at if order.page else order.created_at
    is_payin = order.type is Type.PAYIN
    return later(begins, PAYIN_RESUBMISSION_PERIOD if is_payin else PAYOUT_RESUBMISSION_PERIOD)


def operation_key(transaction: Transaction) -> OperationKey:
    """Which operation a transaction belongs to."""
    return transaction.order.type, transaction.order.flow


def with_poll_interval(
    report: ProviderReport,
    operations: Mapping[OperationKey, ProviderOperation],
    transaction: Transaction,
) -> ProviderReport:
    """The report with the provider's own pace of questions, where it names no other.

    What a submission or a question came to says when to ask next; what a provider notifies doesn't.
    """
    operation = operations.get(operation_key(transaction))
    if operation is None or not isinstance(report, ProviderAccepted | ProviderUnreachable):
        return report
    if report.poll_after is not None:
        return report
    return evolve(report, poll_after=operation.poll_interval(transaction.progress.polls))
