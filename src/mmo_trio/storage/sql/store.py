"""What the stores on SQL databases have in common: the conversations, and requests that are
answered together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Transaction
from mmo_trio.storage.interface.admin_types import StoredApiKey
from mmo_trio.storage.shared.coalescing import Coalescer
from mmo_trio.storage.sql import brand_keys, monitoring
from mmo_trio.storage.sql.admin_store import SqlAdminStore
from mmo_trio.storage.sql.payment_search import only_transaction
from mmo_trio.storage.sql.records_page import list_records
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.serialization import without_checksum
from mmo_trio.storage.sql.statements import RunQuery, RunWrite, execute


class SqlStore:
    """The part of a :class:`mmo_trio.storage.interface.store.Store` that is written once for all
    SQL databases."""

    def __init__(self, schema: SqlSchema, read: RunQuery, write: RunWrite) -> None:
        self._schema = schema
        self._run_query = read
        self.admin = SqlAdminStore(read, write, schema.clear_breaker)
        self._look_up_coalescer = Coalescer[AnyLookUp, bytes | None](self._look_up_all)
        self._keys_coalescer = Coalescer[str, Sequence[StoredApiKey]](self._keys_of_all)

    async def latest_stamp(self) -> Instant:
        [(at,)] = await self._run_query(lambda: execute(self._schema.latest_stamp))
        return Instant(int(at))

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return await self._run_query(lambda: monitoring.breakers(self._schema.breaker_table))

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        row = await self._look_up_coalescer(query)
        return None if row is None else without_checksum(row)

    async def list_records(self, query: ListRecords) -> Records:
        return await self._run_query(lambda: list_records(query))

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        return await self._only_transaction("gateway_reference = ?", gateway_reference)

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        return await self._only_transaction("page_token = ?", token)

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        return await self._only_transaction(f"{self._schema.reference_suffix} = ?", suffix)

    async def _only_transaction(self, condition: str, value: str) -> Transaction | None:
        return await self._run_query(lambda: only_transaction(condition, value))

    async def brand_by_key(self, digest: bytes) -> Brand | None:
        return await self._run_query(lambda: brand_keys.brand_by_key(digest))

    async def keys_of(self, brand: str) -> Sequence[StoredApiKey]:
        return await self._keys_coalescer(brand)

    async def _look_up_all(self, look_ups: Sequence[AnyLookUp]) -> Sequence[bytes | None]:
        """Return for each look-up the transaction object of the brand's transaction, still with its
        checksum."""
        raise NotImplementedError

    async def _keys_of_all(self, brands: Sequence[str]) -> Sequence[Sequence[StoredApiKey]]:
        """Return the keys of each of these brands, the oldest first."""
        raise NotImplementedError
