"""Everything that can happen: what is asked for (imperative, may be refused) and what is reported (past tense)."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

from attrs import field, frozen

from mmo_sansio.http.exchange import DeliveryAttempt
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Brand, Operation, Party, QrCode, Source, Terms
from mmo_sansio.values.money import Money


@frozen
class Draft:
    """A creation request whose shape is right; whether the brand may have it is for the law to say."""

    operation: Operation
    method: str
    amount: Decimal
    """Above 0, at most 10^15; its decimals are checked once the currency is known to be supported (C9)."""
    currency: str
    country: str
    result_url: str
    merchant_reference: str
    reconciliation_reference: str | None = None
    """None means the merchantReference (C7)."""
    party: Party | None = None
    """None exactly for a tax payout, whose recipient is implied (M5)."""
    labels: str | None = None
    """Text of a JSON object, as it came (M4)."""
    display_qr_url: str | None = None
    success_redirect_url: str | None = None
    error_redirect_url: str | None = None
    scenario: str | None = None
    """What the sandbox provider shall play; the edge accepts it in a sandbox only."""


@frozen
class CreatePayment:
    """A merchant asks for a payment (C1 to C5)."""

    brand: Brand
    gateway_reference: str
    """A fresh ULID."""
    draft: Draft
    page_token: str = field(default="", repr=False)
    """A fresh unguessable token; used for web pay-ins only."""
    terms: Terms = Terms()


@frozen
class ConfirmPage:
    """The payer presses the button of the hosted page (W1)."""

    gateway_reference: str


@frozen
class ResolveManually:
    """An operator completes a transaction by hand, with a reason (completionSource `manual`)."""

    gateway_reference: str
    user: str
    """Who does it, for the journal."""
    reason: str
    """Why, for the journal."""
    error_code: ErrorCode | None = None
    """None: it succeeded."""
    final: Money | None = None
    """What was settled; None means the requested amount."""
    provider_reference: str | None = None
    evidence: str = ""
    """What shows it, for the journal."""


@frozen
class BeginSubmission:
    """A worker wants to send the payment to its provider: from here on it may have been received (S6)."""

    gateway_reference: str


@frozen
class ProviderAccepted:
    """The provider has the request and has not decided yet."""

    gateway_reference: str
    provider: str
    source: Source
    provider_reference: str | None = None
    poll_after: Span | None = None
    """When the provider wants to be asked for the first time; None: the usual interval."""
    qr: QrCode | None = None
    """What the payer shall scan, for a QR pay-in (Q1)."""


@frozen
class ProviderSucceeded:
    """The provider moved the money."""

    gateway_reference: str
    provider: str
    source: Source
    provider_reference: str | None = None
    final: Money | None = None
    """What was settled; None means the requested amount."""
    fee: Money | None = None
    party_data: str | None = None
    """Text of a JSON object."""


@frozen
class ProviderFailed:
    """The provider says that it did not and will not move the money."""

    gateway_reference: str
    provider: str
    source: Source
    error_code: ErrorCode
    provider_reference: str | None = None
    native_code: str | None = None
    native_message: str | None = None


@frozen
class ProviderUnreachable:
    """A request to the provider had no usable answer: it may or may not have been received (S6)."""

    gateway_reference: str
    provider: str
    reason: str
    poll_after: Span | None = None
    """When the provider wants to be asked again; None: the usual interval."""


@frozen
class ProviderNeverReceived:
    """The provider is certain that no request for this payment ever reached it, and none is under way."""

    gateway_reference: str
    provider: str
    version: int
    """The transaction's version when it was submitted or asked about: a slow answer to an old question says nothing
    about a submission made since (S6)."""
    submitted_at: Instant | None = None
    """When the submission began that it speaks of, where the answer comes apart from the question, so that the version
    may have changed meanwhile; the version isn't looked at then."""


@frozen
class ProviderCannotTell:
    """The provider offers no way to ask what became of this payment: only its own notification or a person can tell."""

    gateway_reference: str
    provider: str


@frozen
class ProviderHinted:
    """A notification that nobody has signed speaks of a payment: a reason to ask the provider, and no result."""

    gateway_reference: str
    provider: str
    content: str = ""
    """What it said, as text: kept with the payment for the adapter that asks, and for a person when the payment is none
    of ours (S5)."""


@frozen
class DepositNotified:
    """A provider tells of an offline deposit (flow `push`, S4)."""

    provider: str
    provider_reference: str
    """The provider's own transaction id: with the provider, the deposit's identity."""
    provider_title: str
    gateway_reference: str
    """A fresh ULID, used if the deposit is new."""
    brand: Brand | None
    """Whose account was paid; None when it matches no brand."""
    method: str
    amount: Money
    party: Party
    succeeded: bool = True


@frozen
class UnmatchedNotified:
    """A provider told something that names no payment and no deposit of ours; kept for a person to see (S5)."""

    provider: str
    content: str
    """What it said, as text."""


@frozen
class TransactionWoke:
    """A transaction's `wake_at` may have come."""

    gateway_reference: str


@frozen
class CallbackConcluded:
    """The one attempt to deliver a callback has ended, or was not made (K3)."""

    gateway_reference: str
    attempt: DeliveryAttempt
    fence: int = 0
    """The number under which it was claimed before it was sent."""
    breaker: BreakerSnapshot | None = None
    """The merchant's breaker with this outcome counted, in wall time; None when it wasn't."""


ProviderReport: TypeAlias = (
    ProviderAccepted
    | ProviderSucceeded
    | ProviderFailed
    | ProviderUnreachable
    | ProviderNeverReceived
    | ProviderCannotTell
)
"""What a conversation with a provider, or a notification by it, can come to."""


@frozen
class QrConcluded:
    """The one attempt to deliver a QR code has ended, or was not made (Q1)."""

    gateway_reference: str
    attempt: DeliveryAttempt


Input: TypeAlias = (
    CreatePayment
    | ConfirmPage
    | ResolveManually
    | BeginSubmission
    | ProviderReport
    | ProviderHinted
    | DepositNotified
    | UnmatchedNotified
    | TransactionWoke
    | CallbackConcluded
    | QrConcluded
)
"""What `decide` takes."""
