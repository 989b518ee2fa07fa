"""What the gateway needs of a store, and what every store promises."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

from attrs import field, frozen

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.messages.intents import Intent
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.ownership import Channel, OwnershipCounts
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.admin import AdminStore
from mmo_trio.storage.interface.admin_types import SuspenseEntry as SuspenseEntry


class StoreUnavailable(Exception):
    """Nothing of what was asked has been stored, and it may be asked again (P5)."""


class OutcomeUnknown(Exception):
    """It can't be learnt whether the batch was stored (P5)."""


class StoreCorrupt(Exception):
    """What is stored is damaged; nothing was made of it, and asking again won't help."""


class StoreUnusable(Exception):
    """The store can't be opened as it is; the message says why and names the remedy."""


@frozen
class WorkItem:
    """An intent that this process has taken on, with its transaction as it is now."""

    intent: Intent
    transaction: Transaction


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


DecideBatch: TypeAlias = Callable[[Ledger], Sequence[Decision]]
"""Pure: given a working set it makes the batch's decisions, applying each to the working set, with stamps not
before the working set's `not_before`. It may be called more than once, when the store lost a race and loads again."""


class ChannelOwnership(Protocol):
    """What processes that share a store agree on through it: who is alive, and who calls which merchant back.

    `mmo_sansio.resilience.ownership.OwnershipModel` is what it means; time is the store's own clock. Every method raises
    StoreUnavailable when nothing has happened, OutcomeUnknown when it can't be learnt.
    """

    async def renew_lease(self) -> int:
        """Renew this process's lease, or begin another when it has none or its own has ended: the lease's number. A
        number that is new says that all it held is gone."""
        ...

    async def end_lease(self) -> None:
        """End this process's lease: all it held is free at once, or when this raises, by the lease's end. The next
        renewal begins another in any case."""
        ...

    async def counts(self) -> OwnershipCounts:
        """How many processes are alive, and how many channels they hold."""
        ...

    async def claim(self, *, excluding: Collection[str] = ()) -> Sequence[Channel]:
        """Take the channels that have callbacks waiting and that nobody alive holds, but not those of these brands."""
        ...

    async def claim_callbacks(
        self, capacity: Mapping[str, int], *, already_claimed: Collection[str] = ()
    ) -> Sequence[WorkItem]:
        """Claim callbacks of channels that this process holds, at most so many of each brand, oldest first: those that
        nobody has claimed under the channel's present fence, whoever committed them. Their intents carry that fence,
        and each is handed out once under it; those `claimed` (gatewayReferences), claimed under an earlier one, are
        left as they are."""
        ...

    async def release(self, fences: Mapping[str, int]) -> None:
        """Free these channels, by brand, as far as this process holds them under these fences."""
        ...


class Store(Protocol):
    """Every method raises StoreUnavailable when the store can't serve, StoreCorrupt when what it reads is damaged."""

    @property
    def ownership(self) -> ChannelOwnership | None:
        """How processes share it; None when this process has it to itself."""
        ...

    @property
    def admin(self) -> AdminStore:
        """What it keeps for the people who run the gateway."""
        ...

    @property
    def batches_in_flight(self) -> int:
        """How many calls of `transact` gain from being under way at once. More than one: each commit fails, and is
        decided again, when what it was decided from has changed."""
        ...

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        """The merchants' breakers as they were kept last, by brand, in wall time (K5)."""
        ...

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        """Load what is read, decide, and make changes and kept intents of all decisions durable at once.

        Kept intents belong to this process until they are concluded or it dies; on a store that is shared, callbacks
        belong to who holds their merchant's channel instead. When it raises
        StoreUnavailable nothing was stored; OutcomeUnknown says that it can't be learnt, and if it was stored after
        all its kept intents are handed out by `orphans`. An exception of `decide` itself stores nothing and comes
        through.
        """
        ...

    async def latest_stamp(self) -> Instant:
        """The latest instant that is stored anywhere: the clock never goes below it. 0 when nothing is stored."""
        ...

    async def next_wake(self) -> Instant | None:
        """The earliest `wake_at`; None while nothing is pending."""
        ...

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        """gatewayReferences of transactions whose `wake_at` has come, the earliest first. Of a store that is shared,
        those in this process's share, and those that are long overdue."""
        ...

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Take on kept intents that belong to nobody alive, oldest first; each is handed out once. Of a store that is
        shared, no callbacks: `channels` hands those out."""
        ...

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        """The transaction object, or None (L1, L2)."""
        ...

    async def list_records(self, query: ListRecords) -> Records:
        """A page of transaction objects (R1 to R7)."""
        ...

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        """One transaction, whosever it is."""
        ...

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        """The transaction that this hosted page is for."""
        ...

    async def find_transactions(
        self,
        *,
        reference: str | None = None,
        brand: str | None = None,
        status: Status | None = None,
        limit: int = 50,
    ) -> Sequence[Transaction]:
        """For people: by either reference, brand or status, the newest first."""
        ...

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        """The transaction whose gatewayReference ends with these twelve characters; None when none or several do."""
        ...

    async def unknown_outcomes(
        self, submitted_before: Instant, *, limit: int = 500
    ) -> Sequence[Transaction]:
        """Pending transactions that may have been received by their provider before this time, the oldest first."""
        ...

    async def backlog(self, *, stuck_before: Instant, overdue_before: Instant) -> Backlog:
        """What is waiting: pending transactions created or due before these times, callbacks, suspense."""
        ...

    async def closed_providers(self) -> Sequence[ClosedProvider]:
        """The providers that are closed for new payments, by name."""
        ...

    async def close_provider(self, closed: ClosedProvider) -> bool:
        """Close a provider for new payments; False when it is closed already."""
        ...

    async def open_provider(self, name: str) -> bool:
        """Open it again; False when it isn't closed."""
        ...

    async def timeline(self, gateway_reference: str) -> Sequence[JournalEntry]:
        """The journal of one transaction, in order."""
        ...

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        """Recorded callbacks, in the order of their recording; the newest `limit` of them.

        The bodies of answers are there only when one transaction is asked for: each may be a megabyte (K4).
        """
        ...

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        """The suspense book, in the order of first telling."""
        ...

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        """Close an open entry; False when there is no open entry with this id."""
        ...

    async def brands(self) -> Sequence[BrandRecord]:
        """Every brand, by id."""
        ...

    async def brand_by_key(self, digest: bytes) -> Brand | None:
        """The brand, enabled or not, whose key that isn't retired has this digest."""
        ...

    async def keys_of(self, brand: str) -> Sequence[StoredApiKey]:
        """The keys of a brand, retired ones too, the oldest first; none when there is no such brand."""
        ...

    async def save_brands(self, brands: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        """Add or replace brands, and remove some with their keys, all at once."""
        ...

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        """Add a key; False when the same key is there already. Raises KeyError when there is no such brand."""
        ...

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        """Retire a key; False when the brand has no such key in use."""
        ...

    async def check(self) -> None:
        """Return when the store is reachable and writable."""
        ...

    async def aclose(self) -> None:
        """Let go of the store; later calls raise StoreUnavailable."""
        ...
