"""Defines the nouns of payments: brands and their methods, orders, progress, transactions, claims
of deposits (specification, "Resources and their fields")."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from attrs import Factory, field, frozen

from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Moment, Span, earlier, elapsed, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.money import Money
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl, PayerAction


class Type(StrEnum):
    """Says in which direction money goes (T1)."""

    PAYIN = "payin"
    PAYOUT = "payout"
    TAX = "tax"


class Flow(StrEnum):
    """Says how a payment is started (T1)."""

    DIRECT = "direct"
    WEB = "web"
    QR = "qr"
    PUSH = "push"


class Operation(StrEnum):
    """Says what a merchant can request: the `{flow}/{direction}` of a creation route (C1 to C5)."""

    DIRECT_PAYIN = "direct/payin"
    DIRECT_PAYOUT = "direct/payout"
    QR_PAYIN = "qr/payin"
    WEB_PAYIN = "web/payin"
    DIRECT_TAXPAYOUT = "direct/taxpayout"

    @property
    def type(self) -> Type:
        return _TYPES_AND_FLOWS[self][0]

    @property
    def flow(self) -> Flow:
        return _TYPES_AND_FLOWS[self][1]


# A table, as the names of operations do not tell the type: `taxpayout` is a `tax`.
_TYPES_AND_FLOWS = {
    Operation.DIRECT_PAYIN: (Type.PAYIN, Flow.DIRECT),
    Operation.DIRECT_PAYOUT: (Type.PAYOUT, Flow.DIRECT),
    Operation.QR_PAYIN: (Type.PAYIN, Flow.QR),
    Operation.WEB_PAYIN: (Type.PAYIN, Flow.WEB),
    Operation.DIRECT_TAXPAYOUT: (Type.TAX, Flow.DIRECT),
}


class Status(StrEnum):
    """The status is what a merchant sees of a stage (S1)."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"


class Stage(StrEnum):
    """The stage is a transaction's state inside the gateway; see
    :mod:`mmo_sansio.payments.states`."""

    CREATED = "created"
    AWAITING_CUSTOMER = "awaiting_customer"
    SUBMITTING = "submitting"
    AWAITING_RESULT = "awaiting_result"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def status(self) -> Status:
        # All stages before an end are one to the merchant.
        return _STATUSES.get(self, Status.PENDING)

    @property
    def is_terminal(self) -> bool:
        """Tell whether nothing can change any more (S1)."""
        return self in _STATUSES

    @property
    def is_unsent(self) -> bool:
        """Tell whether no submission is under way: there was none, or the provider has never
        received it (S6)."""
        return self in (Stage.CREATED, Stage.AWAITING_CUSTOMER)


_STATUSES = {Stage.SUCCEEDED: Status.SUCCESS, Stage.FAILED: Status.FAILED}


class Source(StrEnum):
    """Says what resolved a transaction: its `completionSource` (S2)."""

    WEBHOOK = "webhook"
    POLL = "poll"
    MANUAL = "manual"
    EXPIRY = "expiry"


class ReferenceReuse(StrEnum):
    """Says when a merchantReference may be used again after its window (C12)."""

    UNLESS_PAID = "unless_paid"
    """Only where every earlier payment under it has failed."""
    NEVER = "never"
    AFTER_WINDOW = "after_window"
    """Unless a payment under it is pending, even if one was paid."""


@frozen
class ReusePolicy:
    """Holds a brand's choice for each type of payment (C12). The result of a pay-out that failed
    may still turn out to be a success, so by default only pay-ins are tried again."""

    payin: ReferenceReuse = ReferenceReuse.UNLESS_PAID
    payout: ReferenceReuse = ReferenceReuse.NEVER
    tax: ReferenceReuse = ReferenceReuse.NEVER

    @classmethod
    def same_for_all(cls, reuse: ReferenceReuse) -> ReusePolicy:
        """Return the policy that makes the same choice for each type."""
        return cls(reuse, reuse, reuse)

    def for_type(self, type: Type) -> ReferenceReuse:
        """Return the choice for a new payment of this type."""
        match type:
            case Type.PAYIN:
                return self.payin
            case Type.PAYOUT:
                return self.payout
            case Type.TAX:
                return self.tax
            case _:
                assert_never(type)


@frozen
class Limits:
    """Bounds the amounts of a method in one currency; both bounds are allowed (C11)."""

    minimum: Money
    maximum: Money
    daily: Mapping[Type, Money] = Factory(dict)
    """The largest sum of a day by type of payment: what was accepted that day and has not failed.
    Days begin at 00:00 UTC; a type without an entry has no such limit."""


@frozen
class BrandLimits:
    """Bounds what one brand may cause; None: not bounded."""

    requests_per_second: int | None = None
    requests_burst: int | None = None
    """Requests that may come at once after a pause; None: those of one second."""
    pending_payments: int | None = None
    """Payments that may be pending at the same time."""


@frozen
class Method:
    """A method is a way to pay that a brand has in one country."""

    key: str
    """The `{method}` of the path; case-sensitive, at most 100 characters (C10)."""
    provider: str
    """Name of the configured provider that carries the payments."""
    provider_title: str
    """The provider's display name."""
    country: str
    """ISO 3166-1 alpha-2."""
    operations: frozenset[Operation]
    limits: Mapping[str, Limits]
    """By currency; a currency is supported exactly when it has an entry."""
    tax_authority_id: str | None = None
    """The recipient of tax payouts; None means the method key (M5)."""
    tax_authority_account: str = "000"
    push_accounts: tuple[str, ...] = ()
    """The offline deposits that belong to this method: `ACCOUNT` or `ACCOUNT/PREFIX of the bill
    reference` (S4)."""


@frozen
class Logo:
    """A logo is a picture that stands for a brand."""

    media_type: str
    """`image/png`, `image/jpeg` or `image/webp`."""
    content: bytes = field(repr=False)


@frozen
class PageAppearance:
    """Says how the payment page of a brand looks."""

    colour: str | None = None
    """`#rrggbb`; None: the colour of the gateway."""
    logo: Logo | None = None
    """None: the initials of its name."""
    order_label: str | None = None
    """The key of the label whose value says what is paid for (M4); None: the page does not say
    it."""
    support_phone: str | None = None
    """The telephone of the shop for payers, as it is shown: `+254 700 000 000`."""
    support_url: str | None = None
    """The https page of the shop where payers ask."""


@frozen
class Brand:
    """A brand is a merchant's account."""

    id: str
    name: str
    methods: tuple[Method, ...]
    """(key, country) is unique among them."""
    enabled: bool = True
    push_result_url: str | None = None
    """Where results of offline deposits are sent; None: nowhere (S4)."""
    host: str | None = None
    """A host of the brand's own, on which only its keys work (A6)."""
    reference_reuse: ReusePolicy = ReusePolicy()
    redirect_schemes: frozenset[str] = frozenset()
    """Schemes beyond http and https that redirect URLs may have, e.g. an app's (C8)."""
    result_hosts: tuple[str, ...] = ()
    """The only hosts that callbacks and QR codes may be sent to: names in lower-case ASCII, `*.`
    before a name stands for all names below it; empty: any host."""
    limits: BrandLimits = BrandLimits()
    appearance: PageAppearance = PageAppearance()


@frozen
class UsageShare:
    """Says what a payment adds to one of its brand's counters; see
    :mod:`mmo_sansio.payments.brand_usage`."""

    counter: str
    day: int
    """Days since 1970-01-01; 0 for a counter that no day resets."""
    amount: int


@frozen
class Terms:
    """The time limits under which an order is accepted (specification, "Limits"; V1)."""

    pending_timeout: Span = Span(3 * clock.DAY)
    """How long a transaction may stay pending (S3)."""
    idempotency_window: Span = Span(15 * clock.MINUTE)
    """How long a merchantReference cannot be used again (C12)."""
    page_session: Span | None = Span(30 * clock.MINUTE)
    """How long a hosted page is open; None: as long as the transaction is pending (W1)."""


@frozen
class Party:
    """The party is the payer or payee, or the tax authority (M3, M5)."""

    id: str
    msisdn: str
    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None


@frozen
class Page:
    """Holds the hosted payment page of a web pay-in (W1 to W3)."""

    token: str = field(repr=False)
    """The secret part of pageUrl; everybody who knows it may pay."""
    closes_at: Instant
    """When the page's session ends, by the gateway's own time; never after the order's expiry."""
    success_redirect_url: str | None = None
    error_redirect_url: str | None = None


@frozen
class Order:
    """The order is what the merchant requested; it never changes, but for times that a wrong clock
    has written."""

    gateway_reference: str
    """A ULID, generated when the request arrives."""
    brand: str
    """The brand's id."""
    type: Type
    flow: Flow
    method: str
    country: str
    provider: str
    provider_title: str
    requested: Money
    party: Party
    merchant_reference: str | None
    """None for a push."""
    reconciliation_reference: str | None
    labels: str | None
    """The merchant's metadata as the text of a JSON object, as it came, or None (M4)."""
    result_url: str | None
    """Where the result is sent; None only for a push of a brand without push_result_url."""
    created_at: Instant
    """Wall time, as the clock guard trusted it."""
    expires_at: Instant
    """When the transaction fails if it is still pending (S3), by the gateway's own time."""
    display_qr_url: str | None = None
    page: Page | None = None
    scenario: str | None = None
    """The scenario that the sandbox provider plays; None outside the sandbox."""
    api_key_id: str | None = None
    """The id of the API key that made the request, never the key itself (A4); None for a push."""
    utc_offset: Span = Span(0)
    """How far the wall time of `created_at` was ahead of the gateway's own time."""

    @property
    def accepted_at(self) -> Instant:
        """Return when the order was accepted, by the gateway's own time."""
        # The offset of that moment: wall time may have been corrected since.
        return earlier(self.created_at, self.utc_offset)

    def expires_within(self, span: Span, *, now: Moment) -> bool:
        """Tell whether less than this is left until it expires."""
        return elapsed(now.time, self.expires_at) < span

    def to_utc(self, moment: Instant) -> Instant:
        """Return the wall time, as it was when the order was accepted, of a moment of the gateway's
        own time."""
        return later(moment, self.utc_offset)

    usage: tuple[UsageShare, ...] = ()
    """What the payment adds to counters of its brand, which has limits."""
    is_simulated: bool = False
    """Whether no money moves by it, as it goes to a simulated account: that of the time at which it
    was accepted. It is never sent to an account of the other sort."""


@frozen
class ProviderData:
    """Holds what the provider reported, in its own words (T3)."""

    name: str
    title: str
    fee: Money | None = None
    party_data: str | None = None
    """Further details of the party as the text of a JSON object."""
    error_code: str | None = None
    error_message: str | None = None


@frozen
class QrCode:
    """Holds the code that the payer of a QR pay-in scans (Q1): text, picture or both."""

    payload: str | None = None
    """The EMVCo text; None where the operator gives only a picture."""
    image: str | None = None
    """A PNG picture in Base64; None where it is drawn from the text."""


@frozen
class Evidence:
    """Holds what the provider has reported of a success at an address that only it was given:
    evidence, and no proof, as the report is not signed."""

    receipt: str
    code: str
    """The operator's code for the success."""
    amount: Money | None = None
    """None: the report names none."""
    settles: bool = False
    """Whether it ends the payment where the operator answers no question about it."""
    reported_at: Instant = Instant(0)
    """When it first came, by the gateway's own time."""
    is_denied: bool = False
    """Whether an answer of the operator contradicts it."""
    is_in_suspense: bool = False
    """Whether an entry of the suspense book names the receipt."""


@frozen
class Refusal:
    """Says why a provider has refused a further submission, while an earlier one may have
    arrived."""

    error_code: ErrorCode
    native_code: str | None
    native_message: str | None
    version: int
    """That of the progress which first has it: only what is asked from then on is about both."""


@frozen
class Progress:
    """Holds what has happened to an order so far; every transition makes a new one."""

    stage: Stage
    version: int
    """Counts the transitions, from 1; a store changes a row only from the version that was decided
    on."""
    wake_at: Instant | None
    """When the transaction needs the clock next (expiry, next poll, end of its page), by the
    gateway's own time; None exactly when terminal."""
    polls: int = 0
    """How often the provider was polled since the payment was submitted."""
    provider_reference: str | None = None
    provider_data: ProviderData | None = None
    """None until a request to the provider is on record (T3)."""
    final: Money | None = None
    completed_at: Instant | None = None
    completion_source: Source | None = None
    error_code: ErrorCode | None = None
    error_message: str | None = None
    submitted_at: Instant | None = None
    """When the latest submission began, by the gateway's own time; None while none is on record."""
    hint: str | None = None
    """What hints reported (S5), one line each, for the provider's adapter, which polls and may need
    it; None: nothing."""
    qr: QrCode | None = None
    """The code that the provider, or its adapter, made for the payer."""
    submissions: int = 0
    """How many submissions are on record."""
    unsent: int = 0
    """How many of them have certainly not arrived."""
    answered: tuple[Instant, ...] = ()
    """When the latest questions were asked whose answers have come to addresses of their own, the
    earliest first."""
    evidence: Evidence | None = None
    """The success that the provider has reported, while the payment was pending, at an address of
    its own."""
    denied_since: Instant | None = None
    """Since when the provider has said nothing of the payment but that nothing came of it, each
    time not beyond doubt, by the gateway's own time."""
    is_restored: bool = False
    """Whether its store was restored from a backup in which it had not ended: it may have been
    submitted since, and is never submitted again."""
    attempt: str | None = None
    """The name of the attempt that has begun the latest submission; None where its caller does not
    repeat it."""
    receipt_awaited_since: Instant | None = None
    """Since when nothing but the receipt is missing of a payment that its provider has called paid,
    or staff have, by the gateway's own time; None: it is known, or more is missing."""
    named_by_receipt: str | None = None
    """The first confirmed receipt, of the payment's amount, of a deposit that names it; its success
    takes this for its own where the provider names none."""
    sent_version: int = 0
    """The version at which the latest submission was recorded; 0 while none is."""
    refusal: Refusal | None = None
    """Why the provider has refused the latest submission, while an earlier one may have arrived: it
    ends the payment once the provider says again that it has received none."""
    payer_action: PayerAction | None = None
    """What the payer has to do elsewhere, while the payment is pending; None: nothing."""
    is_said_paid: bool = False
    """Whether a hint has called it paid."""
    is_told_when_asked: bool = False
    """Whether its provider, which has it, notifies of no result: it is asked on after the
    expiry."""

    @property
    def awaits_commit(self) -> bool:
        """Tell whether the payer has done it, and the provider, which has the payment, has to be
        told."""
        if self.stage is not Stage.AWAITING_RESULT:
            return False

        match self.payer_action:
            case OpenUrl(needs_commit=needs_commit, returned_at=returned_at):
                return needs_commit and returned_at is not None
            # The operator has the payment, and waits for the code.
            case EnterCode(code=code):
                return code is not None
            case None:
                return False

    @property
    def is_unpolled(self) -> bool:
        """Tell whether nobody has polled since the submission on record began: its own response may
        still come."""
        return self.stage is Stage.SUBMITTING and self.polls == 0

    @property
    def is_resubmission(self) -> bool:
        """Tell whether the submission on record follows an earlier one that may have arrived,
        though the provider has said that it never received it."""
        # Those that certainly never arrived count as if they had not been sent.
        return self.submissions - self.unsent > 1


@frozen
class Transaction:
    """A transaction has an order (`requested`, `expires_at`) and a progress (`stage`, `error_code`,
    `completed_at`)."""

    order: Order
    progress: Progress

    @property
    def reference(self) -> str:
        return self.order.gateway_reference

    @property
    def status(self) -> Status:
        return self.progress.stage.status


class DepositTrust(StrEnum):
    """Says how far the report of a deposit is trusted."""

    CONFIRMED = "confirmed"
    """The operator has signed it or confirmed it, or its account is configured to trust such
    reports."""
    LISTED = "listed"
    """The operator has listed it when asked what was paid: confirmed, with the payer's number and
    name in other forms than in a notification."""
    UNCONFIRMED = "unconfirmed"
    """Nothing is booked before the operator has confirmed it by an answer to a request of ours."""
    FOREIGN_ACCOUNT = "foreign_account"
    """It names an account that is not ours: it goes to the suspense book."""

    @property
    def is_confirmed(self) -> bool:
        """Tell whether the money is certain to have been received."""
        return self in (DepositTrust.CONFIRMED, DepositTrust.LISTED)


class DepositAnswerOutcome(StrEnum):
    """Says what an operator answers when it is asked about a deposit by its receipt."""

    COMPLETED = "completed"
    NOT_FOUND = "not_found"
    """The operator knows no such receipt; that may be too early to say."""
    FAILED = "failed"
    """The operator has not moved the money, or has moved it back."""
    UNKNOWN = "unknown"
    """The answer says nothing that can be used."""


@frozen
class DepositClaim:
    """A claim is a notification that the operator has yet to confirm, or whose named payment has
    yet to end.

    Once it is settled it stays, so that its receipt settles nothing else.
    """

    provider: str
    receipt: str
    """The provider's own transaction id; with the provider, it identifies the claim."""
    provider_title: str
    gateway_reference: str
    """A fresh ULID, used if the claim becomes a deposit."""
    account: str
    """The provider's account that was paid, as the notification says."""
    bill_reference: str
    amount: Money
    party: Party
    payment: str | None
    """The gatewayReference of the payment that the bill reference names, or that the receipt has
    settled."""
    brand: str | None
    """The id of that payment's brand."""
    received_at: Instant
    expires_at: Instant
    """When an unconfirmed claim is left to a person."""
    wake_at: Instant | None
    """When the claim needs the clock next; None exactly when it is settled."""
    version: int = 1
    """Counts the changes, from 1."""
    polls: int = 0
    """How often it was woken."""
    answered_at: Instant | None = None
    """When the latest question was asked whose answer has come to an address of its own."""
    is_confirmed: bool = False
    is_simulated: bool = False
    """Whether the account that has reported it is simulated."""
