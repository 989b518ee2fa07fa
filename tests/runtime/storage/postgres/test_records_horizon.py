"""Records that are polled without a pause hinder nobody who creates payments (R7)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
import pytest
import trio

from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, earlier, later
from mmo_trio.storage.conformance.inputs import creation
from mmo_trio.storage.postgres import PostgresStore, open_postgres
from mmo_trio.system.clock import GatewayClock
from tests.support.time_limits import HANGS_AFTER_S

QUICK = bool(os.environ.get("MMO_TEST_QUICK"))
POLLERS = 8
LAG = Span(100 * clock.MILLISECOND)


def decide_creation(ledger: Ledger, number: int, now: Instant) -> Sequence[Decision]:
    """Decide as an engine does."""
    decision = decide(ledger, creation(number), now=now)
    ledger.apply(decision.changes, decision.intents)
    return [decision]


async def create(store: PostgresStore, number: int, now: Instant) -> Accepted:
    """Create a payment as an engine whose clock shows `now` at every attempt."""

    def decide_batch(ledger: Ledger) -> Sequence[Decision]:
        return decide_creation(ledger, number, max(now, later(ledger.not_before, Span(1))))

    (decision,) = await store.transact(reads(creation(number)), decide_batch)
    assert isinstance(decision.reply, Accepted)
    return decision.reply


@pytest.mark.spec("R7", "C6")
@pytest.mark.finding("postgres-F10")
async def test_a_reader_that_is_always_quicker_costs_one_more_attempt(database: str) -> None:
    attempts = 0
    async with open_postgres(database, serving=True) as store:
        with psycopg.connect(database, autocommit=True) as reader:

            def decide_while_the_horizon_moves(ledger: Ledger) -> Sequence[Decision]:
                nonlocal attempts
                attempts += 1
                now = later(ledger.not_before, Span(1))
                reader.execute("UPDATE horizon SET at = greatest(at, %s) + 1000", (now,))
                return decide_creation(ledger, 1, now)

            with trio.fail_after(HANGS_AFTER_S):
                (decision,) = await store.transact(reads(creation(1)), decide_while_the_horizon_moves)
    assert isinstance(decision.reply, Accepted)
    assert attempts == 2


@pytest.mark.spec("R7", "C6")
@pytest.mark.finding("postgres-F10")
async def test_a_node_whose_clock_lags_creates_payments_while_records_are_polled(database: str) -> None:
    """Each walk is complete, whatever the node creates meanwhile."""
    wanted = 20 if QUICK else 200
    walks: list[tuple[Instant, int]] = []
    async with open_postgres(database, serving=True) as store, open_postgres(database, serving=True) as other:
        begin = earlier(GatewayClock().now(), Span(clock.HOUR))

        async def poll(is_future: bool) -> None:
            while True:
                end = GatewayClock().now()
                wanted_end = later(end, Span(clock.HOUR)) if is_future else end
                page = await other.list_records(ListRecords("acme", begin, wanted_end, page_size=5_000))
                if not is_future:
                    walks.append((end, len(page.objects)))

        with trio.fail_after(HANGS_AFTER_S):
            async with trio.open_nursery() as nursery:
                for nth in range(POLLERS):
                    nursery.start_soon(poll, bool(nth % 2))
                numbers = count()
                while (number := next(numbers)) < wanted or len(walks) < POLLERS:
                    await create(store, number, earlier(GatewayClock().now(), LAG))
                nursery.cancel_scope.cancel()
        for end, found in walks:
            whole = await store.list_records(ListRecords("acme", begin, end, page_size=5_000))
            assert len(whole.objects) == found
