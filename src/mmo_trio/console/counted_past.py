"""Keeps in memory what was counted in hours and days that are over, as their counts do not change
any more: a page then reads the last ones only, however many payments there were."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from attrs import Factory, define, evolve, frozen

from mmo_sansio.values.clock import HOUR, Instant, Span, later
from mmo_trio.storage.interface.admin_types import (
    CountDimension,
    CountQuery,
    PaymentCount,
    PaymentSum,
    ProviderCount,
)
from mmo_trio.storage.sql.admin_store import AdminStore

# How long after its end a span changes no more: far longer than any commit takes, and than clocks
# of processes differ.
SETTLED_AFTER: Final = HOUR

ROWS_KEPT_MAX: Final = 200_000

Counted = TypeVar("Counted")


@frozen
class _Key:
    """Names what was read of one span."""

    kind: str
    by: CountDimension | None
    span: Span
    begin: Instant
    is_simulated: bool | None


@define(eq=False)
class CountedPast:
    """Reads counts span by span; what is read of one that is settled is kept, the latest
    reads up to a number of rows. What concerns one brand, method or provider is read anew."""

    admin: AdminStore
    now: Callable[[], Instant]
    rows_kept_max: int = ROWS_KEPT_MAX
    _kept: dict[_Key, Sequence[Any]] = Factory(dict)
    _rows: int = 0

    async def count_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> Sequence[PaymentCount]:
        """Return counts as the store does; a key may come once for each span."""

        async def read(part: CountQuery) -> Sequence[PaymentCount]:
            return await self.admin.count_payments(part, by=by)

        return await self._read("counts", query, by, read)

    async def sum_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> Sequence[PaymentSum]:
        """Return sums as the store does; a key may come once for each span."""

        async def read(part: CountQuery) -> Sequence[PaymentSum]:
            return await self.admin.sum_payments(part, by=by)

        return await self._read("sums", query, by, read)

    async def provider_quarters(self, begin: Instant, end: Instant) -> Sequence[ProviderCount]:
        """Return the quarters of the hours in [begin, end), each beginning with an hour."""

        async def read(part: CountQuery) -> Sequence[ProviderCount]:
            return await self.admin.provider_quarters(part.begin, part.end)

        return await self._read("quarters", CountQuery(HOUR, begin, end), None, read)

    async def _read(
        self,
        kind: str,
        query: CountQuery,
        by: CountDimension | None,
        read: Callable[[CountQuery], Awaitable[Sequence[Counted]]],
    ) -> Sequence[Counted]:
        if query.only is not None:
            return await read(query)

        now, found = self.now(), list[Counted]()
        for at in range(query.begin, query.end, query.span):
            begin, end = Instant(at), later(Instant(at), query.span)
            key = _Key(kind, by, query.span, begin, query.is_simulated)
            rows = self._kept.get(key)
            if rows is None:
                rows = await read(evolve(query, begin=begin, end=end))
                if later(end, SETTLED_AFTER) <= now:
                    self._keep(key, rows)

            found += rows

        return found

    def _keep(self, key: _Key, rows: Sequence[Any]) -> None:
        if key in self._kept:
            return
        self._kept[key] = rows
        self._rows += len(rows)
        while self._rows > self.rows_kept_max:
            self._rows -= len(self._kept.pop(next(iter(self._kept))))
