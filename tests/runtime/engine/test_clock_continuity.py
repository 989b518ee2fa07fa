"""A process goes on with the gateway's own time, and none goes back behind what another has
dated."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.testing import START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import MonotonicInstant, Span, later
from mmo_trio.engine.engine import begin_clock
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.sqlite import open_sqlite
from tests.support.set_clock import SetClock
from tests.support.sqlite_store import StoreFile


async def time_of_process(file: Path, *, wall_ahead: Span, booted: MonotonicInstant) -> int:
    """Begin a process and return how far the gateway's own time is ahead of the test's start; then
    it dies."""
    process = SetClock()
    process.shown, process.booted = later(START, wall_ahead), booted
    async with open_sqlite(file, serving=True) as store:
        await begin_clock(process, store)
    return process.own_time() - START


@pytest.mark.spec("S3")
async def test_time_does_not_go_back_behind_a_process_that_died_at_once_with_a_clock_ahead(
    tmp_path: Path,
) -> None:
    """Each machine was restarted in between. What the second process has dated is due for the
    third."""
    file = tmp_path / "gateway.db"
    assert await time_of_process(file, wall_ahead=Span(0), booted=MonotonicInstant(clock.HOUR)) == 0
    ahead = await time_of_process(
        file, wall_ahead=Span(4 * clock.DAY), booted=MonotonicInstant(2 * clock.SECOND)
    )
    assert ahead == 4 * clock.DAY
    assert (
        await time_of_process(file, wall_ahead=clock.HOUR, booted=MonotonicInstant(clock.SECOND))
        >= ahead
    )


@pytest.mark.spec("S3")
async def test_nothing_begins_while_its_time_cannot_be_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def save_perhaps(record: ClockRecord) -> None:
        raise OutcomeUnknown("the disk failed")

    async with StoreFile().open() as store:
        monkeypatch.setattr(store, "save_clock_record", save_perhaps)
        with pytest.raises(StoreUnavailable, match="own time"):
            await begin_clock(SetClock(), store)
