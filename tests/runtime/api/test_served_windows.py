"""No process creates a payment in a window of records that an earlier one has served."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from attrs import define
from trio.testing import MockClock

from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.testing import START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span, earlier, later
from mmo_trio.api.merchant_api import ServedWindows
from mmo_trio.engine.engine import continue_clock
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.sqlite import open_sqlite
from tests.support.set_clock import SetClock

pytestmark = pytest.mark.spec("R7")


@define
class Saves:
    """Takes records of the clocks, each in a second, unless it fails."""

    records: list[ClockRecord]
    error: Exception | None = None

    async def save(self, record: ClockRecord) -> None:
        await trio.sleep(1)
        if self.error is not None:
            raise self.error
        self.records.append(record)


async def test_a_process_whose_clock_was_set_back_dates_nothing_in_a_window_that_was_served(
    tmp_path: Path,
) -> None:
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await ServedWindows(SetClock(), store.save_clock_record).mark(START)
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        later_process = SetClock()
        later_process.shown, later_process.booted = (
            earlier(START, clock.DAY),
            MonotonicInstant(clock.SECOND),
        )
        await continue_clock(later_process, store)
        [(_, created_at)] = later_process.next_moments(1, after=Instant(0))
    assert created_at >= START


async def test_a_window_is_served_once_its_end_is_saved(autojump_clock: MockClock) -> None:
    saves = Saves([])
    windows = ServedWindows(SetClock(), saves.save)
    await windows.mark(earlier(START, clock.MINUTE))
    assert [each.served_until for each in saves.records] == [earlier(START, clock.MINUTE)]
    await windows.mark(earlier(START, clock.HOUR))
    await windows.mark(later(START, clock.HOUR))  # It ends in the future and promises nothing.
    assert len(saves.records) == 1


async def test_windows_that_are_served_together_share_a_save(autojump_clock: MockClock) -> None:
    saves = Saves([])
    windows = ServedWindows(SetClock(), saves.save)
    async with trio.open_nursery() as nursery:
        for seconds in range(20):
            nursery.start_soon(windows.mark, earlier(START, Span(seconds * clock.SECOND)))
    assert len(saves.records) <= 2
    assert saves.records[-1].served_until == START


@pytest.mark.parametrize(
    "error", [StoreUnavailable("the disk is full"), OutcomeUnknown("it took too long")]
)
async def test_no_window_is_served_whose_end_is_not_saved(
    autojump_clock: MockClock, error: Exception
) -> None:
    saves = Saves([], error)
    windows = ServedWindows(SetClock(), saves.save)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await windows.mark(START)
    saves.error = None
    await windows.mark(START)
    assert len(saves.records) == 1


async def test_a_store_that_records_itself_how_far_records_are_complete_is_given_nothing() -> None:
    machine = SetClock()
    await ServedWindows(machine, None).mark(START)
    assert machine.served_until == START
