"""The store on PostgreSQL: a batch is one round trip to load, one to write and commit, and no lock in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar
from uuid import UUID

from mmo_sansio.messages.changes import CallbackRecorded, Journaled
from mmo_sansio.messages.intents import IntentKey, IntentKind
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.store import (
    Backlog,
    BrandRecord,
    ClosedProvider,
    Decide,
    OutcomeUnknown,
    StoredKey,
    StoreUnavailable,
    SuspenseEntry,
    Work,
)
from mmo_trio.storage.postgres import admin, integrity, ownership, records_horizon
from mmo_trio.storage.postgres import queries as reading
from mmo_trio.storage.postgres.batch_load import load
from mmo_trio.storage.postgres.batch_statements import statements_of
from mmo_trio.storage.postgres.bridge import Bridge, Connection, monotonic_s
from mmo_trio.storage.postgres.commits import (
    Commit,
    CommitInDoubt,
    Deadlines,
    commit_until_known,
    has_taken_place,
)
from mmo_trio.storage.postgres.connections import Ask, Pool, ask_until_answered
from mmo_trio.storage.postgres.ownership import PostgresChannels
from mmo_trio.storage.postgres.queries import hold
from mmo_trio.storage.shared.coalescing import Gathering
from mmo_trio.storage.shared.net_effect import batch_of
from mmo_trio.storage.sql.admin_store import SqlOffice
from mmo_trio.storage.sql.serialization import without_checksum

T = TypeVar("T")

_EXAMINATION_S = 24 * 3600.0


class PostgresStore:
    """See :class:`mmo_trio.storage.interface.store.Store`; made by :func:`mmo_trio.storage.postgres.open_postgres`."""

    def __init__(
        self, bridge: Bridge, writing: Pool, reading: Pool, holder: int, patience_s: float
    ) -> None:
        self._bridge = bridge
        self._writing = writing
        self._reading = reading
        serves = holder != ownership.NOBODY
        self._channels = PostgresChannels(bridge, writing, holder) if serves else None
        self._patience_s = patience_s
        self.office = SqlOffice(
            lambda begin: self._ask(lambda c: hold(c, begin())),
            lambda begin: self._write(lambda c: hold(c, begin())),
        )
        self._look_up = Gathering[AnyLookUp, bytes | None](self._look_up_together)
        self._keys_of = Gathering[str, Sequence[StoredKey]](self._keys_together)
        self._is_closed = False
        self._complete_up_to: Instant = 0
        """No transaction below it will appear any more."""
        self._in_doubt: list[tuple[UUID, Sequence[IntentKey]]] = []
        """Commits whose caller doesn't know what became of them, and the kept intents that nobody here acts upon."""

    # What the engine and the workers need

    @property
    def channels(self) -> PostgresChannels | None:
        """Any number of processes may serve it; administration holds nothing."""
        return self._channels

    @property
    def batches_in_flight(self) -> int:
        """Two: while one commits, the next one is loaded and decided. To each other they are as two nodes."""
        return 2

    @property
    def _holder(self) -> int:
        return ownership.NOBODY if self._channels is None else self._channels.number

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return await self._ask(ownership.breakers)

    async def transact(self, reads: Reads, decide: Decide) -> Sequence[Decision]:
        """Two round trips: load; then, when another node wasn't quicker, write and commit."""
        scheduled: list[IntentKey] = []

        async def attempt(
            connection: Connection, commit: Commit[Sequence[Decision]]
        ) -> Sequence[Decision]:
            loaded = await load(connection, reads)
            decisions = decide(loaded.ledger)
            batch = batch_of(decisions)
            scheduled[:] = batch.scheduled
            if not batch.is_empty:
                statements = statements_of(batch, loaded, holder=self._holder)
                await commit.whole(connection, batch.latest_stamp, statements, decisions)
            return decisions

        try:
            return await self._commit(attempt)
        except CommitInDoubt as error:
            self._in_doubt.append((error.commit, tuple(scheduled)))
            raise

    async def latest_stamp(self) -> Instant:
        return await self._ask(reading.latest_stamp)

    async def next_wake(self) -> Instant | None:
        return await self._ask(lambda c: ownership.next_wake(c, self._holder))

    async def woken(self, now: Instant, *, limit: int) -> Sequence[str]:
        return await self._ask(lambda c: ownership.woken(c, self._holder, now, limit))

    async def orphans(self, *, limit: int) -> Sequence[Work]:
        """Also what this process itself has scheduled without learning that it did."""
        assert self._holder != ownership.NOBODY, "administration takes on no work"
        strays = await self._settle_doubts()
        try:
            return (
                *strays,
                *await self._write(lambda c: ownership.take_on(c, self._holder, limit)),
            )
        except StoreUnavailable:
            if strays:
                return strays
            raise

    async def _settle_doubts(self) -> Sequence[Work]:
        """What commits in doubt have scheduled, once it is known that they took place."""
        found: list[Work] = []
        for doubt in tuple(self._in_doubt):
            id, keys = doubt
            keys = [key for key in keys if key[1] is not IntentKind.CALLBACK]
            try:
                took_place: bool = await self._bridge.run(self._has_taken_place, id)
                if took_place:
                    found += await self._ask(partial(reading.open_intents, keys=keys))
            except (StoreUnavailable, OutcomeUnknown):
                break
            self._in_doubt.remove(doubt)
        return found

    async def _has_taken_place(self, id: UUID) -> bool:
        return await has_taken_place(self._writing, id, monotonic_s() + self._patience_s)

    # Questions

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        row = await self._look_up(query)
        return None if row is None else without_checksum(row)

    async def _look_up_together(self, queries: Sequence[AnyLookUp]) -> Sequence[bytes | None]:
        return await self._ask(lambda c: reading.look_up(c, queries))

    async def list_records(self, query: ListRecords) -> Records:
        async def ask(connection: Connection) -> Records:
            if query.end > self._complete_up_to:
                complete = await records_horizon.close_up_to(connection, query.end)
                self._complete_up_to = max(self._complete_up_to, complete)
            return await reading.list_records(connection, query)

        return await self._ask(ask)

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        return await self._ask(lambda c: reading.transaction(c, gateway_reference))

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        return await self._ask(lambda c: reading.transaction_by_page_token(c, token))

    async def transaction_by_ending(self, ending: str) -> Transaction | None:
        return await self._ask(lambda c: reading.transaction_by_ending(c, ending))

    async def unknown_since(self, before: Instant, *, limit: int = 500) -> Sequence[Transaction]:
        return await self._ask(lambda c: reading.unknown_since(c, before, limit))

    async def backlog(self, *, stuck_before: Instant, overdue_before: Instant) -> Backlog:
        return await self._ask(lambda c: reading.backlog(c, stuck_before, overdue_before))

    async def closed_providers(self) -> Sequence[ClosedProvider]:
        return await self._ask(reading.closed_providers)

    async def find_transactions(
        self,
        *,
        reference: str | None = None,
        brand: str | None = None,
        status: Status | None = None,
        limit: int = 50,
    ) -> Sequence[Transaction]:
        return await self._ask(
            lambda c: reading.find_transactions(c, reference, brand, status, limit)
        )

    async def timeline(self, gateway_reference: str) -> Sequence[Journaled]:
        return await self._ask(lambda c: reading.timeline(c, gateway_reference))

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        return await self._ask(lambda c: reading.callbacks(c, brand, gateway_reference, limit))

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        return await self._ask(lambda c: reading.suspense(c, brand, with_closed, limit))

    async def brands(self) -> Sequence[BrandRecord]:
        return await self._ask(reading.brands)

    async def brand_by_key(self, digest: bytes) -> Brand | None:
        return await self._ask(lambda c: reading.brand_by_key(c, digest))

    async def keys_of(self, brand: str) -> Sequence[StoredKey]:
        return await self._keys_of(brand)

    async def _keys_together(self, brands: Sequence[str]) -> Sequence[Sequence[StoredKey]]:
        return await self._ask(lambda c: reading.keys_of(c, brands))

    # Administration

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        return await self._write(
            lambda c: admin.close_suspense(c, id, by=by, note=note, now=now), now
        )

    async def save_brands(self, brands: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        await self._write(lambda c: admin.save_brands(c, brands, removed))

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        return await self._write(lambda c: admin.add_key(c, brand, digest, sealed, now), now)

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        return await self._write(lambda c: admin.retire_key(c, brand, id, now), now)

    async def close_provider(self, closed: ClosedProvider) -> bool:
        return await self._write(lambda c: admin.close_provider(c, closed), closed.closed_at)

    async def open_provider(self, name: str) -> bool:
        return await self._write(lambda c: admin.open_provider(c, name))

    async def check(self) -> None:
        async def touch(connection: Connection) -> None:
            await connection.execute("UPDATE horizon SET at = at")

        await self._ask(touch)

    async def faults(self) -> Sequence[str]:
        """Everything that is wrong with the database, in words; empty when it is sound. Reads all of it."""
        self._must_be_open()

        async def crossing() -> Sequence[str]:
            deadline = monotonic_s() + _EXAMINATION_S
            return await ask_until_answered(self._reading, integrity.faults, deadline)

        return await self._bridge.run(crossing)

    async def renew(self) -> None:
        """Stay alive, as far as other processes can see."""
        await self._ask(lambda c: ownership.renew(c, self._holder))

    async def tidy(self) -> None:
        """Forget what nobody needs any more."""
        await self._ask(ownership.tidy)

    async def aclose(self) -> None:
        """Let others take on at once what this process holds; later calls raise StoreUnavailable."""
        if self._is_closed:
            return
        if self._holder != ownership.NOBODY:
            with suppress(StoreUnavailable):  # The lease runs out anyway.
                await self._ask(lambda c: ownership.resign(c, self._holder))
        if self._channels is not None:
            self._channels.close()
        self._is_closed = True

    # Crossings of the bridge

    async def _ask(self, ask: Ask[T]) -> T:
        """One crossing for a question."""
        self._must_be_open()

        async def crossing() -> T:
            deadline = monotonic_s() + self._patience_s
            return await ask_until_answered(self._reading, ask, deadline)

        return await self._bridge.run(crossing)

    async def _write(self, ask: Ask[T], stamp: Instant = 0) -> T:
        """One crossing for a change that isn't decided."""

        async def attempt(connection: Connection, commit: Commit[T]) -> T:
            await commit.begin(connection, stamp)
            result = await ask(connection)
            await commit.end(connection, result)
            return result

        return await self._commit(attempt)

    async def _commit(self, attempt: Callable[[Connection, Commit[T]], Awaitable[T]]) -> T:
        self._must_be_open()

        async def crossing() -> T:
            deadlines = Deadlines.within(self._patience_s)
            return await commit_until_known(self._writing, attempt, deadlines)

        return await self._bridge.run(crossing)

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
