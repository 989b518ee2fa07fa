"""Simulates the store on a server, as one of the processes that share it has it open: the meaning
of `mmo_trio.storage.postgres`, with everything that can befall a process between two statements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import trio
from attrs import define, frozen

from mmo_sansio.messages.intents import IntentKey, PollProvider
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import FIRST_INSTANT, Instant
from mmo_trio.storage.interface.admin_types import BrandRecord, ServingProcess
from mmo_trio.storage.interface.store import (
    CHECK_TIMEOUT_S,
    DecideBatch,
    OutcomeUnknown,
    StoreLost,
    StoreUnavailable,
    WorkItem,
)
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.integrity import integrity_errors
from mmo_trio.storage.sql.net_effect import net_effect
from mmo_trio.storage.sql.records_page import list_records
from mmo_trio.storage.sql.statements import Row, SqlQuery, execute
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import statements
from mmo_trio.system.waiting import run_to_end
from tests.simulation.stores.machine import StoreCall
from tests.simulation.stores.shared_ownership import SimulatedChannelOwnership
from tests.simulation.stores.shared_rows import NO_HOLDER, SHARED_SCHEMA
from tests.simulation.stores.shared_server import (
    Begin,
    CommitConflict,
    ConnectionLost,
    SimulatedServer,
    StatementRefused,
)
from tests.simulation.stores.transactions import ServerTransaction

T = TypeVar("T")

STORE_TIMEOUT_S = 10.0
"""Seconds that a caller waits before StoreUnavailable or OutcomeUnknown is raised (P5)."""

RESOLUTION_SHARE = 0.3
"""The share of it that is reserved to find out whether a commit took place."""

CONFLICTS_MAX = 20
"""How often a batch is decided again because another process was quicker."""

SUSPECT_AFTER_S = 5.0
"""Seconds without an answer after which calls fail at once while the server cannot be reached."""

BACKOFF_MIN_S, BACKOFF_MAX_S = 0.01, 0.5


@define(eq=False)
class _Backoff:
    """Waits between attempts, doubling, and never beyond the deadline."""

    server: SimulatedServer
    deadline: float
    _next_s: float = BACKOFF_MIN_S

    async def wait(self, error: Exception) -> None:
        """Wait a little; raise StoreUnavailable when the deadline would pass meanwhile."""
        delay_s = self.server.draws.time_s((self._next_s / 2, self._next_s))
        self._next_s = min(self._next_s * 2, BACKOFF_MAX_S)
        if trio.current_time() + delay_s >= self.deadline:
            raise StoreUnavailable(f"the server: {error}") from error
        await trio.sleep(delay_s)

    async def wait_shielded(self, error: Exception) -> None:
        """Wait like this also when the caller is cancelled."""
        with trio.CancelScope(shield=True):
            await self.wait(error)


@define(eq=False)
class _Doubt:
    """A commit of which nobody knows whether it took place, and what it has scheduled."""

    number: int
    scheduled: Sequence[IntentKey]


class UnresolvedCommit(OutcomeUnknown):
    """Nobody can learn now whether the transaction with this number was committed; later
    `claim_abandoned` can."""

    def __init__(self, number: int) -> None:
        super().__init__("the server was lost during a commit")
        self.number = number


@frozen
class SimulatedAdminStore(AdminStore):
    """See :class:`mmo_trio.storage.sql.admin_store.AdminStore`."""

    wait_for_commits: Callable[[], Awaitable[None]]

    async def wait_for_submissions(self) -> None:
        """Wait for the commits in progress, which may begin to submit payments of a brand."""
        await self.wait_for_commits()


class SimulatedSharedStore(Store):
    """See :class:`mmo_trio.storage.sql.store.Store`; made by :func:`open_shared_store`."""

    batches_in_flight = 3
    """While some commit, the next one is loaded and decided."""
    ownership: SimulatedChannelOwnership

    def __init__(self, server: SimulatedServer, process: str, lease_number: int) -> None:
        super().__init__(SHARED_SCHEMA, self._read_query, self._write_query)
        self.admin = SimulatedAdminStore(
            self._read_query, self._write_query, SHARED_SCHEMA.clear_breaker, self._wait_for_commits
        )
        self._server = server
        self._rows = server.rows
        self.process = process
        self.ownership = SimulatedChannelOwnership(server, process, lease_number)
        self._is_open = True
        self._used_configuration = (0, 0)
        """The lease and the generation that were recorded last."""
        self._silent_since: float | None = None
        """When a statement first failed since the last one that was answered; None while all
        are."""
        self._doubts: list[_Doubt] = []

    def kill(self) -> None:
        """End the process at once: its statements arrive or don't, and later calls raise
        StoreUnavailable."""
        if self._is_open:
            self._is_open = self.ownership.is_open = False
            self._server.kill(self.process)

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        """Load; then write and commit, and repeat both when another process was quicker."""
        try:
            return await self._transact(reads, decide)
        finally:
            await trio.lowlevel.checkpoint_if_cancelled()

    async def _transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        self._require_open()
        now = trio.current_time()
        backoff, conflicts = (
            _Backoff(self._server, now + STORE_TIMEOUT_S * (1 - RESOLUTION_SHARE)),
            0,
        )
        while True:
            transaction = self._server.begin_transaction(
                self.process, self.ownership.lease_number, is_writer=conflicts > 0
            )
            failure: Exception
            try:
                return await self._attempt(transaction, reads, decide, backoff.deadline)
            except CommitConflict as error:
                failure = error
                conflicts += 1
            except ConnectionLost as error:
                failure = error
                try:
                    if transaction.decisions and await self._is_committed(
                        transaction, now + STORE_TIMEOUT_S
                    ):
                        return transaction.decisions
                except UnresolvedCommit:
                    self._doubts.append(
                        _Doubt(transaction.number, _scheduled(transaction.decisions))
                    )
                    raise
            except StatementRefused as error:
                raise StoreUnavailable(f"the server: {error}") from error
            if conflicts > CONFLICTS_MAX:
                raise StoreUnavailable("other processes were quicker again and again") from failure
            await backoff.wait_shielded(failure)

    async def _attempt(
        self, transaction: ServerTransaction, reads: Reads, decide: DecideBatch, deadline: float
    ) -> Sequence[Decision]:
        server = self._server
        try:
            ledger: Ledger = await self._call(
                "load",
                deadline,
                lambda call: server.do(call, lambda: server.load(transaction, reads)),
            )
            decisions = decide(ledger)
        except BaseException:
            server.roll_back(transaction)
            raise
        transaction.decisions = decisions
        result: Sequence[Decision] = await self._call(
            "commit", deadline, partial(server.commit, transaction, decisions)
        )
        return result

    async def _is_committed(self, transaction: ServerTransaction, deadline: float) -> bool:
        """Return whether it was committed; if not, it never will be. Raises UnresolvedCommit."""
        backoff = _Backoff(self._server, deadline)
        resolve = partial(self._server.resolve, transaction.number)
        try:
            while True:
                try:
                    return await self._call("resolve", deadline, resolve, waits_while_lost=True)
                except (ConnectionLost, StatementRefused) as error:
                    await backoff.wait_shielded(error)
        except StoreUnavailable as error:
            raise UnresolvedCommit(transaction.number) from error

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Claim also what this process itself has scheduled, or claimed, in commits that were in
        doubt."""
        resolved, claimed = await self._resolve_doubts(), list[WorkItem]()
        holder = self.ownership.lease_number

        def claim() -> Sequence[WorkItem]:
            claimed[:] = self._rows.claim_abandoned(holder, limit)
            return tuple(claimed)

        try:
            return (*resolved, *await self.write("claim_abandoned", claim))
        except (StoreUnavailable, OutcomeUnknown) as error:
            if isinstance(error, UnresolvedCommit):
                intents = (work.intent for work in claimed)
                keys = tuple(
                    (each.gateway_reference, each.kind)
                    for each in intents
                    if not isinstance(each, PollProvider)
                )
                self._doubts.append(_Doubt(error.number, keys))
            if resolved:  # They are left out from now on, so they must not be lost with this claim.
                return resolved
            raise

    async def _resolve_doubts(self) -> Sequence[WorkItem]:
        """Return what commits in doubt have scheduled, once it is known that they took place."""
        found: list[WorkItem] = []
        for doubt in tuple(self._doubts):
            deadline = trio.current_time() + STORE_TIMEOUT_S
            try:
                resolve = partial(self._server.resolve, doubt.number)
                if await self._call("resolve", deadline, resolve, is_shielded=False):
                    found += await self.read(
                        "open_intents", partial(self._rows.open_intents, doubt.scheduled)
                    )
            except (ConnectionLost, StatementRefused, StoreUnavailable):
                break
            self._doubts.remove(doubt)
        return found

    async def next_wake(self, *, after: Instant = FIRST_INSTANT) -> Instant | None:
        return await self.read(
            "next_wake", partial(self._rows.next_wake, after, self.ownership.lease_number)
        )

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        return await self.read(
            "due", partial(self._rows.due, now, self.ownership.lease_number, limit)
        )

    async def list_records(self, query: ListRecords) -> Records:
        read = partial(self._rows.query, partial(list_records, query))
        return await self._read(
            "list_records", partial(self._server.list_records, query.end, read), STORE_TIMEOUT_S
        )

    async def held_until(self) -> Instant:
        return max(await super().held_until(), self._server.horizon)

    async def release_held(self, now: Instant) -> None:
        await super().release_held(now)
        self._server.release_horizon(now)

    async def use_configuration(self, generation: int, *, process: str) -> None:
        wanted = self.ownership.lease_number, generation
        if wanted != self._used_configuration:
            await self.write(
                "use_configuration", partial(self._rows.use_configuration, *wanted, process)
            )
            self._used_configuration = wanted

    async def serving_processes(self) -> Sequence[ServingProcess]:
        return await self.read("serving_processes", self._rows.serving_processes)

    @property
    def raised_state(self) -> StoreState | None:
        return self._rows.raised_state

    @property
    def has_unmarked_commits(self) -> bool:
        return self._rows.has_unmarked_commits

    async def raise_epoch(self) -> None:
        await self.write("raise_epoch", self._rows.raise_epoch)

    def count_commands(self) -> None:
        """Do nothing: no command is judged by it."""

    async def check(self) -> None:
        await self._read("check", partial(self._server.do, statement=lambda: None), CHECK_TIMEOUT_S)

    async def integrity_errors(self) -> Sequence[str]:
        return await self._read_query(lambda: integrity_errors(SHARED_SCHEMA))

    async def aclose(self) -> None:
        """Let others claim at once what this process holds; later calls raise StoreUnavailable."""
        if self._is_open:
            with suppress(StoreUnavailable, OutcomeUnknown):
                await run_to_end(self.ownership.end_lease)
            self._is_open = self.ownership.is_open = False

    async def _wait_for_commits(self) -> None:
        await self._read("wait_for_commits", self._server.wait_for_commits, STORE_TIMEOUT_S)

    async def _fetch(self, parse: Callable[[Sequence[Row]], T], statement: str, *values: Any) -> T:
        return parse(await self._read_query(lambda: execute(statement, *values)))

    async def _look_up_all(self, look_ups: Sequence[AnyLookUp]) -> Sequence[Row | None]:
        return await self.read(
            "look_up", partial(statements.look_up, self._rows.connection, look_ups)
        )

    async def _find_brands(self, brands: Sequence[str]) -> Sequence[BrandRecord | None]:
        find = partial(statements.find_brand, self._rows.connection)
        return await self.read("find_brands", lambda: [find(brand) for brand in brands])

    async def _read_query(self, make_query: Callable[[], SqlQuery[T]], /) -> T:
        return await self.read(_name_of(make_query), partial(self._rows.query, make_query))

    async def _write_query(
        self, make_query: Callable[[], SqlQuery[T]], /, stamp: Instant = Instant(0)
    ) -> T:
        return await self.write(_name_of(make_query), partial(self._rows.change, make_query, stamp))

    async def read(self, name: str, statement: Callable[[], T]) -> T:
        return await self._read(
            name, partial(self._server.do, statement=statement), STORE_TIMEOUT_S
        )

    async def _read(self, name: str, begin: Begin[T], timeout_s: float) -> T:
        self._require_open()
        try:
            return await self._read_until(name, begin, trio.current_time() + timeout_s)
        finally:
            await trio.lowlevel.checkpoint_if_cancelled()

    async def _read_until(self, name: str, begin: Begin[T], deadline: float) -> T:
        """Read again and again until it succeeds."""
        backoff: _Backoff | None = None
        while True:
            try:
                return await self._call(name, deadline, begin)
            except StatementRefused as error:
                raise StoreUnavailable(f"the server: {error}") from error
            except ConnectionLost as error:
                backoff = backoff or _Backoff(self._server, deadline)
                await backoff.wait_shielded(error)

    async def write(self, name: str, statement: Callable[[], T]) -> T:
        try:
            return await self._write(name, statement)
        finally:
            await trio.lowlevel.checkpoint_if_cancelled()

    async def _write(self, name: str, statement: Callable[[], T]) -> T:
        self._require_open()
        now = trio.current_time()
        backoff = _Backoff(self._server, now + STORE_TIMEOUT_S * (1 - RESOLUTION_SHARE))
        while True:
            transaction = self._server.begin_transaction(
                self.process, self.ownership.lease_number, is_writer=False
            )
            results: list[T] = []

            def keep_result(results: list[T] = results) -> T:
                results.append(statement())
                return results[0]

            write = partial(self._server.write, transaction, keep_result)
            try:
                return await self._call(name, backoff.deadline, write)
            except StatementRefused as error:
                raise StoreUnavailable(f"the server: {error}") from error
            except ConnectionLost as error:
                if await self._is_committed(transaction, now + STORE_TIMEOUT_S):
                    return results[0]
                await backoff.wait_shielded(error)

    async def _call(
        self,
        name: str,
        deadline: float,
        begin: Begin[T],
        *,
        waits_while_lost: bool = False,
        is_shielded: bool = True,
    ) -> T:
        """Send a statement; while the server is lost, fail at once, or try all the same where the
        caller `waits_while_lost`. See `StoreCall.result` for `is_shielded`."""
        self._require_open()
        server, process = self._server, self.process
        now = trio.current_time()
        if (
            not waits_while_lost
            and self._silent_since is not None
            and now - self._silent_since > SUSPECT_AFTER_S
            and not server.answers(process)
        ):
            if is_shielded:
                await trio.lowlevel.cancel_shielded_checkpoint()
            else:
                await trio.lowlevel.checkpoint()
            raise StoreLost("the server can't be reached")

        try:
            result = await server.call(process, name, deadline, begin, is_shielded=is_shielded)
        except ConnectionLost:
            self._silent_since = self._silent_since or now
            raise
        self._silent_since = None
        return result

    def _require_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable("the store is closed")


def _name_of(make_query: Callable[[], SqlQuery[Any]]) -> str:
    """Return the name of a conversation, for the trace."""
    name: str = make_query().__name__  # type: ignore[attr-defined]
    return name


def _scheduled(decisions: Sequence[Decision]) -> Sequence[IntentKey]:
    return tuple(net_effect(decisions).scheduled)


@asynccontextmanager
async def open_shared_store(
    server: SimulatedServer, process: str
) -> AsyncIterator[SimulatedSharedStore]:
    """Open the store as one serving process, by a name that no other process has at the same time.
    Raises StoreUnavailable."""

    rows = server.rows

    def begin(call: StoreCall[int]) -> None:
        server.do(call, lambda: rows.ownership.renew(None, now=rows.clock()))

    deadline = trio.current_time() + STORE_TIMEOUT_S
    backoff, number = _Backoff(server, deadline), None
    while number is None:
        try:
            number = await server.call(process, "open", deadline, begin)
        except (ConnectionLost, StatementRefused) as error:
            await backoff.wait(error)
    store = SimulatedSharedStore(server, process, number)
    try:
        yield store
    finally:
        await store.aclose()


class _OutsideStore(SimulatedSharedStore):
    """Makes each statement at once."""

    async def _call(
        self,
        name: str,
        deadline: float,
        begin: Begin[T],
        *,
        waits_while_lost: bool = False,
        is_shielded: bool = True,
    ) -> T:
        call: StoreCall[T] = StoreCall(self.process, name, deadline)
        begin(call)
        return await call.result()


@asynccontextmanager
async def open_outside(server: SimulatedServer) -> AsyncIterator[SimulatedSharedStore]:
    """Open the store as nobody who shares it: no fault meets it, what it asks takes no time, and it
    has no lease."""
    await trio.lowlevel.checkpoint()
    yield _OutsideStore(server, "outside", NO_HOLDER)
