"""Keeps in memory what was counted in hours and days that are over, as their counts do not change
any more: a page then reads the last ones only, however many payments there were.

What concerns one method or provider is added up here from cells, which count all brands together:
they are few, and the same for each selection, while the store's rows are as many as there are
brands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar, assert_never

from attrs import Factory, define, evolve, frozen

from mmo_sansio.values.clock import HOUR, Instant, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Status, Type
from mmo_trio.storage.interface.admin_types import (
    CountDimension,
    CountQuery,
    PaymentCell,
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
    """Names what was read at once."""

    kind: str
    by: CountDimension | None
    query: CountQuery


@define(eq=False)
class CountedPast:
    """Reads counts; what is read of spans that are settled is kept, the latest reads up to a number
    of rows. What concerns one brand is read anew."""

    admin: AdminStore
    wall_time: Callable[[], Instant]
    rows_kept_max: int = ROWS_KEPT_MAX
    _kept: dict[_Key, Sequence[Any]] = Factory(dict)
    _rows: int = 0
    _read_at: Instant = Instant(0)

    async def count_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> Sequence[PaymentCount]:
        """Return counts as the store does; a key may come several times."""

        async def read(part: CountQuery) -> Sequence[PaymentCount]:
            if self._is_of_cells(part, by):
                return _add_counts(await self._cells(part), by)
            return await self.admin.count_payments(part, by=by)

        return await self._read("counts", query, by, read)

    async def sum_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> Sequence[PaymentSum]:
        """Return sums as the store does; a key may come several times."""

        async def read(part: CountQuery) -> Sequence[PaymentSum]:
            if self._is_of_cells(part, by):
                return _add_sums(await self._cells(part), by)
            return await self.admin.sum_payments(part, by=by)

        return await self._read("sums", query, by, read)

    async def provider_quarters(self, begin: Instant, end: Instant) -> Sequence[ProviderCount]:
        """Return the quarters of the hours in [begin, end), each beginning with an hour."""

        async def read(part: CountQuery) -> Sequence[ProviderCount]:
            return await self.admin.provider_quarters(part.begin, part.end)

        return await self._read("quarters", CountQuery(HOUR, begin, end), None, read)

    async def read_cells(self, query: CountQuery) -> Sequence[PaymentCell]:
        """Return the cells of these spans, of all payments."""
        every = evolve(query, only=None, is_simulated=None)
        return await self._read("cells", every, None, self.admin.payment_cells)

    def _is_of_cells(self, part: CountQuery, by: CountDimension | None) -> bool:
        """Tell whether a part is added up from cells. Those of a span that is not over are not
        kept: the store adds them up itself."""
        return (
            part.only is not None
            and by is not CountDimension.BRAND
            and _is_settled(part.end, self._read_at)
        )

    async def _cells(self, part: CountQuery) -> Sequence[PaymentCell]:
        """Return the cells that a part selects."""
        assert part.only is not None
        dimension, value = part.only
        return [
            cell
            for cell in await self.read_cells(part)
            if _value_of(cell, dimension) == value
            and part.is_simulated in (None, cell.is_simulated)
        ]

    async def _read(
        self,
        kind: str,
        query: CountQuery,
        by: CountDimension | None,
        read: Callable[[CountQuery], Awaitable[Sequence[Counted]]],
    ) -> Sequence[Counted]:
        # A merchant is looked at now and then, and there are many of them.
        if query.only is not None and query.only[0] is CountDimension.BRAND:
            return await read(query)

        now = self.wall_time()
        if later(now, SETTLED_AFTER) < self._read_at:
            # A clock that was ahead is right again: hours that are not over may be among them.
            self._kept.clear()
            self._rows = 0

        self._read_at = now
        found = list[Counted]()
        for part in _parts(query, by, now):
            key = _Key(kind, by, part)
            rows = self._kept.get(key)
            if rows is None:
                rows = await read(part)
                is_clock_right = now <= self._read_at
                if is_clock_right and _is_settled(part.end, now):
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


def _parts(query: CountQuery, by: CountDimension | None, now: Instant) -> Sequence[CountQuery]:
    """Return what is asked at once: what is counted by time is kept span by span, and of the rest
    the sums of all that is settled, which are few rows however many spans there are."""
    spans = range(query.begin, query.end, query.span)
    if by is None:
        begins = [*spans]
    else:
        settled = [at for at in spans if _is_settled(later(Instant(at), query.span), now)]
        begins = [*settled[:1], *spans[len(settled) : len(settled) + 1]]

    ends = [*begins[1:], query.end]
    return [
        evolve(query, begin=Instant(begin), end=Instant(end))
        for begin, end in zip(begins, ends, strict=True)
    ]


def _is_settled(end: Instant, now: Instant) -> bool:
    return later(end, SETTLED_AFTER) <= now


def _value_of(cell: PaymentCell, dimension: CountDimension | None) -> str:
    """Return by what a cell is counted."""
    match dimension:
        case None:
            return str(cell.began_at)
        case CountDimension.METHOD:
            return cell.method
        case CountDimension.PROVIDER:
            return cell.provider
        case CountDimension.BRAND:
            raise AssertionError("cells count all brands together")
        case _:
            assert_never(dimension)


def _add_counts(cells: Iterable[PaymentCell], by: CountDimension | None) -> Sequence[PaymentCount]:
    """Return counts as `count_payments` of the store does."""
    counts = Counter[tuple[str, Status, int]]()
    for cell in cells:
        counts[_value_of(cell, by), cell.status, cell.latency_s] += cell.count

    return [PaymentCount(*key, count) for key, count in counts.items() if count]


def _add_sums(cells: Iterable[PaymentCell], by: CountDimension | None) -> Sequence[PaymentSum]:
    """Return sums as `sum_payments` of the store does."""
    counts = Counter[tuple[str, Type, str, ErrorCode | None]]()
    minor = Counter[tuple[str, Type, str, ErrorCode | None]]()
    for cell in cells:
        if cell.status is not Status.PENDING:
            key = _value_of(cell, by), cell.type, cell.currency, cell.error_code
            counts[key] += cell.count
            minor[key] += cell.minor

    return [PaymentSum(*key, count, minor[key]) for key, count in counts.items() if count]
