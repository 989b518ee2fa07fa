"""Defines the inputs about reversals: what staff ask for, the time of the next step, and what
providers report. Each names a reversal by its id (:mod:`mmo_sansio.values.reversals`).

The `version` of a report is the reversal's when the request or the question was recorded that it
answers; None: it answers none, as a notification."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from mmo_sansio.values.clock import Span
from mmo_sansio.values.model import Source
from mmo_sansio.values.money import Money


@frozen
class RequestReversal:
    """Staff ask for money of a payment back."""

    payment: str
    """The gatewayReference."""
    brand: str
    amount: Money | None
    """None: all that the payment has moved."""
    reason: str
    user: str
    needs_approval: bool
    """Whether another member of staff has to approve it."""
    daily_max: Money | None = None
    """The user's limit of a day, in the payment's currency; None: there is none."""
    reported: Money | None = None
    """What the provider has moved of a payment that had failed, as an entry of the suspense book
    says; None: nothing is known of that."""
    receipt: str | None = None
    """The provider's receipt of that, which settles this payment only."""
    provider: str = ""
    """The payment's provider, which has given the receipt."""
    suspense_entry: int | None = None
    """The id of that entry."""
    number: int | None = None
    """The number that it must have, so that a form that is sent twice asks once; None: the next
    one."""


@frozen
class DecideReversal:
    """A member of staff approves a requested reversal, or refuses it."""

    reversal: str
    user: str
    is_approved: bool
    four_eyes: bool
    """Whether whoever asked for it may not approve it."""
    remark: str = ""


@frozen
class ReversalWoke:
    """A reversal's `wake_at` may have come: it is to be sent, or to be asked after."""

    reversal: str
    attempt: str
    """What only this attempt is named, so that its repetition is known where it is not known
    whether it was recorded."""


@frozen
class MarkReversalRestored:
    """The store was restored from a backup in which the reversal had not ended: it may have been
    sent since."""

    reversal: str
    user: str


@frozen
class ResolveReversal:
    """Staff end a reversal by hand whose provider does not tell its outcome."""

    reversal: str
    user: str
    succeeded: bool
    evidence: str
    """What shows the outcome."""
    provider_reference: str | None = None


@frozen
class ReversalAccepted:
    """The provider has the request and has not decided yet."""

    reversal: str
    provider: str
    source: Source
    provider_reference: str | None = None
    poll_after: Span | None = None
    """How long to wait before the next question, by the provider's advice; None: the usual
    interval."""
    version: int | None = None


@frozen
class ReversalSucceeded:
    """The provider has moved the money back."""

    reversal: str
    provider: str
    source: Source
    provider_reference: str | None = None
    amount: Money | None = None
    """What it has moved; None where it does not say."""
    version: int | None = None


@frozen
class ReversalFailed:
    """The provider reports that it did not and will not move the money back."""

    reversal: str
    provider: str
    source: Source
    reason: str
    """Why, in a sentence for staff."""
    native_code: str | None = None
    provider_reference: str | None = None
    lacks_float: bool = False
    """Whether it is because our account with the provider holds too little."""
    version: int | None = None


@frozen
class ReversalUnreachable:
    """A request to the provider had no usable response: it may or may not have been received
    (S6)."""

    reversal: str
    provider: str
    reason: str
    poll_after: Span | None = None
    """See :class:`ReversalAccepted`."""
    version: int | None = None


@frozen
class ReversalNeverReceived:
    """The provider is certain that it never received a request for this reversal, and none is in
    flight."""

    reversal: str
    provider: str
    # Of all reports this alone lets a request leave again, so it must say which one it is about.
    version: int
    """An answer to an old question says nothing about a later request (S6)."""


@frozen
class ReversalCannotTell:
    """The provider cannot be asked about this reversal: only its notification, or staff, can end
    it. It counts only where it answers the latest question, as more may be known since."""

    reversal: str
    provider: str
    version: int | None = None


@frozen
class ReversalHinted:
    """An unsigned notification names a reversal: a reason to ask the provider, and nothing else."""

    reversal: str
    provider: str
    version: int | None = None


ReversalReport: TypeAlias = (
    ReversalAccepted
    | ReversalSucceeded
    | ReversalFailed
    | ReversalUnreachable
    | ReversalNeverReceived
    | ReversalCannotTell
)
"""The possible results of a conversation about a reversal, or of a notification about one."""

# The inputs of `decide` about reversals.
ReversalInput: TypeAlias = (
    RequestReversal
    | DecideReversal
    | ReversalWoke
    | MarkReversalRestored
    | ResolveReversal
    | ReversalReport
    | ReversalHinted
)
