"""Reads the records of a store, and of its archive."""

from __future__ import annotations

from collections.abc import AsyncIterator

from attrs import evolve

from mmo_merchant.reconciliation.recorded_payments import Period
from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.values import clock
from mmo_sansio.values.clock import DAY, Instant, Span, earlier
from mmo_trio.cli.commands.brands import find_brand
from mmo_trio.cli.support.output import print_status
from mmo_trio.cli.support.target import CommandTarget
from mmo_trio.storage.archive.directory import ArchiveDirectory, ArchiveUnusable
from mmo_trio.storage.interface.store import Store

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
    target: CommandTarget, store: Store, brand: str | None, period: Period, method: str | None
) -> AsyncIterator[tuple[str, bytes]]:
    """Return the brands and transaction objects of payments that may have ended in the period, first those of the store
    and then those of the archive. One that is being archived may come from both."""
    begin = Instant(max(clock.FIRST_INSTANT, earlier(period.begin, LATEST_END)))
    for name in await brand_ids(store, brand):
        query = ListRecords(name, begin, period.end, method=method, page_size=PAGE_SIZE)
        async for page in read_pages(store, query):
            for each in page:
                yield name, each
    archive, head = _archive(target), await store.retention.archive_head()
    if archive is None:
        if head.number:
            print_status(
                "Old payments are in the archive and are left out: set retention.archive_directory to compare them."
            )
        return
    if archive.head().number < head.number:
        raise ArchiveUnusable(f"{archive.path} lacks parts: the store knows {head.number}. See `mmo archive verify`.")
    for transaction in archive.transactions(begin=begin, end=period.end):
        order = transaction.order
        if brand in (None, order.brand) and method in (None, order.method):
            yield order.brand, transaction_object(transaction)


def _archive(target: CommandTarget) -> ArchiveDirectory | None:
    path = target.settings.retention.archive_directory
    return None if path is None else ArchiveDirectory(path)
