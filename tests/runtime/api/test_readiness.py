"""`/readyz` asks the store at most once a second, whoever asks, and believes the last commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
import trio
from attrs import define
from trio.testing import MockClock

from mmo_trio.api.merchant_api import Readiness
from mmo_trio.engine.engine import EngineStatistics
from mmo_trio.storage.interface.store import StoreCorrupt, StoreUnavailable
from mmo_trio.storage.sql.store import Store


@define(eq=False)
class StoreDouble:
    """Answers `check`, and counts how often it is asked."""

    error: Exception | None = None
    delay_s: float = 0.0
    asked: int = 0
    key_fault: str | None = None

    async def find_key_fault(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return self.key_fault

    async def check(self) -> None:
        self.asked += 1
        await trio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error


@define(eq=False)
class Setup:
    store: StoreDouble
    engine: EngineStatistics
    readiness: Readiness

    async def is_ready(self) -> bool:
        try:
            await self.readiness.require_ready()
        except StoreUnavailable:
            return False
        return True


@pytest.fixture
def setup() -> Setup:
    store, engine = StoreDouble(), EngineStatistics()
    return Setup(store, engine, Readiness(cast(Store, store), engine, store.find_key_fault))


async def test_the_store_is_asked_once_a_second(setup: Setup, mock_clock: MockClock) -> None:
    for second in range(1, 4):
        for _ in range(100):
            assert await setup.is_ready()
        assert setup.store.asked == second
        mock_clock.jump(1)


async def test_all_who_ask_at_once_share_the_answer(
    setup: Setup, autojump_clock: MockClock
) -> None:
    setup.store.delay_s = 0.5
    setup.store.error = StoreUnavailable("gone")
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(await setup.is_ready())

    async with trio.open_nursery() as nursery:
        for _ in range(1_000):
            nursery.start_soon(ask)
    assert answers == [False] * 1_000
    assert setup.store.asked == 1


@pytest.mark.parametrize("make_error", [StoreUnavailable, StoreCorrupt])
async def test_a_store_that_is_gone_is_noticed_within_a_second(
    setup: Setup, mock_clock: MockClock, make_error: Callable[[str], Exception]
) -> None:
    assert await setup.is_ready()
    setup.store.error = make_error("gone")
    mock_clock.jump(1)
    assert not await setup.is_ready()
    setup.store.error = None
    mock_clock.jump(1)
    assert await setup.is_ready()


async def test_a_commit_that_failed_counts_at_once_and_until_one_succeeds(
    setup: Setup, mock_clock: MockClock
) -> None:
    assert await setup.is_ready()
    setup.engine.last_failure_at = trio.current_time()
    assert not await setup.is_ready()
    mock_clock.jump(4)
    assert not await setup.is_ready()
    setup.engine.last_commit_at = trio.current_time()
    assert await setup.is_ready()


async def test_a_commit_that_failed_does_not_count_for_ever(
    setup: Setup, mock_clock: MockClock
) -> None:
    """Without requests there would be no other commit to show that there is room again."""
    setup.engine.last_failure_at = trio.current_time()
    mock_clock.jump(5)
    assert await setup.is_ready()
    assert setup.store.asked == 1


async def test_a_store_that_is_too_busy_to_answer_is_ready_while_it_commits(
    setup: Setup, mock_clock: MockClock
) -> None:
    """A gateway under load is not taken out of service because its few readers are busy."""
    setup.store.error = StoreUnavailable("the store didn't answer within 0.9 s")
    for _ in range(10):
        setup.engine.last_commit_at = trio.current_time()
        assert await setup.is_ready()
        mock_clock.jump(1)
    assert not await setup.is_ready()
    assert setup.store.asked == 11


async def test_a_process_without_the_store_s_master_key_is_not_ready_although_it_commits(
    setup: Setup, autojump_clock: MockClock
) -> None:
    setup.engine.last_commit_at = trio.current_time()
    assert await setup.is_ready()
    setup.store.key_fault = "its keys are not those of the store."
    await trio.sleep(1)
    setup.engine.last_commit_at = trio.current_time()
    assert not await setup.is_ready()
    setup.store.key_fault = None
    await trio.sleep(1)
    assert await setup.is_ready()
