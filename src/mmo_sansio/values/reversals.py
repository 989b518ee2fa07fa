"""Defines a reversal: money of a payment that has succeeded, asked back by staff. The payment
itself never changes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import evolve, frozen

from mmo_sansio.values.clock import DAY, Instant, elapsed
from mmo_sansio.values.model import Source, Transaction, UsageShare
from mmo_sansio.values.money import Money


class ReversalState(StrEnum):
    """Says how far a reversal has come."""

    REQUESTED = "requested"
    """It waits for the approval of another member of staff."""
    APPROVED = "approved"
    """It is to be sent."""
    SENT = "sent"
    """It is on record as sent: the request may leave, or has arrived."""
    UNKNOWN = "unknown"
    """Its request has had no usable answer, or may have left before the store was restored: it is
    asked after."""
    SUCCEEDED = "succeeded"
    """The provider has moved the money back."""
    FAILED = "failed"
    """No money was and none will be moved back: the provider has refused it, or staff have."""
    MOVED_AFTER_ALL = "moved_after_all"
    """It had failed; the provider has reported since, or staff have shown, that the money was moved
    back."""

    @property
    def has_ended(self) -> bool:
        """Tell whether its outcome is known: only staff, or the provider's word against it, can
        change it."""
        return self is ReversalState.FAILED or self.has_moved

    @property
    def has_moved(self) -> bool:
        """Tell whether the money was moved back."""
        return self in (ReversalState.SUCCEEDED, ReversalState.MOVED_AFTER_ALL)

    @property
    def words(self) -> str:
        """Return it as people read it."""
        return self.value.replace("_", " ")


def reversal_id(payment: str, number: int) -> str:
    """Return the id of a payment's reversal with this number; what a provider knows it by is made
    from it."""
    return f"{payment}-{number}"


def reversed_payment(id: str) -> str:
    """Return the gatewayReference of the payment that a reversal with this id is about."""
    return id.rpartition("-")[0]


@frozen
class Reversal:
    """Holds a reversal as it is on record. Its id is its payment's gatewayReference and its
    number."""

    payment: str
    """The gatewayReference."""
    number: int
    """Counts the payment's reversals, from 1."""
    brand: str
    provider: str
    amount: Money
    """At most what the payment has moved, less its other reversals."""
    reason: str
    asked_by: str
    asked_at: Instant
    """In wall time, as are the other times for people."""
    state: ReversalState
    wake_at: Instant | None
    """When it is sent or asked after next, in the gateway's own time; None where nothing is done by
    itself."""
    version: int = 1
    """Counts the changes, from 1."""
    reported: Money | None = None
    """What the provider has moved after the payment had failed; None: the payment has succeeded."""
    receipt: str | None = None
    """The provider's receipt of that."""
    suspense_entry: int | None = None
    """The entry of the suspense book that says so, which is closed when all of it is back."""
    usage: tuple[UsageShare, ...] = ()
    """What it added to the counters of its limits."""
    approved_by: str | None = None
    approved_at: Instant | None = None
    due_since: Instant | None = None
    """Since when it is to be sent, in the gateway's own time; None: nobody has approved it."""
    attempt: str | None = None
    """The name of the attempt that recorded it as sent, so that its repetition is known."""
    sent_at: Instant | None = None
    """When it was last recorded as sent, in the gateway's own time."""
    sent_version: int = 0
    """Its version when it was last recorded as sent; 0: never."""
    submissions: int = 0
    unsent: int = 0
    """How many of these have certainly not arrived, by their own responses."""
    polls: int = 0
    """How often it was asked after since it was last sent, or since the latest hint after its
    end."""
    is_accepted: bool = False
    """Whether the provider has said that it has the request: it is never sent again."""
    is_restored: bool = False
    """Whether the store was restored from a backup before it had ended: it is never sent again."""
    provider_reference: str | None = None
    """The provider's own id of the reversal."""
    ended_at: Instant | None = None
    source: Source | None = None
    """What ended it; None where it was not sent, as others had taken its place."""
    ended_by: str | None = None
    """The member of staff who ended it by hand."""
    native_code: str | None = None
    """The provider's code for the refusal."""
    remark: str = ""
    """Why it has failed, or the outcome is unknown; or what shows how it ended by hand."""

    @property
    def id(self) -> str:
        return reversal_id(self.payment, self.number)

    @property
    def changed_at(self) -> Instant:
        """Return when it was asked for, or ended: what its merchant sees of it has not changed
        since, in wall time."""
        # A wrong clock may have dated the end before the beginning.
        return max(self.asked_at, self.ended_at or self.asked_at)

    def may_send(self, attempt: str) -> bool:
        """Tell whether this attempt has recorded it as sent, and may send it now."""
        # A restored store may have a sent reversal whose request left before the restore.
        is_own = self.attempt == attempt and not self.is_restored
        return is_own and self.is_unanswered

    @property
    def is_unanswered(self) -> bool:
        """Tell whether its latest request has no answer, and was not asked after: it may be under
        way."""
        return self.state is ReversalState.SENT and self.polls == 0 and not self.is_accepted

    @property
    def may_have_arrived(self) -> bool:
        """Tell whether it was ever sent, or may have been before its store was restored."""
        return self.submissions > 0 or self.is_restored

    @property
    def may_be_put_right(self) -> bool:
        """Tell whether staff may show that it ended otherwise: a failed one may have moved its
        money after all. That the provider itself has reported money as moved stands."""
        # What was never sent cannot have moved anything.
        if self.state is ReversalState.FAILED:
            return self.may_have_arrived
        return self.state.has_moved and self.source is Source.MANUAL

    def needs_person(self, now: Instant) -> bool:
        """Tell whether it was sent, and nothing can ask the provider any more what became of it, or
        no answer has told that for a day; or whether it could not be sent for a day. `now` is the
        gateway's own time."""
        # A provider that takes nothing for a day needs a look, though nothing is lost.
        if self.state is ReversalState.APPROVED:
            return elapsed(self.due_since or now, now) >= DAY
        if self.state not in (ReversalState.SENT, ReversalState.UNKNOWN):
            return False
        return self.wake_at is None or elapsed(self.sent_at or now, now) >= DAY

    @property
    def is_counted(self) -> bool:
        """Tell whether its money was moved back, or may be: it counts against the payment, and
        against the limit of its day."""
        return self.state is not ReversalState.FAILED

    @property
    def counted_minor(self) -> int:
        """Return what counts of its amount, in minor units."""
        if self.is_counted:
            return self.amount.minor
        return 0


def with_reported_money(reversal: Reversal, payment: Transaction) -> Transaction:
    """Return the payment as an adapter needs it: with the money that was reported after it had
    failed."""
    if reversal.reported is None:
        return payment
    # The operator knows that money by the receipt of its own, not by the failed payment's id.
    known_as = reversal.receipt or payment.progress.provider_reference
    return Transaction(
        payment.order,
        evolve(payment.progress, final=reversal.reported, provider_reference=known_as),
    )


def left_of(paid: Money, reversals: Iterable[Reversal], *, beside: int | None = None) -> Money:
    """Return what these have left of the money that was paid for the one with this number, beside
    the others; None: for a further one."""
    # Those that may still move count as if they had: more than was paid must never go back.
    others = (reversal for reversal in reversals if reversal.number != beside)
    return Money(paid.minor - reversed_minor(others), paid.currency)


def reversed_minor(reversals: Iterable[Reversal]) -> int:
    """Return the sum of what these have moved back or may move back, in minor units."""
    return sum(reversal.counted_minor for reversal in reversals)
