"""One timer for the deadlines of many connections."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from mmo_trio.http.server.connection_limits import OUTDATED_MAX, DeadlineTimer, MovableDeadline


@pytest.fixture
async def timer(autojump_clock: MockClock, nursery: trio.Nursery) -> DeadlineTimer:
    made = DeadlineTimer()
    nursery.start_soon(made.run)
    await trio.lowlevel.checkpoint()
    return made


class Expiries(list[tuple[str, float]]):
    """Notes what expires, and when."""

    def note(self, name: str) -> None:
        self.append((name, trio.current_time()))


async def test_a_deadline_expires_once_at_its_moment(
    autojump_clock: MockClock, timer: DeadlineTimer
) -> None:
    seen = Expiries()
    MovableDeadline(timer, lambda: seen.note("late")).move(9.0)
    MovableDeadline(timer, lambda: seen.note("early")).move(2.5)
    MovableDeadline(timer, lambda: seen.note("never"))
    await trio.sleep(100)
    assert seen == [("early", 2.5), ("late", 9.0)]


async def test_a_deadline_that_was_moved_on_expires_at_its_last_moment_only(
    autojump_clock: MockClock, timer: DeadlineTimer
) -> None:
    seen = Expiries()
    deadline = MovableDeadline(timer, lambda: seen.note("it"))
    for number in range(10):
        deadline.move(trio.current_time() + 5)
        await trio.sleep(number % 4)
        deadline.move(math.inf)
        await trio.sleep(1)
    deadline.move(60.0)
    deadline.move(50.0)
    await trio.sleep(100)
    assert seen == [("it", 50.0)]


async def test_a_deadline_can_be_set_again_after_it_has_passed(
    autojump_clock: MockClock, timer: DeadlineTimer
) -> None:
    seen = Expiries()
    deadline = MovableDeadline(timer, lambda: seen.note("it"))
    deadline.move(1.0)
    await trio.sleep(2)
    deadline.move(1.5)
    await trio.sleep(1)
    deadline.move(7.0)
    await trio.sleep(10)
    assert seen == [("it", 1.0), ("it", 2.0), ("it", 7.0)]


async def test_a_closed_deadline_never_passes(
    autojump_clock: MockClock, timer: DeadlineTimer
) -> None:
    seen = Expiries()
    deadline = MovableDeadline(timer, lambda: seen.note("it"))
    deadline.move(1.0)
    deadline.close()
    deadline.close()
    await trio.sleep(10)
    assert seen == []


async def test_closed_deadlines_take_no_memory_for_long(
    autojump_clock: MockClock, timer: DeadlineTimer
) -> None:
    seen = Expiries()
    kept = MovableDeadline(timer, lambda: seen.note("kept"))
    kept.move(50.0)
    for _ in range(10 * OUTDATED_MAX):
        deadline = MovableDeadline(timer, lambda: seen.note("closed"))
        deadline.move(75.0)
        deadline.close()
    assert timer.entries <= 2 * OUTDATED_MAX + 2
    await trio.sleep(100)
    assert seen == [("kept", 50.0)]
