"""Records that are polled without a pause hinder nobody who creates payments (R7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)
from tests.support.effort import by_effort

# isort: split
import psycopg
import pytest
import trio
from attrs import evolve

from mmo_sansio.messages.queries import ListRecords, LookUp, Records
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, earlier, later
from mmo_trio.api.request_limits import PAGES_MAX
from mmo_trio.storage.postgres import PostgresStore, open_postgres
from mmo_trio.storage.postgres.connections import READER_CONNECTIONS
from mmo_trio.storage.postgres.shared_locks import CREATION_LOCK
from mmo_trio.system.clock import GatewayClock
from tests.conformance.inputs import creation, reference
from tests.support.time_limits import HANGS_AFTER_S

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


async def wait_for_horizon(database: psycopg.Connection[tuple[int]]) -> None:
    """Wait until a reader has moved the horizon."""
    while database.execute("SELECT at FROM horizon").fetchone() == (0,):  # noqa: ASYNC110
        await trio.sleep(0.01)


def window(*, page_size: int = 5_000) -> ListRecords:
    """An hour before and an hour after the present."""
    now = GatewayClock().wall_time()
    return ListRecords(
        "acme", earlier(now, clock.HOUR), later(now, clock.HOUR), page_size=page_size
    )


def test_pages_of_records_leave_a_reader_to_everything_else() -> None:
    assert READER_CONNECTIONS > PAGES_MAX


@pytest.mark.spec("R7", "L1")
async def test_pages_that_wait_for_a_commit_that_hangs_delay_no_look_up(
    migrated_database: str,
) -> None:
    pages: list[Records] = []
    async with open_postgres(migrated_database, serving=True) as store:
        await create(store, 1, GatewayClock().wall_time())
        with (
            psycopg.connect(migrated_database, autocommit=True) as reader,
            psycopg.connect(migrated_database) as writer,
        ):
            writer.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", CREATION_LOCK)

            async def read_page() -> None:
                pages.append(await store.list_records(window()))

            with trio.fail_after(HANGS_AFTER_S):
                async with trio.open_nursery() as nursery:
                    for _ in range(2 * READER_CONNECTIONS):
                        nursery.start_soon(read_page)
                    await wait_for_horizon(reader)
                    for _ in range(10):
                        assert await store.look_up(LookUp("acme", reference(1))) is not None
                        assert (await store.configuration()).generation
                    assert not pages, "the pages still wait for the commit"
                    writer.rollback()
    assert [len(each.objects) for each in pages] == [1] * 2 * READER_CONNECTIONS


@pytest.mark.spec("R7")
async def test_paging_beyond_the_present_is_complete_while_a_clock_is_ahead(
    migrated_database: str,
) -> None:
    """One node's clock is ahead, the other one's is right and creates a payment between two
    pages."""
    async with (
        open_postgres(migrated_database, serving=True) as ahead,
        open_postgres(migrated_database, serving=True) as right,
    ):
        future = later(GatewayClock().wall_time(), Span(20 * clock.SECOND))
        await create(ahead, 1, future)
        await create(ahead, 2, later(future, Span(clock.SECOND)))
        query = window(page_size=1)
        first = await right.list_records(query)
        assert first.has_next
        await create(right, 3, GatewayClock().wall_time())
        listed = [*first.objects]
        page = first
        while page.has_next:
            page = await right.list_records(evolve(query, after=page.last))
            listed += page.objects
        assert [json.loads(each)["gatewayReference"] for each in listed] == [
            reference(1),
            reference(3),
            reference(2),
        ]


@pytest.mark.spec("R7", "C6")
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
                (decision,) = await store.transact(
                    reads(creation(1)), decide_while_the_horizon_moves
                )
    assert isinstance(decision.reply, Accepted)
    assert attempts == 2


@pytest.mark.spec("R7", "C6")
async def test_a_node_whose_clock_lags_creates_payments_while_records_are_polled(
    database: str,
) -> None:
    """Each walk is complete, whatever the node creates meanwhile."""
    wanted = by_effort(20, 200)
    walks: list[tuple[Instant, int]] = []
    async with (
        open_postgres(database, serving=True) as store,
        open_postgres(database, serving=True) as other,
    ):
        begin = earlier(GatewayClock().wall_time(), Span(clock.HOUR))

        async def poll(is_future: bool) -> None:
            while True:
                end = GatewayClock().wall_time()
                wanted_end = later(end, Span(clock.HOUR)) if is_future else end
                page = await other.list_records(
                    ListRecords("acme", begin, wanted_end, page_size=5_000)
                )
                if not is_future:
                    walks.append((end, len(page.objects)))

        with trio.fail_after(HANGS_AFTER_S):
            async with trio.open_nursery() as nursery:
                for nth in range(POLLERS):
                    nursery.start_soon(poll, bool(nth % 2))
                numbers = count()
                while (number := next(numbers)) < wanted or len(walks) < POLLERS:
                    await create(store, number, earlier(GatewayClock().wall_time(), LAG))
                nursery.cancel_scope.cancel()
        for end, found in walks:
            whole = await store.list_records(ListRecords("acme", begin, end, page_size=5_000))
            assert len(whole.objects) == found
