"""Reads the book of a month from the records of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from attrs import evolve

from mmo_sansio.accounting.book_entries import (
    Members,
    parse_members,
    payment_entries,
    reversal_entries,
)
from mmo_sansio.accounting.month_books import MonthBook
from mmo_sansio.messages.queries import ListRecords, ListReversals, PagedQuery, Records
from mmo_sansio.values.clock import FIRST_INSTANT, LAST_INSTANT
from mmo_trio.storage.sql.store import Store

# Payments that are read at one time.
PAGE_SIZE = 500

# Gives a turn for the work on one page while the block lasts.
TakeTurn = Callable[[], AbstractAsyncContextManager[None]]


async def fill_book(
    book: MonthBook,
    store: Store,
    brands: Sequence[str],
    *,
    take_turn: TakeTurn = nullcontext,
    note_progress: Callable[[int], None] = lambda count: None,
) -> None:
    """Book all that moved money for these brands until the end of the month, from the first payment
    on: what came before is in the opening sums. `note_progress` is told how many payments were read
    so far. Raises what the store raises."""
    count = 0

    def note_read(payments: int) -> None:
        nonlocal count
        count += payments
        note_progress(count)

    # Brand by brand, as a page belongs to one; entries themselves are sorted by the book.
    for brand in brands:
        await _book_payments(book, store, brand, take_turn, note_read)
        await _book_reversals(book, store, brand, take_turn)


async def _book_payments(
    book: MonthBook,
    store: Store,
    brand: str,
    take_turn: TakeTurn,
    note_read: Callable[[int], None],
) -> None:
    # Records are selected by their creation: what ended in the month was created before its end.
    query: PagedQuery | None = ListRecords(
        brand, FIRST_INSTANT, book.month.end, page_size=PAGE_SIZE
    )
    while query is not None:
        async with take_turn():
            page = await _read_page(store, query)
            for text, is_simulated in page.marked_objects:
                payment = parse_members(text)
                for entry in payment_entries(brand, payment, is_simulated=is_simulated):
                    book.add(entry)

        note_read(len(page.objects))
        query = _next_page(query, page)


async def _book_reversals(book: MonthBook, store: Store, brand: str, take_turn: TakeTurn) -> None:
    # These are selected by their last change: one that ended in the month may have a later one, so
    # that all of them are read.
    query: PagedQuery | None = ListReversals(
        brand, FIRST_INSTANT, LAST_INSTANT, page_size=PAGE_SIZE
    )
    # By gatewayReference: one that changes meanwhile comes again, and is booked once, as it was
    # last.
    found: dict[str, tuple[Members, bool]] = {}
    while query is not None:
        async with take_turn():
            page = await _read_page(store, query)
            for text, is_simulated in page.marked_objects:
                payment = parse_members(text)
                found[payment["gatewayReference"]] = (payment, is_simulated)

        query = _next_page(query, page)

    for payment, is_simulated in found.values():
        for entry in reversal_entries(brand, payment, is_simulated=is_simulated):
            book.add(entry)


async def _read_page(store: Store, query: PagedQuery) -> Records:
    if isinstance(query, ListReversals):
        return await store.list_reversed_payments(query)
    return await store.list_records(query)


def _next_page(query: PagedQuery, page: Records) -> PagedQuery | None:
    if page.has_next:
        return evolve(query, after=page.last)
    return None
