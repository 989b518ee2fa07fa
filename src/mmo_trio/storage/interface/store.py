"""Defines what the gateway needs of a store, and what every store guarantees.

`Store` combines what its users need: the engine a `BatchStore`, the workers a `WorkStore`, merchants' requests a
`LookUpStore`, staff an `AdminStore`. Every method raises StoreUnavailable when the store can't serve, and StoreCorrupt
when what it reads is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

from attrs import frozen

from mmo_sansio.messages.intents import Intent
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.clock_guard import ClockRecord, StoreClock
from mmo_sansio.resilience.ownership import Channel, OwnershipCounts
from mmo_sansio.resilience.store_mark import StoreMark, StoreState
from mmo_sansio.values.clock import DAY, FIRST_INSTANT, MINUTE, Instant, Span
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin import AdminStore
from mmo_trio.storage.interface.admin_types import BrandRecord, Configuration, KeyOwner, ServingProcess
from mmo_trio.storage.interface.retention import RetentionStore


class StoreUnavailable(Exception):
    """The store has stored nothing of the request, which may be repeated (P5)."""


class StoreLost(StoreUnavailable):
    """The store has answered nobody for a while; it has logged that, and will log when it answers again."""


class OutcomeUnknown(Exception):
    """Nobody can learn whether the batch was stored (P5)."""


class StoreCorrupt(Exception):
    """Stored data is damaged; nothing was made of it, and repeating the request does not help."""

    def __init__(self, damage: str, remedy: str = "restore a backup, or run `mmo db check`") -> None:
        super().__init__(f"{damage}: {remedy}")
        self.damage = damage


class StoreUnusable(Exception):
    """The store can't be opened as it is; the message says why and names the remedy."""


EPOCH_INTERVAL_S = 1.0
"""Seconds between two commits of a process that raise the store's epoch, at least."""

CHECK_TIMEOUT_S = 0.9
"""Seconds after which a store that does not answer `check` counts as unavailable."""


@frozen
class WorkItem:
    """An intent that this process has claimed, with its transaction as it is now."""

    intent: Intent
    transaction: Transaction


CLOCK_RECORDS_KEPT_FOR: Span = Span(30 * DAY)
"""How long the record of a machine stays that runs no gateway any more."""


CLOCK_RECORDS_RECENT_FOR: Span = Span(3 * MINUTE)
"""How old the record of a machine may be that tells whether its clock agrees with the store's."""


@frozen
class StoredClockRecord:
    """A record of the clocks, from which a process continues the gateway's own time."""

    record: ClockRecord
    age: Span | None
    """How long ago it was saved, by the store's own clock; None where the store has none."""


DecideBatch: TypeAlias = Callable[[Ledger], Sequence[Decision]]
"""A pure function: from a working set it makes the batch's decisions, applies each to the working set, and creates
nothing at or before the working set's `not_before`. A store that lost a race loads again and calls it again, and so
does one from whose working set it raises TransactionLocked. It may leave out decisions for which the working set does
that, and be called with these later."""


class BatchStore(Protocol):
    """Makes batches of decisions durable."""

    @property
    def batches_in_flight(self) -> int:
        """Return how many concurrent calls of `transact` are useful. With more than one, each commit fails, and is
        decided again, when what it was decided from has changed."""
        ...

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        """Load what is read, decide, and make changes and durable intents of all decisions durable at once.

        Durable intents belong to this process until they are concluded or it dies; on a shared store, callbacks belong
        to the process that owns their merchant's channel instead. StoreUnavailable says that nothing was stored;
        OutcomeUnknown says that nobody can learn it, and if the batch was stored after all, `claim_abandoned` returns
        its intents. An exception of `decide` itself stores nothing and comes through.
        """
        ...

    async def clock_record(self, boot_id: str) -> StoredClockRecord | None:
        """Return what was saved of the clocks during this start of the machine, or else the latest of another start or
        machine; None when nothing was saved."""
        ...

    async def read_clock(self, boot_id: str) -> StoreClock | None:
        """Return the store's time, and how many machines other than the one of this start lately agreed with it; None
        when the store has no clock of its own."""
        ...

    async def save_clock_record(self, record: ClockRecord) -> None:
        """Save the clocks as they are, in place of what was saved during the same start of the machine."""
        ...

    async def held_until(self) -> Instant:
        """Return the wall time before which nothing new may be dated, as records up to there were served (R7); 0 when
        there is none."""
        ...

    async def release_held(self, now: Instant) -> None:
        """Let new payments be dated from now on, although records beyond were served: a wrong clock has shown them."""
        ...


class ChannelOwnership(Protocol):
    """Coordinates the processes that share a store: which are alive, and which one sends the callbacks of a merchant.

    `mmo_sansio.resilience.ownership.OwnershipModel` defines the meaning; time is the store's own clock. Every method
    raises StoreUnavailable when nothing has happened, and OutcomeUnknown when the outcome cannot be learnt.
    """

    async def renew_lease(self) -> int:
        """Renew this process's lease, or begin another when it has none or its own was ended; return the lease's
        number. A new number says that the process owns nothing any more."""
        ...

    async def end_lease(self) -> None:
        """End this process's lease: all that it owned is free at once, or when this raises, by the lease's end. The
        next renewal begins another in any case."""
        ...

    async def counts(self) -> OwnershipCounts:
        """Return how many processes are alive, and how many channels they own."""
        ...

    async def claim(
        self,
        *,
        excluding: Collection[str] = (),
        known: Mapping[str, int] | None = None,
        waiting: Collection[str] | None = None,
        end_leases: bool = False,
    ) -> Sequence[Channel]:
        """Claim the channels that have callbacks waiting and that no process owns, but not those of these brands.

        With `known`, the fences of the channels that this process knows to be its own, a channel that it owns under
        another fence gets a new one and is returned: so the process learns what it claimed when an answer was lost.
        With `waiting`, the brands of callbacks that this process has committed lately, a store to which the search for
        all others is costly may leave these out for some seconds. With `end_leases`, first end the leases of processes
        that have run out; until that is done their owners can renew them.
        """
        ...

    async def find_callbacks(
        self,
        room: Mapping[str, int],
        *,
        known: Mapping[str, int] | None = None,
        taken: Mapping[str, Collection[str]] | None = None,
        afresh: Collection[str] = (),
    ) -> Sequence[WorkItem]:
        """Return callbacks that wait in this process's channels, whichever process committed them, at most so many of
        each brand, oldest first. Their intents carry the channel's fence. Nothing is changed, as only the owner of a
        channel sends them: the caller names what it has `taken` and not concluded, gatewayReferences by brand, which
        are left out.

        With `known`, only callbacks of channels are returned whose fence is the one that is known. A store to which
        the search is costly may find some seconds later what became visible out of order, except for the brands
        `afresh`."""
        ...

    async def release(self, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]) -> None:
        """Free these channels, by brand, and store the breakers that are given, in the gateway's own time, as far as
        this process owns the channels under these fences."""
        ...


class WorkStore(Protocol):
    """Holds what is to be done, and by which process."""

    @property
    def ownership(self) -> ChannelOwnership | None:
        """Return how processes share the store; None when this process has it to itself."""
        ...

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        """Return the merchants' breakers as their last outcomes left them, by brand, in the gateway's own time (K5)."""
        ...

    async def next_wake(self, *, after: Instant = FIRST_INSTANT) -> Instant | None:
        """Return the earliest `wake_at` that is later than `after`; None when there is none."""
        ...

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        """Return gatewayReferences of transactions whose `wake_at` has come, the earliest first. A shared store returns
        those in this process's share, and those that are long overdue."""
        ...

    async def due_claims(self, now: Instant, *, limit: int) -> Sequence[DepositClaim]:
        """Return claims of deposits whose `wake_at` has come, the earliest first. All processes that share a store get
        the same: the decision to wake one lets only one of them act."""
        ...

    async def begin_listing(self, provider: str, now: Instant, *, interval: Span) -> Instant | None:
        """Begin to list what was paid to this provider's account, in one process at a time: return from when on, which
        is now at first; None while the last listing began less than this interval ago. Times are the gateway's own."""
        ...

    async def save_listed(self, provider: str, until: Instant) -> None:
        """Save that all was listed that was paid before this time: the next listing begins with it, unless it would
        begin later anyway."""
        ...

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Claim durable intents that belong to no living process, oldest first; each is returned once. A shared store
        returns no callbacks: `ownership` does."""
        ...


class LookUpStore(Protocol):
    """Answers merchants' requests and payers' pages."""

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        """Return the transaction object, or None (L1, L2)."""
        ...

    async def list_records(self, query: ListRecords) -> Records:
        """Return a page of transaction objects (R1 to R7)."""
        ...

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        """Return one transaction, of any brand."""
        ...

    async def transactions(self, gateway_references: Sequence[str]) -> Mapping[str, Transaction]:
        """Return those of these transactions that are stored, of any brand, by gatewayReference: at most some hundred
        at a time."""
        ...

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        """Return the transaction of this hosted page."""
        ...

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        """Return the transaction whose gatewayReference ends with these twelve characters; None when none or several
        do."""
        ...

    async def deposit_claim(self, provider: str, receipt: str) -> DepositClaim | None:
        """Return the claim of a deposit with this receipt, open or settled."""
        ...

    async def key_owner(self, *digests: bytes) -> KeyOwner | None:
        """Return the brand, enabled or not, that has a key in use with one of these digests, and the key's id. They
        are digests of one key with different master keys."""
        ...

    async def brand_record(self, brand: str) -> BrandRecord | None:
        """Return a brand with its keys, retired ones too, the oldest first; None when there is no such brand."""
        ...


class ConfigurationStore(Protocol):
    """Tells every process when what it keeps in memory has changed, and staff which processes know the change."""

    async def configuration(self) -> Configuration:
        """Return the generation of brands, keys and closed providers. What is read of these after this call is of that
        generation or a later one."""
        ...

    async def use_configuration(self, generation: int, *, process: str) -> None:
        """Record that this process, by this name, uses nothing of an earlier generation any more. To repeat it costs
        nothing."""
        ...

    async def serving_processes(self) -> Sequence[ServingProcess]:
        """Return the processes that serve the store now, this one, too, if it does."""
        ...


class Store(BatchStore, WorkStore, LookUpStore, ConfigurationStore, Protocol):
    """A whole store, open."""

    @property
    def admin(self) -> AdminStore:
        """Return the admin API."""
        ...

    @property
    def retention(self) -> RetentionStore:
        """Return what removes old rows."""
        ...

    @property
    def raised_mark(self) -> StoreMark | None:
        """Return how far the store has come, as far as this process knows: by the last commit that raised its epoch
        and was confirmed; None while it doesn't know."""
        ...

    async def state(self) -> StoreState:
        """Return which store this is, and how far it has come."""
        ...

    async def check(self) -> None:
        """Return when the store can be reached and, as far as that is seen without a write, written to: this writes
        nothing, and takes at most CHECK_TIMEOUT_S."""
        ...

    async def aclose(self) -> None:
        """Close the store; later calls raise StoreUnavailable."""
        ...
