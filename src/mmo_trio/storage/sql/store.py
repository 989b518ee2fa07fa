"""Holds the common part of the stores on SQL databases: the conversations, and look-ups that are answered together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.clock_guard import ClockRecord, StoreClock
from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import BrandRecord, Configuration, KeyOwner, ServingProcess
from mmo_trio.storage.interface.store import StoredClockRecord
from mmo_trio.storage.shared.coalescing import Coalescer
from mmo_trio.storage.sql import clock_records, monitoring
from mmo_trio.storage.sql.admin_store import SqlAdminStore
from mmo_trio.storage.sql.aging import Forget
from mmo_trio.storage.sql.configuration import (
    SELECT_CONFIGURATION,
    SELECT_STORE_STATE,
    parse_configuration,
    parse_store_state,
)
from mmo_trio.storage.sql.object_rows import object_of_row
from mmo_trio.storage.sql.records_page import list_records
from mmo_trio.storage.sql.retention_store import SqlRetentionStore, forget_nothing
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.serialization import parse_brand, parse_claim, parse_transaction
from mmo_trio.storage.sql.statements import Row, RunQuery, RunWrite, execute

T = TypeVar("T")

_SELECT_KEY_OWNER = """
    SELECT brands.brand, api_keys.id FROM api_keys JOIN brands ON brands.id = api_keys.brand
    WHERE digest IN ({}) AND retired_at IS NULL
"""

_BEGIN_LISTING = """
    INSERT INTO deposit_listings (provider, begun_at, listed_until) VALUES (?, ?, ?)
    ON CONFLICT (provider) DO UPDATE SET begun_at = excluded.begun_at
    WHERE deposit_listings.begun_at <= excluded.begun_at - ? RETURNING listed_until
"""
_SAVE_LISTED = "UPDATE deposit_listings SET listed_until = ? WHERE provider = ? AND listed_until < ?"


class SqlStore(ABC):
    """The part of a :class:`mmo_trio.storage.interface.store.Store` that is written once for all SQL databases."""

    def __init__(
        self, schema: SqlSchema, read: RunQuery, write: RunWrite, forget_payments: Forget = forget_nothing
    ) -> None:
        self._schema = schema
        self._run_query = read
        self._run_write = write
        self.admin = SqlAdminStore(read, write, schema.clear_breaker)
        self.retention = SqlRetentionStore(schema=schema, read=read, write=write, forget=forget_payments)
        self._look_up_coalescer = Coalescer[AnyLookUp, Row | None](self._look_up_all)
        self._brand_coalescer = Coalescer[str, BrandRecord | None](self._find_brands)

    async def clock_record(self, boot_id: str) -> StoredClockRecord | None:
        return await self._run_query(lambda: clock_records.clock_record(self._schema, boot_id))

    async def read_clock(self, boot_id: str) -> StoreClock | None:
        return await self._run_query(lambda: clock_records.read_clock(self._schema, boot_id))

    async def save_clock_record(self, record: ClockRecord) -> None:
        await self._run_write(lambda: clock_records.save_clock_record(self._schema, record))

    async def held_until(self) -> Instant:
        return await self._run_query(lambda: clock_records.held_until(self._schema))

    async def release_held(self, now: Instant) -> None:
        await self._run_write(lambda: clock_records.release_held(self._schema, now))

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return await self._run_query(lambda: monitoring.breakers(self._schema.breaker_table))

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        row = await self._look_up_coalescer(query)
        return None if row is None else object_of_row(row)

    async def list_records(self, query: ListRecords) -> Records:
        return await self._run_query(lambda: list_records(query))

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        return await self._only_transaction("gateway_reference = ?", gateway_reference)

    async def transactions(self, gateway_references: Sequence[str]) -> Mapping[str, Transaction]:
        if not gateway_references:
            return {}
        places = ", ".join("?" * len(gateway_references))
        statement = f"SELECT order_row, progress FROM transactions WHERE gateway_reference IN ({places})"
        found = await self._fetch(_parse_transactions, statement, *gateway_references)
        return {each.reference: each for each in found}

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        return await self._only_transaction("page_token = ?", token)

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        return await self._only_transaction(f"{self._schema.reference_suffix} = ?", suffix)

    async def _only_transaction(self, condition: str, value: str) -> Transaction | None:
        statement = f"SELECT order_row, progress FROM transactions WHERE {condition} LIMIT 2"
        return await self._fetch(_parse_only_transaction, statement, value)

    async def deposit_claim(self, provider: str, receipt: str) -> DepositClaim | None:
        statement = "SELECT claim FROM deposit_claims WHERE provider = ? AND receipt = ?"
        found = await self._fetch(_parse_claims, statement, provider, receipt)
        return found[0] if found else None

    async def due_claims(self, now: Instant, *, limit: int) -> Sequence[DepositClaim]:
        statement = "SELECT claim FROM deposit_claims WHERE wake_at <= ? ORDER BY wake_at, receipt LIMIT ?"
        return await self._fetch(_parse_claims, statement, now, limit)

    async def begin_listing(self, provider: str, now: Instant, *, interval: Span) -> Instant | None:
        rows = await self._run_write(lambda: execute(_BEGIN_LISTING, provider, now, now, interval))
        return Instant(rows[0][0]) if rows else None

    async def save_listed(self, provider: str, until: Instant) -> None:
        await self._run_write(lambda: execute(_SAVE_LISTED, until, provider, until))

    async def key_owner(self, *digests: bytes) -> KeyOwner | None:
        statement = _SELECT_KEY_OWNER.format(", ".join("?" * len(digests)))
        return await self._fetch(_parse_key_owner, statement, *digests)

    async def brand_record(self, brand: str) -> BrandRecord | None:
        return await self._brand_coalescer(brand)

    async def configuration(self) -> Configuration:
        return await self._fetch(parse_configuration, SELECT_CONFIGURATION)

    async def state(self) -> StoreState:
        return await self._fetch(parse_store_state, SELECT_STORE_STATE)

    @abstractmethod
    async def use_configuration(self, generation: int, *, process: str) -> None:
        """Record that this process uses this generation."""

    @abstractmethod
    async def serving_processes(self) -> Sequence[ServingProcess]:
        """Return the processes that serve the store."""

    @abstractmethod
    async def _fetch(self, parse: Callable[[Sequence[Row]], T], statement: str, *values: Any) -> T:
        """Return the parsed rows of one statement, without the cost of a conversation."""

    @abstractmethod
    async def _look_up_all(self, look_ups: Sequence[AnyLookUp]) -> Sequence[Row | None]:
        """Return for each look-up a row of OBJECT_COLUMNS of the brand's transaction."""

    @abstractmethod
    async def _find_brands(self, brands: Sequence[str]) -> Sequence[BrandRecord | None]:
        """Return each of these brands with its keys, the oldest first."""


def _parse_only_transaction(rows: Sequence[Row]) -> Transaction | None:
    return parse_transaction(*rows[0]) if len(rows) == 1 else None


def _parse_transactions(rows: Sequence[Row]) -> Sequence[Transaction]:
    return [parse_transaction(*row) for row in rows]


def _parse_claims(rows: Sequence[Row]) -> Sequence[DepositClaim]:
    return [parse_claim(row[0]) for row in rows]


def _parse_key_owner(rows: Sequence[Row]) -> KeyOwner | None:
    return KeyOwner(parse_brand(rows[0][0]), str(rows[0][1])) if rows else None
