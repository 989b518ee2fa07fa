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
    on: what came before is in the opening sums. Raises what the store
    raises."""
    count = 0

    # Brand by brand, as a page belongs to one; entries themselves are sorted by the book.
    for brand in brands:
        # What ended in the month was created, or asked for, before its end.
        payments: PagedQuery | None = ListRecords(
            brand, FIRST_INSTANT, book.month.end, page_size=PAGE_SIZE
        )
        while payments is not None:
            async with take_turn():
                page = await _read_page(store, payments)
                for text, is_simulated in page.marked_objects:
                    members = parse_members(text)
                    for entry in payment_entries(brand, members, is_simulated=is_simulated):
                        book.add(entry)

            count += len(page.objects)
            note_progress(count)
            payments = _next_page(payments, page)

        # A reversal may be asked for long after its payment: all of them are read.
        reversals: PagedQuery | None = ListReversals(
            brand, FIRST_INSTANT, LAST_INSTANT, page_size=PAGE_SIZE
        )
        reversed_payments: dict[str, tuple[Members, bool]] = {}
        while reversals is not None:
            async with take_turn():
                page = await _read_page(store, reversals)
                read_payments = [(parse_members(text), mark) for text, mark in page.marked_objects]

            # One that changes meanwhile comes again, and is booked once, as it was last.
            reversed_payments |= {
                payment["gatewayReference"]: (payment, mark) for payment, mark in read_payments
            }
            reversals = _next_page(reversals, page)

        for payment, mark in reversed_payments.values():
            for entry in reversal_entries(brand, payment, is_simulated=mark):
                book.add(entry)


async def _read_page(store: Store, query: PagedQuery) -> Records:
    if isinstance(query, ListReversals):
        return await store.list_reversed_payments(query)
    return await store.list_records(query)


def _next_page(query: PagedQuery, page: Records) -> PagedQuery | None:
    if page.has_next:
        return evolve(query, after=page.last)
    return None
