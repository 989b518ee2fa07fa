"""Does what every simulated store does alike: each call of the interface is a statement on rows in memory, which reads
or writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from attrs import define

from mmo_sansio.messages.queries import AnyLookUp
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.resilience.store_clock import StoreClock
from mmo_sansio.resilience.store_mark import StoreMark, StoreState
from mmo_sansio.values.clock import FIRST_INSTANT, Instant, Span
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin import AdminStore
from mmo_trio.storage.interface.admin_types import BrandRecord, Configuration, KeyOwner, ServingProcess
from mmo_trio.storage.interface.retention import RetentionStore
from mmo_trio.storage.interface.store import StoredClockRecord
from mmo_trio.storage.memory.store import MemoryStore
from tests.simulation.stores.machine import run_at_once

T = TypeVar("T")

READS = frozenset(
    (
        "archivable_audit",
        "archivable_history",
        "archivable_payments",
        "archive_head",
        "archived_references",
        "audit",
        "audit_after",
        "audit_head",
        "backlog",
        "brand_holds",
        "brand_usage",
        "brands",
        "breaker_changes",
        "callbacks",
        "closed_providers",
        "configuration_change",
        "configuration_changes",
        "count_aged",
        "count_payments",
        "failed_callbacks",
        "find_transactions",
        "last_run",
        "list_payments",
        "master_keys",
        "position",
        "proposal",
        "proposals",
        "provider_notes",
        "recorded_requests",
        "refusal_count",
        "refused_requests",
        "sealed_audit_keys",
        "search_payments",
        "second_factor",
        "second_factors",
        "session",
        "sign_in_attempts",
        "stored_payments",
        "stuck_transactions",
        "suspense",
        "suspense_entries",
        "suspense_of_payment",
        "timeline",
        "user",
        "users",
    )
)
"""The methods of `AdminStore` and `RetentionStore` that change nothing; all others are commits."""


class StatementStore(ABC):
    """Has everything of :class:`mmo_trio.storage.interface.store.Store` that is one statement."""

    rows: MemoryStore
    """What is stored, as this process may use it at once."""

    def __init__(self, rows: MemoryStore) -> None:
        self.rows = rows
        self.admin = cast(AdminStore, _Statements(self, rows.admin))
        self.retention = cast(RetentionStore, _Statements(self, rows.retention))

    @abstractmethod
    async def read(self, name: str, statement: Callable[[], T]) -> T:
        """Return what a statement reads. Raises StoreUnavailable."""

    @abstractmethod
    async def write(self, name: str, statement: Callable[[], T]) -> T:
        """Return the result of a statement once it is durable. Raises StoreUnavailable and OutcomeUnknown."""

    def _read_rows(self, name: str, call: Callable[[], Coroutine[Any, Any, T]]) -> Coroutine[Any, Any, T]:
        return self.read(name, lambda: run_at_once(call()))

    async def clock_record(self, boot_id: str) -> StoredClockRecord | None:
        return await self._read_rows("clock_record", partial(self.rows.clock_record, boot_id))

    async def read_clock(self, boot_id: str) -> StoreClock | None:
        return await self._read_rows("read_clock", partial(self.rows.read_clock, boot_id))

    async def save_clock_record(self, record: ClockRecord) -> None:
        await self.write("save_clock_record", lambda: run_at_once(self.rows.save_clock_record(record)))

    @property
    def raised_mark(self) -> StoreMark | None:
        return self.rows.raised_mark

    async def state(self) -> StoreState:
        return await self._read_rows("state", self.rows.state)

    async def held_until(self) -> Instant:
        return await self._read_rows("held_until", self.rows.held_until)

    async def release_held(self, now: Instant) -> None:
        await self.write("release_held", lambda: run_at_once(self.rows.release_held(now)))

    async def next_wake(self, *, after: Instant = FIRST_INSTANT) -> Instant | None:
        return await self._read_rows("next_wake", partial(self.rows.next_wake, after=after))

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        return await self._read_rows("due", partial(self.rows.due, now, limit=limit))

    async def due_claims(self, now: Instant, *, limit: int) -> Sequence[DepositClaim]:
        return await self._read_rows("due_claims", partial(self.rows.due_claims, now, limit=limit))

    async def begin_listing(self, provider: str, now: Instant, *, interval: Span) -> Instant | None:
        begin = partial(self.rows.begin_listing, provider, now, interval=interval)
        return await self.write("begin_listing", lambda: run_at_once(begin()))

    async def save_listed(self, provider: str, until: Instant) -> None:
        await self.write("save_listed", lambda: run_at_once(self.rows.save_listed(provider, until)))

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return await self._read_rows("breakers", self.rows.breakers)

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        return await self._read_rows("look_up", partial(self.rows.look_up, query))

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        return await self._read_rows("transaction", partial(self.rows.transaction, gateway_reference))

    async def transactions(self, gateway_references: Sequence[str]) -> Mapping[str, Transaction]:
        return await self._read_rows("transactions", partial(self.rows.transactions, gateway_references))

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        return await self._read_rows("transaction_by_page_token", partial(self.rows.transaction_by_page_token, token))

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        return await self._read_rows("transaction_by_suffix", partial(self.rows.transaction_by_suffix, suffix))

    async def deposit_claim(self, provider: str, receipt: str) -> DepositClaim | None:
        return await self._read_rows("deposit_claim", partial(self.rows.deposit_claim, provider, receipt))

    async def key_owner(self, *digests: bytes) -> KeyOwner | None:
        return await self._read_rows("key_owner", partial(self.rows.key_owner, *digests))

    async def brand_record(self, brand: str) -> BrandRecord | None:
        return await self._read_rows("brand_record", partial(self.rows.brand_record, brand))

    async def configuration(self) -> Configuration:
        return await self._read_rows("configuration", self.rows.configuration)

    async def use_configuration(self, generation: int, *, process: str) -> None:
        use = partial(self.rows.use_configuration, generation, process=process)
        await self.write("use_configuration", lambda: run_at_once(use()))

    async def serving_processes(self) -> Sequence[ServingProcess]:
        return await self._read_rows("serving_processes", self.rows.serving_processes)


@define(eq=False)
class _Statements:
    """Lets each method of a part of the interface be a statement of its store."""

    store: StatementStore
    part: object

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self.part, name)
        run = self.store.read if name in READS else self.store.write

        def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            return run(name, lambda: run_at_once(method(*args, **kwargs)))

        return call
