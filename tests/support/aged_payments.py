"""Fills a store with payments of several days that have ended."""

from __future__ import annotations

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded
from mmo_sansio.values.clock import DAY, MINUTE, Instant, Span, later
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import DELIVERED, creation, failed, reference, succeeded

PAYMENTS_A_DAY = 5
NOW = Instant(NOON + 500 * DAY)
"""When all of them are too old."""


async def pay(store: Store, first: int, last: int) -> None:
    """Let these payments be created, end and be called back; every third one fails."""
    for number in range(first, last + 1):
        at = later(NOON, Span(number // PAYMENTS_A_DAY * DAY + number * MINUTE))
        await submit_batch(store, (creation(number, merchant_reference=f"order-{number}"), at))
        await submit_batch(store, (BeginSubmission(reference(number)), later(at, Span(1))))
        await submit_batch(
            store, (failed(number) if number % 3 == 0 else succeeded(number), later(at, Span(2)))
        )
        await submit_batch(
            store, (CallbackConcluded(reference(number), DELIVERED), later(at, Span(3)))
        )
