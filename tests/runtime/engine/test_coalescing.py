"""The engine lets callers whose replies have just gone out send their next inputs before the next
batch begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.testing import a_create_payment, numbered_reference
from mmo_trio.engine.engine import COALESCED_MAX, Engine, Outbox, next_batch_begins
from mmo_trio.storage.interface.store import DecideBatch
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from tests.support.sqlite_store import StoreFile

PAUSE_S = 0.0003


@pytest.mark.parametrize(
    ("waiting", "awaited", "active", "begins"),
    [
        # Nothing waits.
        (0, 0, 0, False),
        (0, 4, 0, False),
        # Callers who have just got their replies are awaited.
        (1, 0, 0, True),
        (3, 4, 0, False),
        (4, 4, 0, True),
        (5, 4, 0, True),
        # Others are being made durable: half as many have to wait.
        (1, 0, 2, True),
        (1, 0, 3, False),
        (64, 0, 128, True),
        (64, 0, 129, False),
        # Both at once.
        (4, 4, 9, False),
        (3, 4, 2, False),
    ],
)
def test_when_the_next_batch_begins(waiting: int, awaited: int, active: int, begins: bool) -> None:
    assert next_batch_begins(waiting, awaited, active, active_per_waiting=2) is begins


@define
class SlowStore:
    """A store in memory whose commits take a while, and that knows how large each batch was and
    when it began."""

    store: Store
    commit_s: float
    batches: list[tuple[float, int]] = Factory(list)
    batches_in_flight = 1

    async def clock_record(self, boot_id: str) -> object:
        return await self.store.clock_record(boot_id)

    async def save_clock_record(self, record: ClockRecord) -> None:
        await self.store.save_clock_record(record)

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        began = trio.current_time()
        if self.commit_s:
            await trio.sleep(self.commit_s)
        decisions = await self.store.transact(reads, decide)
        self.batches.append((round(began, 6), len(decisions)))
        return decisions


async def batches_of_callers(
    callers: int, inputs_each: int, *, commit_s: float = 0.001
) -> list[int]:
    """Return how large the batches are when so many callers each send one input after the other."""
    async with StoreFile().open() as memory, trio.open_nursery() as nursery:
        store: Any = SlowStore(memory, commit_s)
        engine = Engine(store, GatewayClock(), Outbox(), coalescing_pause_s=PAUSE_S)
        await nursery.start(engine.run)

        async def call(number: int) -> None:
            await trio.sleep(number * commit_s / callers)
            for each in range(inputs_each):
                sent = number * inputs_each + each
                await engine.submit(
                    a_create_payment(
                        gateway_reference=numbered_reference(sent),
                        merchant_reference=f"order-{sent}",
                    )
                )

        async with trio.open_nursery() as calling:
            for number in range(callers):
                calling.start_soon(call, number)
        nursery.cancel_scope.cancel()
    return [size for _, size in store.batches]


def test_few_callers_are_in_one_batch_after_the_first() -> None:
    sizes = trio.run(batches_of_callers, 4, 10, clock=MockClock(autojump_threshold=0))
    assert sum(sizes) == 40
    assert sizes[2:-2] == [4] * len(sizes[2:-2])


def test_a_caller_that_is_alone_waits_for_nobody() -> None:
    async def send() -> float:
        began = trio.current_time()
        assert await batches_of_callers(1, 10, commit_s=0) == [1] * 10
        return trio.current_time() - began

    assert trio.run(send, clock=MockClock(autojump_threshold=0)) == 0


async def batches_of_bursts(*bursts: int) -> list[tuple[float, int]]:
    """Return when each batch begins, in seconds, and its size, where each burst comes once the one
    before is stored."""
    async with StoreFile().open() as memory, trio.open_nursery() as nursery:
        store: Any = SlowStore(memory, 0)
        engine = Engine(store, GatewayClock(), Outbox(), coalescing_pause_s=PAUSE_S)
        await nursery.start(engine.run)
        began, sent = trio.current_time(), 0
        for burst in bursts:
            waiting = []
            for _ in range(burst):
                sent += 1
                waiting.append(
                    engine.enqueue(
                        a_create_payment(
                            gateway_reference=numbered_reference(sent),
                            merchant_reference=f"order-{sent}",
                        )
                    )
                )
            for each in waiting:
                await each.reply()
        nursery.cancel_scope.cancel()
        return [(round(at - began, 6), size) for at, size in store.batches]


def test_who_does_not_come_again_holds_the_others_up_for_one_pause() -> None:
    found = trio.run(batches_of_bursts, 2, 1, 1, clock=MockClock(autojump_threshold=0))
    assert found == [(0, 2), (PAUSE_S, 1), (PAUSE_S, 1)]


def test_a_batch_waits_for_few_callers_only() -> None:
    found = trio.run(
        batches_of_bursts, 4 * COALESCED_MAX, COALESCED_MAX, clock=MockClock(autojump_threshold=0)
    )
    assert found == [(0, 4 * COALESCED_MAX), (0, COALESCED_MAX)]
