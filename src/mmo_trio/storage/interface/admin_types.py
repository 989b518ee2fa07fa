"""The values of the admin API: brands and keys, console users, audit events, proposals, searches
and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Final

from attrs import field, frozen

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.queries import Position
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Instant, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Brand, Status, Transaction, Type
from mmo_sansio.values.money import Money, decimals_of


@frozen
class SuspenseEntry:
    """Holds an entry of the suspense book."""

    id: int
    reason: SuspenseReason
    provider: str
    content: str
    """Text of a JSON object."""
    gateway_reference: str | None
    """The payment that it is about; None where none is known."""
    brand: str | None
    """That of the payment."""
    first_at: Instant
    """When it was reported first."""
    last_at: Instant
    """When it was reported last."""
    times: int
    """How often the same content came for the same reason, also after the entry was closed."""
    closed_at: Instant | None = None
    closed_by: str | None = None
    note: str | None = None
    """Why a user closed it."""


class Role(StrEnum):
    """Defines what a user may do; see :mod:`mmo_trio.console.permissions`."""

    VIEWER = "viewer"
    SUPPORT = "support"
    APPROVER = "approver"
    ADMIN = "admin"


@frozen
class ConsoleUser:
    """A member of the staff who may sign in at the console."""

    name: str
    role: Role
    password_hash: str = field(repr=False)
    added_at: Instant
    disabled_at: Instant | None = None
    """Since when this user may not sign in; None: the user may."""


@frozen
class ConsoleSession:
    """Belongs to a browser that has signed in."""

    digest: bytes = field(repr=False)
    """SHA-256 of the browser's token; the token itself is stored nowhere."""
    user: str
    began_at: Instant
    seen_at: Instant
    """The time of its last use, to the minute."""


@frozen
class SignInAttempt:
    """An attempt to sign in, or to prove a second factor, that has failed or whose end is not known
    yet."""

    name: str
    """The name that was given, whether or not there is such a user."""
    network: str
    """That of the address's subscriber (`mmo_trio.http.streams.subscriber_network`)."""
    at: Instant


@frozen
class SecondFactor:
    """The second factor of a console user: a secret from which the user's device makes codes (TOTP,
    RFC 6238)."""

    user: str
    sealed: bytes | None = field(default=None, repr=False)
    """The sealed secret in use; None when none is."""
    confirmed_at: Instant | None = None
    """The time at which the user confirmed the secret in use by a code."""
    last_step: int = 0
    """The step of time (30 s each since 1970) of the last accepted code: no code is accepted
    twice."""
    pending: bytes | None = field(default=None, repr=False)
    """A sealed secret that the user has not confirmed yet."""
    recovery_codes: int = 0
    """Recovery codes that are left."""
    locked_at: Instant | None = None
    """The time since which it takes recovery codes only, after too many wrong codes."""

    @property
    def is_active(self) -> bool:
        """Return whether the user signs in with it."""
        return self.sealed is not None


@frozen
class AuditEvent:
    """An action of a user, as the audit log records it before the action is carried out."""

    at: Instant
    actor: str
    """`user:NAME` for a console user, or `cli:USER` for a command on a machine of the gateway."""
    action: str
    """The action, e.g. `signed_in`."""
    about: str = ""
    """Its subject: `payment:REFERENCE`, `suspense:ID`, `provider:NAME`, `user:NAME`, `brand:ID`."""
    detail: str = "{}"
    """Text of a JSON object."""


@frozen
class AuditRow:
    """A row of the audit log. Each contains the hash of the one before, so that no change or
    removal goes unnoticed."""

    number: int
    """Its number, from 1 without gaps."""
    event: AuditEvent
    previous_hash: str
    """The hash of the row before; for the first row that of an empty log."""
    hash: str
    """SHA-256 of the row's canonical content, in hexadecimal; see `audit_chain.row_hash`."""
    key_id: str
    """Names the key of `mac`."""
    mac: str
    """Authenticates the row and all rows before it, in hexadecimal; see `audit_chain.row_mac`."""


@frozen
class AuditKey:
    """The key with which a gateway authenticates the rows of its audit log."""

    id: str
    """A fingerprint of the key, which reveals nothing about it."""
    secret: bytes = field(repr=False)


@frozen
class AuditHead:
    """Describes the end of the audit log."""

    number: int
    """That of the last row; 0: there is none."""
    hash: str
    """That of the last row."""


class ProposalState(StrEnum):
    """The state of a proposal to end a payment by hand."""

    OPEN = "open"
    APPROVED = "approved"
    """Decided, and not yet done: the process died in between. It may be carried out again; twice
    does no harm."""
    DONE = "done"
    REJECTED = "rejected"
    REFUSED = "refused"
    """Approved, and then rejected by the payment rules or by evidence that came meanwhile."""


# Of proposals in these, there is one about a payment at most.
UNFINISHED_STATES: Final = (ProposalState.OPEN, ProposalState.APPROVED)


@frozen
class Proposal:
    """A user's proposal to end a payment by hand; where four eyes are required, another user
    decides."""

    id: int
    """0 until it is stored."""
    gateway_reference: str
    brand: str
    error_code: str | None
    """None when the money has moved."""
    provider_reference: str | None
    reason: str
    evidence: str
    proposed_by: str
    proposed_at: Instant
    state: ProposalState = ProposalState.OPEN
    decided_by: str | None = None
    """Who approved or rejected it; None while it is open."""
    decided_at: Instant | None = None
    remark: str | None = None
    """Why it was rejected or could not be carried out."""


@frozen
class AttentionTimes:
    """Says by which times a payment needs a person."""

    own_time: Instant
    """The gateway's own time, by which a payment is stuck."""
    callbacks_since: Instant
    """Since when a callback that was not delivered counts: nothing ever mends an older one."""


# Open entries of the suspense book, and failed callbacks, that are read to find the payments which
# need a person; the newest count.
ATTENTION_READ_MAX = 1_000

# Stuck payments that are read to find those which need a person; the oldest count.
STUCK_READ_MAX = 200


@frozen
class PaymentFilter:
    """Selects payments, newest first."""

    brand: str | None = None
    method: str | None = None
    status: Status | None = None
    before: Position | None = None
    limit: int = 50
    provider: str | None = None
    """The name of the provider that they were routed to."""
    error_code: ErrorCode | None = None
    """The reason for which they failed."""
    begin: Instant | None = None
    """Created at this time or later."""
    end: Instant | None = None
    """Created before this time."""
    after: Position | None = None
    """In place of `before`: those that come next after this position, upwards."""
    type: Type | None = None
    amount_min: Decimal | None = None
    """Asked for at least so much, in whichever currency."""
    amount_max: Decimal | None = None
    attention: AttentionTimes | None = None
    """Only those that need a person: with an open entry in the suspense book, with a callback that
    was not delivered lately, and those that are stuck."""

    def matches(self, transaction: Transaction) -> bool:
        """Return whether a transaction is selected, whatever its position."""
        order = transaction.order
        return (
            self.brand in (None, order.brand)
            and self.method in (None, order.method)
            and self.status in (None, transaction.status)
            and self.provider in (None, order.provider)
            and self.error_code in (None, transaction.progress.error_code)
            and self.type in (None, order.type)
            and (self.begin is None or order.created_at >= self.begin)
            and (self.end is None or order.created_at < self.end)
            and self.has_amount(order.requested)
        )

    @property
    def has_amount_bounds(self) -> bool:
        """Return whether the amount decides what is selected."""
        return self.amount_min is not None or self.amount_max is not None

    def has_amount(self, amount: Money) -> bool:
        """Return whether an amount is within the bounds of the selection."""
        if not self.has_amount_bounds:
            return True
        value = Decimal(amount.minor).scaleb(-decimals_of(amount.currency))
        is_enough = self.amount_min is None or value >= self.amount_min
        return is_enough and (self.amount_max is None or value <= self.amount_max)


@frozen
class PaymentPage:
    """Payments, newest first, and where the next page begins."""

    transactions: Sequence[Transaction]
    next_position: Position | None
    """None when there is nothing older, or upwards nothing newer. A page with few payments may have
    one: a search scans so many payments at most, and then says how far it came."""


@frozen
class PaymentTotals:
    """Says how many payments a selection has, and what they have asked for."""

    count: int
    sums: Sequence[tuple[Type, Money]]
    """The sums by type and currency, without simulated payments."""
    is_complete: bool
    """Whether all were read; otherwise there are more."""
    simulated_sums: Sequence[tuple[Type, Money]] = field(factory=list)
    """Those of simulated payments, by which no money moved."""


class CountDimension(StrEnum):
    """A dimension by which payments are counted."""

    BRAND = "brand"
    METHOD = "method"
    PROVIDER = "provider"


QUARTER_HOUR: Final = Span(15 * MINUTE)

# The lengths of time for which payments are counted, the shortest first; each divides the next. A
# quarter of an hour is counted by brand, provider and status alone: many are read at once.
COUNT_SPANS: Sequence[Span] = (QUARTER_HOUR, HOUR, DAY)

# Minor units that a count adds up at most, so that it never has more than an integer of a database
# holds: ten payments of the largest amount have more.
COUNTED_MINOR_MAX: Final = 9 * 10**18

# Upper bounds in seconds of the classes of latency, from creation to result; 0 stands for all
# beyond the last.
LATENCY_BOUNDS_S: Sequence[int] = (1, 2, 5, 10, 20, 30, 60, 120, 300, 900, 3_600)


@frozen
class PaymentCount:
    """Counts the payments of one kind."""

    key: str
    """A brand, method or provider, or the beginning of a span of time, as text."""
    status: Status
    """`pending` counts payments by when they were created, the others by when they ended."""
    latency_s: int
    """Upper bound of its class of latency; 0 for those beyond all, and for `pending`."""
    count: int


@frozen
class PaymentSum:
    """Adds up the money of payments of one kind that ended in one way."""

    key: str
    """As in `PaymentCount`."""
    type: Type
    currency: str
    error_code: ErrorCode | None
    """Why they failed; None: they succeeded."""
    count: int
    minor: int
    """What was settled, in minor units of the currency; of failed payments what was asked for."""


@frozen
class ProviderCount:
    """Counts the payments of one provider that ended in one quarter of an hour."""

    provider: str
    began_at: Instant
    """The beginning of the quarter."""
    succeeded: int
    failed: int


@frozen
class PaymentCell:
    """Counts the payments of one span that are alike in all but their brand, and adds up their
    money."""

    began_at: Instant
    """The beginning of the span."""
    method: str
    provider: str
    is_simulated: bool
    status: Status
    latency_s: int
    """As in `PaymentCount`."""
    type: Type
    currency: str
    error_code: ErrorCode | None
    """As in `PaymentSum`."""
    count: int
    minor: int
    """As in `PaymentSum`."""


@frozen
class CountQuery:
    """A selection of counts: spans of this length that begin in [begin, end), of one brand, method
    or provider."""

    span: Span
    begin: Instant
    end: Instant
    only: tuple[CountDimension, str] | None = None
    """Which brand, method or provider; None: all."""
    is_simulated: bool | None = None
    """Only simulated payments, or only those for money; None: both."""


@frozen
class BreakerChange:
    """Records the time at which a merchant's breaker opened or closed."""

    brand: str
    at: Instant
    state: str
    """The value of the `BreakerState` that it has had since."""


@frozen
class StoredApiKey:
    """A stored API key: a digest to find it by, and encrypted text to send back in callbacks (A4,
    A5)."""

    id: int
    brand: str
    digest: bytes = field(repr=False)
    sealed: bytes = field(repr=False)
    added_at: Instant
    retired_at: Instant | None = None
    leaked_at: Instant | None = None
    """When it was reported as known to somebody else; it is retired then, too."""


@frozen
class StoredMasterKey:
    """Names a master key that secrets of the store are sealed with."""

    generation: int
    """Counts the master keys of the store, from 1."""
    id: str
    """The id that is derived from it (`KeyRing.master_key_id`)."""
    added_at: Instant
    ended_at: Instant | None = None
    """When nothing was sealed with it any more; None while it is needed."""


@frozen
class KeyOwner:
    """The owner of an API key in use: the brand that a request with this key comes from."""

    brand: Brand
    api_key_id: str
    """The key's id as payments record it (`Order.api_key_id`): that of the `StoredApiKey`, which no
    other key ever has."""


@frozen
class ClosedProvider:
    """A provider that a user has closed for new payments."""

    name: str
    closed_at: Instant
    closed_by: str
    reason: str


class NoteTopic(StrEnum):
    """Lists what a note about a provider tells."""

    CHECK = "check"
    """When its account was checked last, and whether a person has asked for another check."""
    FINDING = "finding"
    """What is known of a part of its account."""
    TRIAL = "trial"
    """When something was sent last to see whether it still refuses what it has refused."""
    AVAILABILITY = "availability"
    """When it was asked last what it can process."""
    RECORDING = "recording"
    """Until when what goes to and comes from it is recorded."""
    RECORDED = "recorded"
    """Lines of a recording."""
    BALANCE = "balance"
    """When its balances were asked for last."""
    FLOAT = "float"
    """Whether a float of it is low, since when."""
    FLOAT_REFUSAL = "float_refusal"
    """Which pay-out it has refused last because a float lacked money."""
    SIGN_IN = "sign_in"
    """The answer to its last sign-in, sealed."""
    NOTICE = "notice"
    """What staff were told last, and when a process looked last; it is about no provider."""
    AUDIT_LOG_CHANGED = "audit_log_changed"
    """Where a process has found the audit log changed last, by wall time; it is about no
    provider."""


@frozen
class ProviderNote:
    """What processes and commands tell each other about the account with a provider."""

    provider: str
    topic: NoteTopic
    subject: str = ""
    """What it is about besides the provider, such as a part of the account; "" where there is one
    note of its topic."""
    at: Instant = Instant(0)
    """A time of the gateway's own, unless the topic says otherwise; 0 where there has never been
    such a note."""
    content: str = ""


@frozen
class BrandHold:
    """Says that a user has put a brand on hold: what was not submitted yet is not submitted any
    more."""

    brand: str
    held_at: Instant
    held_by: str


# Who holds the brands of a store that was restored from a backup.
RESTORATION = "mmo db restored"


@frozen(order=True)
class BrandUsage:
    """Says what a counter of a brand with limits shows (`mmo_sansio.payments.brand_usage`)."""

    brand: str
    counter: str
    day: int
    """Days since 1970-01-01; 0 for the pending payments. The sum of an earlier day counts no
    more."""
    amount: int
    """Pending payments, or minor units of the currency that the counter's name ends with."""

    def on_day(self, day: int) -> BrandUsage:
        """Return the counter as it shows on this day: the sum of an earlier day has become 0."""
        if self.day in (0, day) or self.day > day:
            return self
        return BrandUsage(self.brand, self.counter, day, 0)


# Stuck transactions are counted up to this number: it is often read, and more need staff as well.
STUCK_COUNT_MAX = 1_000


class ApprovalKind(StrEnum):
    """Lists what one member of the staff proposes and another one approves."""

    RESOLUTION = "resolution"
    """To end a payment by hand."""
    REVERSAL = "reversal"
    """To ask money back."""
    CONFIGURATION = "configuration"
    """To change a brand."""


@frozen
class Backlog:
    """Counts what waits in a store, for all processes together."""

    pending: int
    """Transactions that haven't ended."""
    stuck: int
    """Of these, those that are stuck, as `stuck_transactions` lists them; at most
    STUCK_COUNT_MAX."""
    overdue: int
    """Of these, those that were due before a given time, for a poll or to expire."""
    callbacks: int
    """Open callbacks."""
    suspense: int
    """Open entries of the suspense book."""
    deposit_claims: int = 0
    """Reported deposits that are not settled."""
    held_brands: int = 0
    """Brands that are on hold."""
    restorations: int = 0
    """How often the store was restored from a backup, or a failover has lost commits."""
    usage: Sequence[BrandUsage] = field(factory=list)
    """The counters of brands with limits, as they show at that time."""
    reversals: int = 0
    """Reversals that have not ended."""
    approvals: Mapping[ApprovalKind, int] = field(factory=lambda: dict.fromkeys(ApprovalKind, 0))
    """What waits for the approval of another user; of reversals at most those of
    STUCK_COUNT_MAX payments."""


@frozen
class Configuration:
    """Describes what each process keeps in memory of brands, keys and closed providers."""

    generation: int
    """Another number after each change of brands, their keys and closed providers."""
    closed_providers: frozenset[str]
    """The names of the providers that are closed for new payments."""
    restored_brands: frozenset[str] = frozenset()
    """The brands of a restored store that take no payments until the gap behind its backup is
    closed."""


@frozen
class ServingProcess:
    """A process that serves a store."""

    name: str
    """For people: its number and machine."""
    generation: int | None
    """The generation of the configuration that it uses; None when it has not said it yet, or is of
    an earlier version."""


@frozen
class BrandRecord:
    """Holds a brand and its keys, the oldest first."""

    brand: Brand
    keys: tuple[StoredApiKey, ...]


# Refused requests on record for each brand and day; further ones are only counted.
REFUSALS_RECORDED_MAX = 10_000

# How long refused requests stay on record.
REFUSALS_KEPT = Span(8 * DAY)

# Refused requests that one write removes, so that none takes long.
REFUSALS_REMOVED_MAX = 1_000


class ChangeState(StrEnum):
    """Defines the states of a proposed change of a brand."""

    OPEN = "open"
    APPLIED = "applied"
    REJECTED = "rejected"
    """Another user rejected it, or the proposer withdrew it."""
    REVERTED = "reverted"
    """It was applied, and the version before it is in force again."""


@frozen
class ConfigurationChange:
    """A user's proposal to change a brand; another user decides, always."""

    id: int
    """0 until it is stored."""
    before: Brand
    """The version on which the proposal was made."""
    after: Brand
    """The version that it brings into force; it has the same id."""
    reason: str
    proposed_by: str
    proposed_at: Instant
    state: ChangeState = ChangeState.OPEN
    decided_by: str | None = None
    decided_at: Instant | None = None
    remark: str | None = None
    """Why it was rejected."""
    reverted_by: str | None = None
    reverted_at: Instant | None = None


class ChangeDecision(StrEnum):
    """Says whether a decision on a proposed change took effect."""

    DONE = "done"
    NOT_IN_STATE = "not in state"
    """The change was decided meanwhile, or there is none."""
    OWN_PROPOSAL = "own proposal"
    """The user who would apply it has proposed it."""
    OVERTAKEN = "overtaken"
    """The brand in force is not the version that the decision replaces."""


def replaced_version(decided: ConfigurationChange) -> tuple[Brand, Brand] | None:
    """Return the version that a decision replaces and the one that it brings into force; None if it
    changes nothing."""
    match decided.state:
        case ChangeState.APPLIED:
            return decided.before, decided.after
        case ChangeState.REVERTED:
            return decided.after, decided.before
        case ChangeState.OPEN | ChangeState.REJECTED:
            return None


@frozen
class BrandDay:
    """Names a day of a brand, by UTC."""

    brand: str
    day: int
    """Days since 1970-01-01."""


@frozen
class RefusalCount:
    """Says how many requests of a brand limits and flows refused on a day."""

    times: int
    """How many were refused."""
    recorded: int
    """How many of them are on record."""
