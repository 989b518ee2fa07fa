"""Reads the records of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator

from attrs import evolve

from mmo_merchant.reconciliation.recorded_payments import Period
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.values import clock
from mmo_sansio.values.clock import DAY, Instant, Span, earlier
from mmo_trio.cli.commands.brands import find_brand
from mmo_trio.storage.sql.store import Store

PAGE_SIZE = 1_000
"""The number of rows in memory at one time."""

LATEST_END = Span(7 * DAY)
"""How long after its creation a payment may have ended: longer than the time limit of a pending one."""


async def read_pages(store: Store, query: ListRecords) -> AsyncIterator[tuple[bytes, ...]]:
    """Return the transaction objects of a brand's query, page by page."""
    while True:
        found = await store.list_records(query)
        yield found.objects
        if not found.has_next:
            return
        query = evolve(query, after=found.last)


async def brand_ids(store: Store, brand: str | None) -> list[str]:
    """Return the id of this brand, or of all brands. Raises NegativeAnswer."""
    found = await store.admin.brands() if brand is None else [await find_brand(store, brand)]
    return [each.brand.id for each in found]


async def read_records(
    store: Store, brand: str | None, period: Period, method: str | None
) -> AsyncIterator[tuple[str, bytes]]:
    """Return the brands and transaction objects of payments that may have ended in the period."""
    begin = Instant(max(clock.FIRST_INSTANT, earlier(period.begin, LATEST_END)))
    for name in await brand_ids(store, brand):
        query = ListRecords(name, begin, period.end, method=method, page_size=PAGE_SIZE)
        async for page in read_pages(store, query):
            for each in page:
                yield name, each
