"""The values of the admin API: brands and keys, console users, audit events, proposals, searches and counts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from attrs import field, frozen

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.queries import Position
from mmo_sansio.values.clock import DAY, HOUR, Instant, Span
from mmo_sansio.values.model import Brand, Status, Transaction


@frozen
class SuspenseEntry:
    """A line of the suspense book."""

    id: int
    reason: SuspenseReason
    provider: str
    content: str
    """Text of a JSON object."""
    gateway_reference: str | None
    brand: str | None
    first_at: Instant
    last_at: Instant
    times: int
    """How often the same was told for the same reason; counts on when it is told again after it was closed."""
    closed_at: Instant | None = None
    closed_by: str | None = None
    note: str | None = None
    """Why a person closed it."""


class Role(StrEnum):
    """What an operator may do; see :mod:`mmo_trio.console.permissions`."""

    VIEWER = "viewer"
    SUPPORT = "support"
    APPROVER = "approver"
    ADMIN = "admin"


@frozen
class ConsoleUser:
    """A person who may sign in at the console."""

    name: str
    role: Role
    password_hash: str = field(repr=False)
    added_at: Instant
    disabled_at: Instant | None = None


@frozen
class ConsoleSession:
    """A signed-in browser."""

    digest: bytes = field(repr=False)
    """SHA-256 of the token that the browser holds; the token itself is kept nowhere."""
    user: str
    began_at: Instant
    seen_at: Instant
    """When it was used last, to the minute."""


@frozen
class AuditEvent:
    """Something that somebody does, as the audit log tells it; written down before it is done."""

    at: Instant
    actor: str
    """`operator:NAME`, or `cli:USER` for a command on a machine of the gateway's."""
    action: str
    """What is done, e.g. `signed_in`."""
    about: str = ""
    """To what: `payment:REFERENCE`, `suspense:ID`, `provider:NAME`, `operator:NAME`, `brand:ID`."""
    detail: str = "{}"
    """Text of a JSON object."""


@frozen
class AuditRow:
    """A row of the audit log. Each holds the hash of the one before, so none can be changed or taken out unnoticed."""

    number: int
    """Counts from 1, without gaps."""
    event: AuditEvent
    previous_hash: str
    """The hash of the row before; that of nothing for the first."""
    hash: str
    """SHA-256 of the row's canonical content, in hexadecimal; see `audit_chain.row_hash`."""


@frozen
class AuditHead:
    """Where the audit log ends."""

    number: int
    hash: str


class ProposalState(StrEnum):
    """How far a proposal to end a payment by hand has come."""

    OPEN = "open"
    APPROVED = "approved"
    """Decided, and not yet done: the gateway died in between. It may be carried out again; twice does no harm."""
    DONE = "done"
    REJECTED = "rejected"
    REFUSED = "refused"
    """Approved, and then refused by the law or by evidence that came meanwhile."""


@frozen
class Proposal:
    """An operator wants to end a payment by hand; where four eyes are wanted, another one decides."""

    id: int
    """0 until it is kept."""
    gateway_reference: str
    brand: str
    error_code: str | None
    """None: the money has moved."""
    provider_reference: str | None
    reason: str
    evidence: str
    proposed_by: str
    proposed_at: Instant
    state: ProposalState = ProposalState.OPEN
    decided_by: str | None = None
    decided_at: Instant | None = None
    remark: str | None = None
    """Why it was rejected or refused."""


@frozen
class PaymentFilter:
    """Which payments to list, newest first."""

    brand: str | None = None
    method: str | None = None
    status: Status | None = None
    before: Position | None = None
    limit: int = 50


@frozen
class PaymentPage:
    """Payments, newest first, and where to go on."""

    transactions: Sequence[Transaction]
    next_position: Position | None
    """None when there is nothing older. There may be a place although few were found: one look goes over so many
    payments at most, and then says how far it came."""


class CountDimension(StrEnum):
    """By what payments are counted."""

    BRAND = "brand"
    METHOD = "method"
    PROVIDER = "provider"


COUNT_SPANS: Sequence[Span] = (HOUR, DAY)
"""The lengths of time for which payments are counted."""

LATENCY_BOUNDS_S: Sequence[int] = (1, 2, 5, 10, 20, 30, 60, 120, 300, 900, 3_600)
"""Upper bounds in seconds of the classes into which the time from creation to result falls; beyond the last is 0."""


@frozen
class PaymentCount:
    """How many payments of one kind there were."""

    key: str
    """A brand, method or provider, or where a span of time begins, as text."""
    status: Status
    """`pending` counts payments by when they were created, the others by when they ended."""
    latency_s: int
    """Upper bound of its class of latency; 0 for those beyond all, and for `pending`."""
    count: int


@frozen
class CountQuery:
    """Which counts are wanted: spans of this length that begin in [begin, end), of one brand, method or provider."""

    span: Span
    begin: Instant
    end: Instant
    only: tuple[CountDimension, str] | None = None


@frozen
class BreakerChange:
    """When a merchant's breaker opened or closed."""

    brand: str
    at: Instant
    state: str


@frozen
class StoredApiKey:
    """An API key as it is kept: a digest to find it by, and sealed text to send back in callbacks (A4, A5)."""

    id: int
    brand: str
    digest: bytes = field(repr=False)
    sealed: bytes = field(repr=False)
    added_at: Instant
    retired_at: Instant | None = None


@frozen
class ClosedProvider:
    """A provider that a person has closed for new payments."""

    name: str
    closed_at: Instant
    closed_by: str
    reason: str


@frozen
class Backlog:
    """How much is waiting in a store, all nodes together."""

    pending: int
    """Transactions that haven't ended."""
    stuck: int
    """Of these, those that were created before a given time."""
    overdue: int
    """Of these, those that should have been woken before a given time, to be asked about or to expire."""
    callbacks: int
    """Callbacks that aren't concluded."""
    suspense: int
    """Open entries of the suspense book."""


@frozen
class BrandRecord:
    """A brand and its keys, the oldest first."""

    brand: Brand
    keys: tuple[StoredApiKey, ...]
