"""Merchants whose names nobody answers for hold back no callback of another merchant (K6)."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.http.client.client import HttpClient
from tests.support.callback_work import DeliveryRecords, running_worker, work_for
from tests.support.hostile_receivers import (
    HOST,
    PRIVATE,
    answers_and_closes,
    running_receiver,
    server_context,
    trusting_context,
)

MERCHANTS, CALLBACKS_EACH = 20, 16


async def resolve(host: str, port: int) -> list[str]:
    """Answer for the healthy merchant's name only, and hang for two minutes for every other, as a
    resolver does that asks several servers."""
    if host != HOST:
        await trio.sleep(120)
        raise OSError("temporary failure in name resolution")
    return ["127.0.0.1"]


@pytest.mark.spec("K6")
async def test_callbacks_arrive_while_the_names_of_twenty_merchants_hang(
    jumping_clock: MockClock,
) -> None:
    records = DeliveryRecords()
    client = HttpClient(rules=PRIVATE, context=trusting_context(), resolver=resolve)
    hanging = [
        (brand, brand * CALLBACKS_EACH + each)
        for brand in range(MERCHANTS)
        for each in range(CALLBACKS_EACH)
    ]
    healthy = range(1_000, 1_010)
    answer = answers_and_closes(b"HTTP/1.1 204 No Content\r\n\r\n")
    async with (
        running_receiver(answer, server_context()) as receiver,
        running_worker(records, client.deliver) as worker,
    ):
        for round_ in range(3):
            for brand, number in hanging:
                url = f"https://n{number}.of{brand}.example/cb"
                assert worker.try_enqueue(
                    work_for(f"brand-{brand}", 10_000 * (round_ + 1) + number, url)
                )
        await trio.sleep(20)
        for number in healthy:
            assert worker.try_enqueue(work_for("healthy", number, receiver.url))
        outcomes = await records.outcomes(*healthy)
        assert set(outcomes) == {DeliveryOutcome.DELIVERED}
        first = await records.outcomes(*(10_000 + number for _, number in hanging))
        assert set(first) <= {DeliveryOutcome.TIMEOUT, DeliveryOutcome.BREAKER_OPEN}
