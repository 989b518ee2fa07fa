"""The clock monitor notices steps of the wall clock, and saves from what the next process
continues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
import structlog
import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_sansio.resilience.clock_guard import ClockRecord, StoreClock
from mmo_sansio.testing import START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span, earlier, later
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.clock_monitor import COMPARISON_INTERVAL_S, ClockMonitor

S = clock.SECOND


class SteppingClock(GatewayClock):
    """Follows Trio's clock; tests step its wall clock."""

    error = Span(0)

    def monotonic(self) -> MonotonicInstant:
        return MonotonicInstant(round(trio.current_time() * S))

    def raw_wall_time(self) -> Instant:
        return later(START, Span(self.monotonic() + self.error))


@define
class Monitored:
    """A clock, and what was saved of it."""

    clock: SteppingClock = Factory(SteppingClock)
    saved: list[ClockRecord] = Factory(list)
    is_available: bool = True
    store_behind: Span | None = None
    """By how much the store's clock is behind true time; None for a store without a clock."""
    agreeing: int = 0
    stalls_for_s: float = 0.0

    async def read_clock(self, boot_id: str) -> StoreClock | None:
        await trio.sleep(self.stalls_for_s)
        if self.store_behind is None:
            return None
        now = earlier(later(START, Span(self.clock.monotonic())), self.store_behind)
        return StoreClock(now, self.agreeing, differing=1 - min(self.agreeing, 1))

    async def save_clock_record(self, record: ClockRecord) -> None:
        await trio.lowlevel.checkpoint()
        if not self.is_available:
            raise StoreUnavailable("gone")
        self.saved.append(record)


@asynccontextmanager
async def running(world: Monitored) -> AsyncIterator[Monitored]:
    async with trio.open_nursery() as nursery:
        await nursery.start(ClockMonitor(world.clock, cast(Store, world)).run)
        yield world
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S3")
@pytest.mark.parametrize("error", [Span(4 * clock.DAY), Span(-clock.HOUR)], ids=["ahead", "behind"])
async def test_a_wrong_clock_does_not_change_own_time_and_wall_time_only_while_it_is_wrong(
    autojump_clock: MockClock, error: Span
) -> None:
    async with running(Monitored()) as world:
        await trio.sleep(10.5)
        world.clock.error = error
        await trio.sleep(10)
        assert (world.clock.own_time(), world.clock.wall_time()) == (
            later(START, Span(20_500_000)),
        ) * 2
        await trio.sleep(60)
        assert world.clock.own_time() == later(START, Span(80_500_000))
        assert world.clock.wall_time() == world.clock.raw_wall_time()
        world.clock.error = Span(0)
        await trio.sleep(1)
        assert (world.clock.own_time(), world.clock.wall_time()) == (
            later(START, Span(81_500_000)),
        ) * 2


async def test_a_step_and_its_acceptance_are_logged_once(autojump_clock: MockClock) -> None:
    with structlog.testing.capture_logs() as log:
        async with running(Monitored()) as world:
            await trio.sleep(10.5)
            world.clock.error = clock.HOUR
            await trio.sleep(120)
            world.clock.error = Span(0)
            await trio.sleep(120)
    assert log == [
        {"event": "wall_clock_stepped", "log_level": "warning", "seconds": 3600.0},
        {"event": "wall_clock_accepted", "log_level": "warning", "seconds_ahead": 3600.0},
        {"event": "wall_clock_stepped", "log_level": "warning", "seconds": -3600.0},
        {"event": "wall_clock_accepted", "log_level": "warning", "seconds_ahead": 0.0},
    ]


async def test_a_suspension_is_logged_once(mock_clock: MockClock) -> None:
    with structlog.testing.capture_logs() as log:
        async with running(Monitored()):
            for passes in (1, 1, 3600, 1, 1):
                mock_clock.jump(passes)
                await trio.testing.wait_all_tasks_blocked()
    assert log == [{"event": "process_resumed", "log_level": "warning", "seconds": 3600.0}]


async def test_a_store_that_stalls_is_no_suspension(autojump_clock: MockClock) -> None:
    world = Monitored()
    async with running(world):
        world.stalls_for_s = 600
        await trio.sleep(300)
        assert world.clock.last_suspension is None


async def test_the_clocks_are_saved_every_minute_and_after_a_change(
    autojump_clock: MockClock,
) -> None:
    async with running(Monitored()) as world:
        await trio.sleep(125.5)
        assert [each.time - START for each in world.saved] == [60 * S, 120 * S]
        world.clock.error = clock.HOUR
        await trio.sleep(62)
        assert [each.utc - each.time for each in world.saved[2:]] == [0, clock.HOUR]


async def test_a_store_that_cannot_serve_is_tried_again_after_a_minute(
    autojump_clock: MockClock,
) -> None:
    async with running(Monitored(is_available=False)) as world:
        await trio.sleep(30)
        world.is_available = True
        await trio.sleep(31)
        assert len(world.saved) == 1


@pytest.mark.spec("S3")
@pytest.mark.parametrize(
    ("behind_s", "agreeing", "is_logged", "gets_requests"),
    [
        (1, 1, False, True),
        (-3, 0, True, True),
        (40, 1, True, False),
        (-40, 1, True, False),
        (40, 0, True, True),
    ],
)
async def test_a_clock_that_differs_from_the_stores_is_told_and_where_others_agree_gets_no_requests(
    behind_s: int, agreeing: int, is_logged: bool, gets_requests: bool, autojump_clock: MockClock
) -> None:
    world = Monitored(store_behind=Span(behind_s * S), agreeing=agreeing)
    with structlog.testing.capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            monitor = ClockMonitor(world.clock, cast(Store, world))
            await nursery.start(monitor.run)
            await trio.sleep(3 * COMPARISON_INTERVAL_S)
            assert (monitor.fault is None) == gets_requests
            assert monitor.ahead_of_store == behind_s * S
            world.store_behind = Span(0)
            await trio.sleep(3 * COMPARISON_INTERVAL_S)
            assert monitor.fault is None
            assert monitor.ahead_of_store == 0
            nursery.cancel_scope.cancel()
    told = [each["seconds_ahead"] for each in lines if each["event"] == "clock_differs_from_store"]
    assert set(told) == ({behind_s} if is_logged else set())
