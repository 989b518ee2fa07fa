"""The gateway's clock: moments rise, nothing is created in a window that was served, and time
continues."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.testing import START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Moment, MonotonicInstant, Span, earlier, elapsed, later
from mmo_trio.system.clock import boot_id
from tests.support.set_clock import SetClock

NOTHING = Instant(0)


def test_moments_rise_within_and_across_calls_while_the_clock_stands_still() -> None:
    frozen = SetClock()
    moments = [*frozen.next_moments(3, after=NOTHING), *frozen.next_moments(2, after=NOTHING)]
    assert [now - START for now, _ in moments] == [0, 1, 2, 3, 4]
    assert all(after > before for (_, before), (_, after) in pairwise(moments))


def test_both_times_are_read_at_once_and_stay_apart_after_a_wrong_clock() -> None:
    wrong = SetClock()
    wrong.step(clock.HOUR)
    moment = wrong.moment()
    assert moment == Moment(wrong.own_time(), wrong.wall_time())
    assert elapsed(moment.time, moment.utc) == clock.HOUR


@pytest.mark.spec("R7")
def test_a_moment_lies_above_what_the_store_has_served() -> None:
    ahead = later(START, clock.SECOND)
    assert SetClock().next_moments(1, after=ahead) == [(START, ahead + 1)]


@pytest.mark.spec("R7")
def test_nothing_is_created_in_a_served_window_when_the_clock_steps_back() -> None:
    stepping = SetClock()
    served = earlier(START, clock.MINUTE)
    stepping.mark_served(served)
    stepping.mark_served(later(START, clock.DAY))  # It ends in the future and promises nothing.
    stepping.step(Span(-clock.HOUR))
    assert stepping.next_moments(1, after=NOTHING) == [
        (later(START, Span(2 * clock.MINUTE)), served)
    ]


def test_created_at_is_true_again_as_soon_as_the_clock_is() -> None:
    stepping = SetClock()
    stepping.step(Span(4 * clock.DAY))
    [(before, wrong)] = stepping.next_moments(1, after=NOTHING)
    assert wrong - before == 4 * clock.DAY
    stepping.shown = earlier(stepping.shown, Span(4 * clock.DAY))
    stepping.observe()
    assert stepping.next_moments(1, after=NOTHING) == [(before + 1, before + 1)]


def test_a_record_carries_own_time_and_what_was_served_to_the_next_process() -> None:
    before = SetClock()
    before.mark_served(earlier(START, clock.SECOND))
    record = before.record()
    assert record == ClockRecord(
        boot_id(), MonotonicInstant(0), START, START, earlier(START, clock.SECOND)
    )
    after = SetClock()
    after.shown, after.booted = later(START, clock.DAY), MonotonicInstant(60)
    after.continue_from(record)
    assert after.own_time() == START + 60
    assert after.wall_time() == later(START, clock.DAY)
    assert after.record().served_until == record.served_until


def test_a_sandbox_moves_all_clocks_together() -> None:
    moved = SetClock()
    moved.own_time()
    moved.advance(clock.DAY)
    moved.observe()
    assert moved.own_time() == moved.wall_time() == moved.raw_wall_time() == later(START, clock.DAY)
    with pytest.raises(ValueError, match="forward only"):
        moved.advance(Span(-1))


@pytest.mark.spec("C12", "P5")
def test_requests_count_only_from_a_moment_after_the_process_has_resumed() -> None:
    machine = SetClock()

    def counts_after(seconds: int) -> bool:
        """Return whether a request that is read after this time counts."""
        machine.booted = later(machine.booted, Span(seconds * clock.SECOND))
        return machine.since_boot() >= machine.requests_count_since()

    assert counts_after(0)
    assert counts_after(3600), "nobody has observed the clock yet"
    machine.observe()
    assert counts_after(10)
    read_at = machine.since_boot()
    assert not counts_after(11)
    assert machine.last_suspension is not None
    assert machine.last_suspension.lasted == 11 * clock.SECOND
    assert not counts_after(1)
    assert counts_after(1)
    assert counts_after(9)
    assert read_at < machine.requests_count_since(), (
        "it has waited, however long it takes after that"
    )
    machine.advance(clock.HOUR)
    assert counts_after(0), "a sandbox's clock was moved, and nothing has waited"
