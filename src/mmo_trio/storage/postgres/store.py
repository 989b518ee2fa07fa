"""The store on PostgreSQL: a batch is one round trip to load, one to write and commit, and no wait
in between."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import psycopg
import trio
from attrs import evolve, frozen

from mmo_sansio.messages.intents import IntentKey, IntentKind, PollProvider
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import FIRST_INSTANT, Instant, Span, later
from mmo_trio.storage.interface.admin_types import (
    BrandRecord,
    ServingProcess,
)
from mmo_trio.storage.interface.store import (
    CHECK_TIMEOUT_S,
    DecideBatch,
    OutcomeUnknown,
    StoreUnavailable,
    WorkItem,
)
from mmo_trio.storage.postgres import maintenance, ownership, partitions, queries
from mmo_trio.storage.postgres.assumptions import Assumptions, is_found_out
from mmo_trio.storage.postgres.batch_load import LoadedBatch, load_batch
from mmo_trio.storage.postgres.batch_statements import batch_statements
from mmo_trio.storage.postgres.commits import (
    Commit,
    CommitDeadlines,
    CommitInDoubt,
    CommitKey,
    EpochRaiser,
    commit_until_known,
    is_committed,
)
from mmo_trio.storage.postgres.connection_pool import ConnectionPool, PostgresCall, RunCall
from mmo_trio.storage.postgres.connections import call_with_retry
from mmo_trio.storage.postgres.maintenance import analyze_unknown_tables
from mmo_trio.storage.postgres.ownership import PostgresChannelOwnership
from mmo_trio.storage.postgres.partitions import PostgresRetentionStore
from mmo_trio.storage.postgres.primary import lock_store_state, read_store_state
from mmo_trio.storage.postgres.repeated_scans import DueSearch
from mmo_trio.storage.postgres.server_checks import find_missing_rights
from mmo_trio.storage.postgres.shared_locks import (
    ACQUIRE_WRITER_LOCK,
    SUBMISSION_LOCK,
    RecordsHorizon,
    find_holders,
    wait_for_holders,
)
from mmo_trio.storage.postgres.statements import KnownBrands
from mmo_trio.storage.postgres.tables import Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.integrity import integrity_errors
from mmo_trio.storage.sql.net_effect import NetEffect, net_effect
from mmo_trio.storage.sql.records_page import list_records
from mmo_trio.storage.sql.statements import Row, SqlQuery, SqlStatement, run_query_async
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.waiting import end_then_checkpoint

T = TypeVar("T")

_CHECK = "SELECT at, current_setting('transaction_read_only') FROM horizon"
_INTEGRITY_CHECK_TIMEOUT_S = 24 * 3600.0


@frozen
class PostgresAdminStore(AdminStore):
    """See :class:`mmo_trio.storage.sql.admin_store.AdminStore`."""

    begin_run: Callable[[], RunCall]
    """Returns how calls of one operation are run, until its deadline."""

    async def wait_for_submissions(self) -> None:
        run = self.begin_run()
        await wait_for_holders(
            run, SUBMISSION_LOCK, await run(partial(find_holders, lock=SUBMISSION_LOCK))
        )


class PostgresStore(Store):
    """See :class:`mmo_trio.storage.sql.store.Store`; made by
    :func:`mmo_trio.storage.postgres.open_postgres`."""

    batches_in_flight = 3
    """While some commit, the next one is loaded and decided, as if by another process."""
    ownership: PostgresChannelOwnership | None
    """None for a command, which owns nothing."""

    def __init__(
        self,
        writer_pool: ConnectionPool,
        reader_pool: ConnectionPool,
        holder: int,
        timeout_s: float,
        tables: Tables,
    ) -> None:
        schema = tables.schema
        super().__init__(schema, self._read_query, self._write_query)
        self.retention = PostgresRetentionStore(
            schema=schema, read=self._read_query, write=self._write_query, run=self._read
        )
        self.admin = PostgresAdminStore(
            self._read_query, self._write_query, schema.clear_breaker, self._begin_run
        )
        self._writer_pool = writer_pool
        self._reader_pool = reader_pool
        serves = holder != ownership.NO_HOLDER
        if serves:
            self.ownership = PostgresChannelOwnership(writer_pool, holder, tables)
        else:
            self.ownership = None

        self._timeout_s = timeout_s
        self._tables = tables
        self._known_brands = KnownBrands()
        self._is_closed = False
        self._primary = writer_pool.primary

        # None for a command that doesn't count its commits.
        self._epoch_raiser = EpochRaiser(self._primary) if serves else None
        self._due_search = DueSearch()

        # No new transaction appears below it.
        self._records_horizon = RecordsHorizon()
        self._assumptions = Assumptions(self._known_brands)

        # The lease and the generation that were recorded last.
        self._used_configuration = (ownership.NO_HOLDER, 0)

        # Commits in doubt for their callers, and the durable intents that nobody in this process
        # acts upon.
        self._in_doubt: list[tuple[CommitKey, Sequence[IntentKey]]] = []

    @property
    def _holder(self) -> int:
        if self.ownership is None:
            return ownership.NO_HOLDER
        return self.ownership.lease_number

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        """Make two round trips: load; then write and commit, unless another process was quicker. A
        further attempt first makes the readers of records wait for it."""
        effect = NetEffect()
        is_repeated = False
        began_at = trio.current_time()

        async def attempt(
            connection: PostgresConnection, commit: Commit[Sequence[Decision]]
        ) -> Sequence[Decision]:
            nonlocal effect, is_repeated

            # 1. A first attempt does without a load where what the store holds is known, and the
            #    commit finds out if it is not so. A further one keeps the horizon where it is.
            if is_horizon_held := is_repeated:
                await commit.begin_early(connection, ACQUIRE_WRITER_LOCK)
            elif (assumed := self._assumptions.working_set(reads, connection)) is not None:
                with self._assumptions.discard_if_wrong(reads, commit):
                    decisions = decide(assumed.ledger)
                    effect = net_effect(decisions)
                    if is_found_out(reads, effect):
                        await write(connection, commit, decisions, assumed, False)
                        return decisions

            # 2. Load, decide, write. Any attempt after this one is a further one.
            is_repeated = True
            loaded = await load_batch(connection, reads, self._known_brands, self._tables)
            self._assumptions.learn_load(reads, loaded)
            decisions = decide(loaded.ledger)
            effect = net_effect(decisions)
            if not effect.is_empty:
                await write(connection, commit, decisions, loaded, is_horizon_held)

            return decisions

        async def write(
            connection: PostgresConnection,
            commit: Commit[Sequence[Decision]],
            decisions: Sequence[Decision],
            loaded: LoadedBatch,
            is_horizon_held: bool,
        ) -> None:
            # Before the commit: the payment may be asked for as soon as it is visible.
            for created in effect.created.values():
                self._known_brands.add(created.reference, created.order.brand)

            self._tables.guard(commit, effect)
            statements = batch_statements(
                effect,
                loaded,
                self._tables,
                holder=self._holder,
                is_horizon_held=is_horizon_held,
            )
            await commit.run_whole_transaction(
                connection, effect.latest_stamp, statements, decisions
            )

        try:
            decisions = await self._commit(attempt)
        except CommitInDoubt as error:
            # The caller is told that nobody knows. If it took place after all, somebody has to do
            # what it has scheduled.
            self._in_doubt.append((error.key, tuple(effect.scheduled)))
            raise

        self._assumptions.learn_commit(effect, began_at)
        return decisions

    async def next_wake(self, *, after: Instant = FIRST_INSTANT) -> Instant | None:
        return await self._read(lambda c: self._due_search.next_wake(c, self._holder, after))

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        found = await self._read(lambda c: self._due_search.due(c, self._holder, now, limit))
        for brand, reference in found:
            self._known_brands.add(reference, brand)

        return [reference for _, reference in found]

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Claim also what this process itself has scheduled, or claimed, in commits that were in
        doubt."""
        assert self._holder != ownership.NO_HOLDER, "only a serving process claims work"
        resolved = await self._resolve_in_doubt()
        claimed: list[WorkItem] = []

        async def claim(connection: PostgresConnection) -> Sequence[WorkItem]:
            rows = await self._tables.claim_abandoned(connection, self._holder, limit)
            claimed[:] = map(queries.parse_work_item, rows)
            return tuple(claimed)

        try:
            return (*resolved, *await self._write(claim))
        except (StoreUnavailable, OutcomeUnknown) as error:
            if isinstance(error, CommitInDoubt):
                intents = (work.intent for work in claimed)
                keys = tuple(
                    (intent.gateway_reference, intent.kind)
                    for intent in intents
                    if not isinstance(intent, PollProvider)
                )
                self._in_doubt.append((error.key, keys))

            # They are left out from now on, so they must not be lost with this claim.
            if resolved:
                return resolved
            raise

    async def _resolve_in_doubt(self) -> Sequence[WorkItem]:
        """Return what commits in doubt have scheduled, once it is known that they took place, or
        nobody can know it any more: what is stored of it is this process's to do either way."""
        found: list[WorkItem] = []
        for doubt in tuple(self._in_doubt):
            # Callbacks belong to the owner of their channel.
            commit_key, keys = doubt
            keys = [key for key in keys if key[1] is not IntentKind.CALLBACK]
            try:
                was_committed = await self._is_committed(commit_key)
                if was_committed or maintenance.may_be_forgotten(commit_key.id):
                    found += await self._read(
                        partial(queries.open_intents, holder=self._holder, keys=keys)
                    )
            except (StoreUnavailable, OutcomeUnknown):
                # The others would wait as long: the next round goes on with this one.
                break

            self._in_doubt.remove(doubt)

        return found

    async def _is_committed(self, key: CommitKey) -> bool:
        return await is_committed(self._writer_pool, key, trio.current_time() + self._timeout_s)

    async def _look_up_all(self, look_ups: Sequence[AnyLookUp]) -> Sequence[Row | None]:
        return await self._read(lambda c: queries.look_up(c, look_ups, self._tables))

    async def list_records(self, query: ListRecords) -> Records:
        """Read a page that ends with a payment of a clock that is ahead, beyond the horizon, once
        more behind it."""
        run = self._begin_run()
        horizon = self._records_horizon

        async def read(query: ListRecords) -> Records:
            return await run(
                lambda connection: queries.run_in_snapshot(connection, list_records(query))
            )

        try:
            # 1. Up to the server's present, which is enough unless a clock is ahead of it.
            await horizon.advance(run, query.end)
            complete = horizon.known
            page = await read(query)
            if page.last is None or page.last.created_at < complete:
                return page

            # 2. Up to the last payment of the page: a merchant goes on from there.
            end = later(page.last.created_at, Span(1))
            await horizon.advance(run, end, passes_present=True)
            whole = await read(evolve(query, end=end))
            return evolve(whole, has_next=whole.has_next or page.has_next)
        except OutcomeUnknown as error:
            raise StoreUnavailable(
                "the standby does not confirm how far records are complete"
            ) from error

    async def _find_brands(self, brands: Sequence[str]) -> Sequence[BrandRecord | None]:
        return await self._read(lambda c: queries.find_brands(c, brands))

    async def use_configuration(self, generation: int, *, process: str) -> None:
        """Record it again under a new lease, if there is one since."""
        wanted = self._holder, generation
        if wanted != self._used_configuration:
            await self._read(lambda c: ownership.use_configuration(c, *wanted, process))
            self._used_configuration = wanted

    async def serving_processes(self) -> Sequence[ServingProcess]:
        return await self._read(ownership.serving_processes)

    @property
    def raised_state(self) -> StoreState | None:
        if self._epoch_raiser is None:
            return None
        return self._epoch_raiser.raised

    @property
    def has_unmarked_commits(self) -> bool:
        return self._epoch_raiser is not None and self._epoch_raiser.has_unmarked_commits

    async def raise_epoch(self) -> None:
        """Wait for whoever raises it at the moment, so that it is raised after this call."""
        assert self._epoch_raiser is not None, "a command doesn't raise it"
        self._epoch_raiser.come_due()
        await self._write(lock_store_state)

    def count_commands(self) -> None:
        self._epoch_raiser = EpochRaiser.of_command(self._primary)

    async def state(self) -> StoreState:
        """Return it with the timeline of the server that was asked, which takes writes; from now on
        only a store is used that has everything which this one has. One that was found in its place
        is returned instead."""
        if self._primary.replaced_by is not None:
            return self._primary.replaced_by

        # A process that shares the store may have named it anew, after it was restored.
        found = await self._read(read_store_state)
        known = self._primary.mark
        if known is None or known.store_id != found.mark.store_id:
            self._primary.mark = found.mark

        return found

    async def check(self) -> None:
        """Read a row, from a session that may write."""

        async def look(connection: PostgresConnection) -> None:
            ((_, read_only),) = await fetch_rows(connection, _CHECK)
            if read_only == "on":
                raise psycopg.errors.ReadOnlySqlTransaction(
                    "the server is a standby, or takes no writes"
                )

        await self._read(look, timeout_s=CHECK_TIMEOUT_S)

    async def integrity_errors(self) -> Sequence[str]:
        """Return a sentence for each error in the database. Reads all of it, if the role may."""
        self._require_open()

        async def check(connection: PostgresConnection) -> Sequence[str]:
            if missing := await find_missing_rights(connection):
                return missing
            query = integrity_errors(self._schema)
            return await queries.run_in_snapshot(connection, query, has_deadline=False)

        deadline = trio.current_time() + _INTEGRITY_CHECK_TIMEOUT_S
        return await end_then_checkpoint(call_with_retry(self._reader_pool, check, deadline))

    async def rows_without_partition(self) -> Sequence[str]:
        """Return a sentence for each table that has rows for whose time no partition was made."""
        return await self._read(partitions.rows_without_partition)

    @property
    def purge_steps(self) -> Sequence[Callable[[], Awaitable[object]]]:
        """Return what is done now and then, each by itself: delete what no process needs any more,
        make the partitions that are needed soon, and have the server gather the statistics of
        tables that have none, such as those of a restored dump."""
        steps: Sequence[PostgresCall[object]] = (
            ownership.purge,
            partial(maintenance.purge_commit_records, tables=self._tables),
            partitions.maintain_partitions,
            partial(partitions.maintain_partitions, of_past=True),
            analyze_unknown_tables,
        )
        return [partial(self._read, step) for step in steps]

    async def purge(self) -> None:
        """Do all of that."""
        for step in self.purge_steps:
            await step()

    async def roll_up_counts(self) -> None:
        """Add what commits have counted of late to the figures."""
        await self._read(partial(maintenance.roll_up_counts, tables=self._tables))

    async def aclose(self) -> None:
        """Let others claim at once what this process holds; later calls raise StoreUnavailable."""
        if self._is_closed:
            return

        # Without the store the lease runs out by itself.
        if self._holder != ownership.NO_HOLDER:
            with suppress(StoreUnavailable):
                await self._read(lambda c: ownership.end_lease(c, self._holder))

        if self.ownership is not None:
            self.ownership.close()

        self._is_closed = True

    # Calls with a deadline

    async def _fetch(self, parse: Callable[[Sequence[Row]], T], statement: str, *values: Any) -> T:
        bound = SqlStatement(statement, values)
        return parse(await self._read(lambda c: queries.run_statement(c, bound)))

    async def _read_query(self, make_query: Callable[[], SqlQuery[T]], /) -> T:
        return await self._read(
            lambda c: run_query_async(make_query(), partial(queries.run_statement, c))
        )

    async def _write_query(
        self, make_query: Callable[[], SqlQuery[T]], /, stamp: Instant = Instant(0)
    ) -> T:
        return await self._write(
            lambda c: run_query_async(make_query(), partial(queries.run_statement, c)), stamp
        )

    async def _read(self, call: PostgresCall[T], *, timeout_s: float = math.inf) -> T:
        """Read; it may take `timeout_s` seconds if that is less than usual."""
        self._require_open()

        deadline = trio.current_time() + min(self._timeout_s, timeout_s)
        return await end_then_checkpoint(call_with_retry(self._reader_pool, call, deadline))

    def _begin_run(self) -> RunCall:
        """Return how to run calls that have one deadline together, with pauses between them."""
        deadline = trio.current_time() + self._timeout_s

        async def run(call: PostgresCall[T], /) -> T:
            return await self._read(call, timeout_s=deadline - trio.current_time())

        return run

    async def _write(self, call: PostgresCall[T], stamp: Instant = Instant(0)) -> T:
        """Commit a change that isn't decided."""

        async def attempt(connection: PostgresConnection, commit: Commit[T]) -> T:
            await commit.begin(connection, stamp)
            result = await call(connection)
            await commit.end(connection, result)
            return result

        return await self._commit(attempt)

    async def _commit(self, attempt: Callable[[PostgresConnection, Commit[T]], Awaitable[T]]) -> T:
        self._require_open()

        deadlines = CommitDeadlines.within(self._timeout_s)
        raiser = self._epoch_raiser
        return await end_then_checkpoint(
            commit_until_known(self._writer_pool, attempt, deadlines, raiser)
        )

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
