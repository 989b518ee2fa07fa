"""Defines what the gateway needs of a store, written once for all SQL databases: what differs
between them is abstract here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mmo_sansio.messages.intents import PollEnded
from mmo_sansio.messages.queries import (
    AnyLookUp,
    ListRecords,
    ListReversals,
    Position,
    Records,
)
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.clock_guard import ClockRecord, StoreClock
from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import FIRST_INSTANT, Instant, Span, earlier
from mmo_sansio.values.model import DepositClaim, Transaction
from mmo_sansio.values.reversals import Reversal
from mmo_trio.storage.interface.admin_types import (
    BrandRecord,
    Configuration,
    KeyOwner,
    ServingProcess,
)
from mmo_trio.storage.interface.store import (
    CLOCK_RECORDS_KEPT_FOR,
    ChannelOwnership,
    DecideBatch,
    StoredClockRecord,
    WorkItem,
)
from mmo_trio.storage.sql import configuration, monitoring, serialization
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.coalescing import Coalescer
from mmo_trio.storage.sql.masked_rows import Forget, forget_nothing
from mmo_trio.storage.sql.payment_search import AFTER_NEWEST
from mmo_trio.storage.sql.records_page import list_records
from mmo_trio.storage.sql.retention import RetentionStore
from mmo_trio.storage.sql.reversals_page import list_reversals
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import Row, RunQuery, RunWrite, SqlQuery, execute

T = TypeVar("T")

# Of keys that are in use: a retired one opens nothing.
_SELECT_KEY_OWNER = """
    SELECT brands.brand, api_keys.id FROM api_keys JOIN brands ON brands.id = api_keys.brand
    WHERE digest IN ({}) AND retired_at IS NULL
"""

_CLOCK_COLUMNS = "boot_id, monotonic, time, utc, served_until"

# Returns a row to one of all processes, and only after the interval: of several that try at once,
# the others find `begun_at` changed, and get no row.
_BEGIN_LISTING = """
    INSERT INTO deposit_listings (provider, begun_at, listed_until) VALUES (?, ?, ?)
    ON CONFLICT (provider) DO UPDATE SET begun_at = excluded.begun_at
    WHERE deposit_listings.begun_at <= excluded.begun_at - ? RETURNING listed_until
"""
_SAVE_LISTED = (
    "UPDATE deposit_listings SET listed_until = ? WHERE provider = ? AND listed_until < ?"
)


class Store(ABC):
    """A whole store, open: what the databases do differently is abstract.

    Every method raises StoreUnavailable when the store can't serve, and StoreCorrupt when what it
    reads is damaged."""

    batches_in_flight: int
    """How many concurrent calls of `transact` are useful. With more than one, each commit fails,
    and is decided again, when what it was decided from has changed."""
    ownership: ChannelOwnership | None
    """How processes share the store; None when this process has it to itself."""
    admin: AdminStore
    """What staff and their commands read and change."""
    retention: RetentionStore
    """What removes old rows."""

    def __init__(
        self,
        schema: SqlSchema,
        read: RunQuery,
        write: RunWrite,
        forget_payments: Forget = forget_nothing,
    ) -> None:
        self._schema = schema
        self._run_query = read
        self._run_write = write
        self.admin = AdminStore(read, write, schema.clear_breaker)
        self.retention = RetentionStore(
            schema=schema, read=read, write=write, forget=forget_payments
        )
        self._look_up_coalescer = Coalescer[AnyLookUp, Row | None](self._look_up_all)
        self._brand_coalescer = Coalescer[str, BrandRecord | None](self._find_brands)

    @property
    def log_bytes(self) -> int | None:
        """Return the length of the write-ahead log; None where that is the database's own."""
        return None

    # Batches of decisions, and the clocks that date them

    @abstractmethod
    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        """Load what is read, decide, and make changes and durable intents of all decisions durable
        at once.

        Durable intents belong to this process until they are concluded or it dies; on a shared
        store, callbacks belong to the process that owns their merchant's channel instead.
        StoreUnavailable says that nothing was stored; OutcomeUnknown says that nobody can learn it,
        and if the batch was stored after all, `claim_abandoned` returns its intents. An exception
        of `decide` itself stores nothing and comes through."""

    async def clock_record(self, boot_id: str) -> StoredClockRecord | None:
        """Return what was saved of the clocks during this start of the machine, or else the latest
        of another start or machine; None when nothing was saved."""
        return await self._run_query(lambda: _clock_record(self._schema, boot_id))

    async def read_clock(self, boot_id: str) -> StoreClock | None:
        """Return the store's time, and how many machines other than the one of this start lately
        agreed with it; None when the store has no clock of its own."""
        return await self._run_query(lambda: _read_clock(self._schema, boot_id))

    async def save_clock_record(self, record: ClockRecord) -> None:
        """Save the clocks as they are, in place of what was saved during the same start of the
        machine."""
        await self._run_write(lambda: _save_clock_record(self._schema, record))

    async def held_until(self) -> Instant:
        """Return the wall time before which nothing new may be dated, as records up to there were
        served (R7); 0 when there is none."""
        return await self._run_query(lambda: _held_until(self._schema))

    async def release_held(self, now: Instant) -> None:
        """Let new payments be dated from now on, although records beyond were served: a wrong clock
        has shown them."""
        await self._run_write(lambda: _release_held(self._schema, now))

    # What is to be done, and by which process

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        """Return the merchants' breakers as their last outcomes left them, by brand, in the
        gateway's own time (K5)."""
        return await self._run_query(lambda: monitoring.breakers(self._schema.breaker_table))

    @abstractmethod
    async def next_wake(self, *, after: Instant = FIRST_INSTANT) -> Instant | None:
        """Return the earliest `wake_at` that is later than `after`; None when there is none."""

    @abstractmethod
    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        """Return gatewayReferences of transactions whose `wake_at` has come, the earliest first. A
        shared store returns those in this process's share, and those that are long overdue."""

    async def due_claims(self, now: Instant, *, limit: int) -> Sequence[DepositClaim]:
        """Return claims of deposits whose `wake_at` has come, the earliest first. All processes
        that share a store get the same: the decision to wake one lets only one of them act."""
        statement = (
            "SELECT claim FROM deposit_claims WHERE wake_at <= ? ORDER BY wake_at, receipt LIMIT ?"
        )
        return await self._fetch(_parse_claims, statement, now, limit)

    async def due_reversals(self, now: Instant, *, limit: int) -> Sequence[Reversal]:
        """Return reversals whose `wake_at` has come, of so many payments, the earliest first, as
        `due_claims` does."""
        statement = (
            "SELECT reversals FROM reversals WHERE wake_at <= ? ORDER BY wake_at, payment LIMIT ?"
        )
        # A row has all reversals of a payment, and wakes with the earliest of them.
        found = await self._fetch(_parse_reversals, statement, now, limit)
        return [
            reversal
            for reversal in found
            if reversal.wake_at is not None and reversal.wake_at <= now
        ]

    async def begin_listing(self, provider: str, now: Instant, *, interval: Span) -> Instant | None:
        """Begin to list what was paid to this provider's account, in one process at a time: return
        from when on, which is now at first; None while the last listing began less than this
        interval ago. Times are the gateway's own."""
        rows = await self._run_write(lambda: execute(_BEGIN_LISTING, provider, now, now, interval))
        if rows:
            return Instant(rows[0][0])
        return None

    async def save_listed(self, provider: str, until: Instant) -> None:
        """Save that all was listed that was paid before this time: the next listing begins with it,
        unless it would begin later anyway."""
        await self._run_write(lambda: execute(_SAVE_LISTED, until, provider, until))

    @abstractmethod
    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Claim durable intents that belong to no living process, oldest first; each is returned
        once. A shared store returns no callbacks: `ownership` does."""

    # Merchants' requests and payers' pages

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        """Return the transaction object, or None (L1, L2)."""
        row = await self._look_up_coalescer(query)
        if row is None:
            return None
        return serialization.object_of_row(row)

    async def list_records(self, query: ListRecords) -> Records:
        """Return a page of transaction objects (R1 to R7)."""
        return await self._run_query(lambda: list_records(query))

    async def list_reversed_payments(self, query: ListReversals) -> Records:
        """Return a page of objects of a brand's payments of which money was asked back."""
        return await self._run_query(lambda: list_reversals(query))

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        """Return one transaction, of any brand."""
        return await self._only_transaction("gateway_reference = ?", gateway_reference)

    async def transactions(self, gateway_references: Sequence[str]) -> Mapping[str, Transaction]:
        """Return those of these transactions that are stored, of any brand, by gatewayReference: at
        most some hundred at a time."""
        if not gateway_references:
            return {}
        places = ", ".join("?" * len(gateway_references))
        statement = (
            f"SELECT order_row, progress FROM transactions WHERE gateway_reference IN ({places})"
        )
        found = await self._fetch(_parse_transactions, statement, *gateway_references)
        return {payment.reference: payment for payment in found}

    async def open_polls(self, gateway_references: Sequence[str]) -> Mapping[str, PollEnded]:
        """Return the questions about these payments that are open, by gatewayReference: about at
        most some hundred payments at a time."""
        places = ", ".join("?" * len(gateway_references))
        statement = (
            "SELECT gateway_reference, since, hint, provider_reference FROM intents"
            f" WHERE kind = 'poll' AND gateway_reference IN ({places})"
        )
        found = await self._fetch(_parse_polls, statement, *gateway_references)
        return {record.gateway_reference: record for record in found}

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        """Return the transaction of this hosted page."""
        return await self._only_transaction("page_token = ?", token)

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        """Return the transaction whose gatewayReference ends with these twelve characters; None
        when none or several do."""
        return await self._only_transaction(f"{self._schema.reference_suffix} = ?", suffix)

    async def _only_transaction(self, condition: str, value: str) -> Transaction | None:
        statement = f"SELECT order_row, progress FROM transactions WHERE {condition} LIMIT 2"
        return await self._fetch(_parse_only_transaction, statement, value)

    async def deposit_claim(self, provider: str, receipt: str) -> DepositClaim | None:
        """Return the claim of a deposit with this receipt, open or settled."""
        statement = "SELECT claim FROM deposit_claims WHERE provider = ? AND receipt = ?"
        found = await self._fetch(_parse_claims, statement, provider, receipt)
        if found:
            return found[0]
        return None

    async def open_claims(self, payment: str) -> Sequence[DepositClaim]:
        """Return the claims of deposits that name this payment and are not settled."""
        statement = (
            "SELECT claim FROM deposit_claims WHERE payment = ? AND wake_at IS NOT NULL"
            " ORDER BY wake_at, receipt"
        )
        return await self._fetch(_parse_claims, statement, payment)

    async def deposit_of(self, provider: str, receipt: str) -> str | None:
        """Return the gatewayReference of the deposit that was booked with this receipt."""
        statement = (
            "SELECT gateway_reference FROM deposits WHERE provider = ? AND provider_reference = ?"
        )
        return await self._fetch(_parse_only_text, statement, provider, receipt)

    async def reversals(self, payment: str) -> Sequence[Reversal]:
        """Return the reversals of a payment, in the order of their numbers."""
        return await self._fetch(
            _parse_reversals, "SELECT reversals FROM reversals WHERE payment = ?", payment
        )

    async def list_reversals(
        self, *, only_unfinished: bool = False, before: Position | None = None, limit: int
    ) -> Sequence[Reversal]:
        """Return the reversals of so many payments, those that were asked for last first. A
        position is the time of a payment's newest reversal and its gatewayReference."""
        at = before or AFTER_NEWEST
        condition = ""
        if only_unfinished:
            condition = "unfinished > 0 AND "

        statement = (
            f"SELECT reversals FROM reversals WHERE {condition}"
            "(asked_at, payment) < (?, ?) ORDER BY asked_at DESC, payment DESC LIMIT ?"
        )
        return await self._fetch(
            _parse_reversals, statement, at.created_at, at.gateway_reference, limit
        )

    async def brand_by_host(self) -> Mapping[str, str]:
        """Return the brands that have a host of their own, by this, in small letters (A6)."""
        host = self._schema.host_of_brand
        statement = f"SELECT {host}, id FROM brands WHERE {host} IS NOT NULL"
        found = await self._fetch(tuple, statement)
        return {host.lower(): brand for host, brand in found}

    async def key_owner(self, *digests: bytes) -> KeyOwner | None:
        """Return the brand, enabled or not, that has a key in use with one of these digests, and
        the key's id. They are digests of one key with different master keys."""
        statement = _SELECT_KEY_OWNER.format(", ".join("?" * len(digests)))
        return await self._fetch(_parse_key_owner, statement, *digests)

    async def brand_record(self, brand: str) -> BrandRecord | None:
        """Return a brand with its keys, retired ones too, the oldest first; None when there is no
        such brand."""
        return await self._brand_coalescer(brand)

    # What every process keeps in memory, and which process knows that it has changed

    async def configuration(self) -> Configuration:
        """Return the generation of brands, keys and closed providers. What is read of these after
        this call is of that generation or a later one."""
        return await self._fetch(
            configuration.parse_configuration, configuration.SELECT_CONFIGURATION
        )

    @abstractmethod
    async def use_configuration(self, generation: int, *, process: str) -> None:
        """Record that this process, by this name, uses nothing of an earlier generation any more.
        To repeat it costs nothing."""

    @abstractmethod
    async def serving_processes(self) -> Sequence[ServingProcess]:
        """Return the processes that serve the store now, this one, too, if it does."""

    # The store as a whole. Commits raise its epoch, a number by which an older copy of it is
    # recognised, as after a backup was restored (`mmo_sansio.resilience.store_mark`).

    @property
    @abstractmethod
    def raised_state(self) -> StoreState | None:
        """Return how far the store has come, as far as this process knows: by the last commit that
        raised an epoch and was confirmed; None while it doesn't know."""

    @property
    @abstractmethod
    def has_unmarked_commits(self) -> bool:
        """Return whether this process may have committed something since an epoch was raised last:
        nobody could tell a backup of between from the store."""

    @abstractmethod
    async def raise_epoch(self) -> None:
        """Raise the epoch in a commit of its own. Only a serving process does, or once a second
        some other commit of it."""

    @abstractmethod
    def count_commands(self) -> None:
        """Let each commit of this command raise the command epoch from now on."""

    async def state(self) -> StoreState:
        """Return which store this is, and how far it has come."""
        return await self._fetch(configuration.parse_store_state, configuration.SELECT_STORE_STATE)

    @abstractmethod
    async def check(self) -> None:
        """Return when the store can be reached and, as far as that is seen without a write, written
        to: this writes nothing, and takes at most CHECK_TIMEOUT_S."""

    @abstractmethod
    async def integrity_errors(self) -> Sequence[str]:
        """Return a sentence for each error in the stored data. Reads all of it."""

    async def rows_without_partition(self) -> Sequence[str]:
        """Return a sentence for each table with rows for whose time no partition was made; none
        where tables have no partitions."""
        return ()

    @abstractmethod
    async def aclose(self) -> None:
        """Close the store; later calls raise StoreUnavailable."""

    # How a database is read

    @abstractmethod
    async def _fetch(self, parse: Callable[[Sequence[Row]], T], statement: str, *values: Any) -> T:
        """Return the parsed rows of one statement, without the cost of a conversation."""

    @abstractmethod
    async def _look_up_all(self, look_ups: Sequence[AnyLookUp]) -> Sequence[Row | None]:
        """Return for each look-up a row of OBJECT_COLUMNS of the brand's transaction."""

    @abstractmethod
    async def _find_brands(self, brands: Sequence[str]) -> Sequence[BrandRecord | None]:
        """Return each of these brands with its keys, the oldest first."""


def _clock_record(schema: SqlSchema, boot_id: str) -> SqlQuery[StoredClockRecord | None]:
    rows = yield from execute(
        f"SELECT {_CLOCK_COLUMNS}, {schema.clock_record_age} FROM clock_records"
        " ORDER BY boot_id = ? DESC, time DESC LIMIT 1",
        boot_id,
    )
    if not rows:
        return None

    *columns, age = rows[0]
    return StoredClockRecord(ClockRecord(*columns), age)


def _read_clock(schema: SqlSchema, boot_id: str) -> SqlQuery[StoreClock | None]:
    if not schema.clock_query:
        return None

    ((now, agreeing, differing),) = yield from execute(schema.clock_query, boot_id)
    return StoreClock(Instant(now), agreeing, differing)


def _save_clock_record(schema: SqlSchema, record: ClockRecord) -> SqlQuery[None]:
    """Replace the record of this start of the machine, and remove those of machines that are long
    gone."""
    yield from execute(
        f"INSERT INTO clock_records ({_CLOCK_COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT "
        f"(boot_id) DO UPDATE SET"
        " monotonic = excluded.monotonic, time = excluded.time, utc = excluded.utc,"
        f" served_until = excluded.served_until{schema.touch_clock_record}",
        record.boot_id,
        record.monotonic,
        record.time,
        record.utc,
        record.served_until,
    )
    yield from execute(
        "DELETE FROM clock_records WHERE boot_id <> ? AND time < ?",
        record.boot_id,
        earlier(record.time, CLOCK_RECORDS_KEPT_FOR),
    )


def _held_until(schema: SqlSchema) -> SqlQuery[Instant]:
    # Whatever is dated last: a later process dates nothing before it.
    columns = [f"SELECT max({column}) AS at FROM {table}" for table, column in schema.held_until]
    ((latest,),) = yield from execute(
        f"SELECT coalesce(max(at), 0) FROM ({' UNION ALL '.join(columns)}) AS each_at"
    )
    return Instant(int(latest))


def _release_held(schema: SqlSchema, now: Instant) -> SqlQuery[None]:
    """Bring those that lie in the future back to now."""
    for table, column in schema.held_until:
        yield from execute(f"UPDATE {table} SET {column} = ? WHERE {column} > ?", now, now)


def _parse_only_transaction(rows: Sequence[Row]) -> Transaction | None:
    # Of two with one suffix nobody can tell which is meant.
    if len(rows) == 1:
        return serialization.parse_transaction(*rows[0])
    return None


def _parse_transactions(rows: Sequence[Row]) -> Sequence[Transaction]:
    return [serialization.parse_transaction(*row) for row in rows]


def _parse_polls(rows: Sequence[Row]) -> Sequence[PollEnded]:
    return [PollEnded(*row) for row in rows]


def _parse_only_text(rows: Sequence[Row]) -> str | None:
    if rows:
        return str(rows[0][0])
    return None


def _parse_claims(rows: Sequence[Row]) -> Sequence[DepositClaim]:
    return [serialization.parse_claim(row[0]) for row in rows]


def _parse_reversals(rows: Sequence[Row]) -> Sequence[Reversal]:
    return [reversal for row in rows for reversal in serialization.parse_reversals(row[0])]


def _parse_key_owner(rows: Sequence[Row]) -> KeyOwner | None:
    if rows:
        return KeyOwner(serialization.parse_brand(rows[0][0]), str(rows[0][1]))
    return None
