"""A slow or dead receiver delays no other merchant's callbacks (K6)."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.testing import numbered_reference
from tests.support.callback_work import (
    DeliveryRecords,
    MerchantServers,
    delivery_client,
    running_worker,
    work_for,
)
from tests.support.hostile_receivers import (
    answers_and_closes,
    only_accepts,
    running_receiver,
    server_context,
)

DELIVERED = DeliveryOutcome.DELIVERED
TIMEOUT = DeliveryOutcome.TIMEOUT
BREAKER_OPEN = DeliveryOutcome.BREAKER_OPEN

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
AGES_S = 600.0
"""A deadline that no test outlasts: what hangs, hangs to the end of it."""


@pytest.mark.spec("K6")
async def test_a_healthy_merchant_s_callbacks_arrive_while_201_others_hang() -> None:
    records = DeliveryRecords()
    deliver = partial(delivery_client().deliver, deadline_s=AGES_S)
    healthy = range(10_000, 10_100)
    async with (
        running_receiver(only_accepts, server_context()) as dead,
        running_receiver(answers_and_closes(NO_CONTENT), server_context()) as alive,
        running_worker(records, deliver) as worker,
    ):
        for number in range(500):
            worker.try_enqueue(work_for("hangs with 500", number, dead.url))
        for number in range(500, 700):
            worker.try_enqueue(work_for(f"hangs {number}", number, dead.url))
        for number in healthy:
            worker.try_enqueue(work_for("healthy", number, alive.url))
        assert await records.outcomes(*healthy) == [DELIVERED] * 100
        assert set(records.recorded) == {numbered_reference(number) for number in healthy}
        assert worker.statistics().active == 16 + 200
        assert len(alive.requests) == 100


@pytest.mark.spec("K6")
async def test_a_newcomer_is_called_while_a_thousand_receivers_hang() -> None:
    records = DeliveryRecords()
    deliver = partial(delivery_client().deliver, deadline_s=AGES_S)
    async with (
        running_receiver(only_accepts, server_context()) as dead,
        running_receiver(answers_and_closes(NO_CONTENT), server_context()) as alive,
        running_worker(records, deliver) as worker,
    ):
        for number in range(1000):
            worker.try_enqueue(work_for(f"hangs {number}", number, dead.url))
        worker.try_enqueue(work_for("newcomer", 1000, alive.url))
        assert await records.outcomes(1000) == [DELIVERED]
        assert len(records.recorded) == 1
        assert worker.statistics().active == 1000


@pytest.mark.spec("K6")
async def test_a_thousand_merchants_with_backlogs_that_hang_leave_places(
    autojump_clock: MockClock,
) -> None:
    brands = [f"hangs {number}" for number in range(1000)]
    records, servers = DeliveryRecords(), MerchantServers(dict.fromkeys(brands, (TIMEOUT, 15)))
    async with running_worker(records, servers.deliver) as worker:
        for number, brand in enumerate(brands):
            for backlog in range(20):
                worker.try_enqueue(work_for(brand, 20 * number + backlog))
        worker.try_enqueue(work_for("newcomer", 100_000))
        assert await records.outcomes(100_000) == [DELIVERED]
        assert len(records.recorded) == 1


@pytest.mark.spec("K5", "K6")
async def test_a_backlog_of_10_000_that_times_out_is_soon_recorded_and_hardly_sent(
    autojump_clock: MockClock,
) -> None:
    records, servers = DeliveryRecords(), MerchantServers({"dead": (TIMEOUT, 15)})
    backlog, others = range(10_000), range(20_000, 20_100)
    async with running_worker(records, servers.deliver) as worker:
        for number in backlog:
            worker.try_enqueue(work_for("dead", number))
        for number in others:
            worker.try_enqueue(work_for("healthy", number))
        started = trio.current_time()
        assert await records.outcomes(*others) == [DELIVERED] * 100
        assert trio.current_time() == started
        outcomes = await records.outcomes(*backlog)
        assert trio.current_time() - started == 15
    assert servers.times_sent("dead") == outcomes.count(TIMEOUT)
    assert 5 <= outcomes.count(TIMEOUT) < 5 + 16
    assert outcomes.count(BREAKER_OPEN) == 10_000 - outcomes.count(TIMEOUT)
