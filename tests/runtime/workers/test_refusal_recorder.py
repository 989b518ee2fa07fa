"""Requests that limits or flows refused are written together, some seconds after the first of
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import pytest
import trio
from attrs import define, field
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.replies import Rejected
from mmo_sansio.payments.brand_changes import RefusedRequest
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.testing import START, a_create_payment, numbered_reference
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.problems import Problem
from mmo_trio.storage.interface.admin_types import BrandDay, RefusalCount
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.workers.housekeeping import REFUSALS_INTERVAL_S, REFUSALS_WAITING_MAX, RefusalRecorder


@define
class WatchedStore:
    """Remembers how many requests each write recorded; can refuse to write."""

    admin: Any
    writes: list[int] = field(factory=list)
    is_down: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.admin, name)

    async def record_refusals(
        self, times: Mapping[BrandDay, int], refused: Sequence[RefusedRequest], *, now: Instant
    ) -> None:
        """See the store."""
        if self.is_down:
            raise StoreUnavailable("down")
        self.writes.append(len(refused))
        await self.admin.record_refusals(times, refused, now=now)


@pytest.fixture
def watched(store: SqliteStore) -> WatchedStore:
    """A store that is watched."""
    return WatchedStore(store.admin)


def refused(number: int) -> tuple[CreatePayment, Problem]:
    """A request for too large an amount, and its problem."""
    input_ = a_create_payment(numbered_reference(number), amount=Decimal(900_000_000))
    reply = decide(Ledger(), input_, now=START).reply
    assert isinstance(reply, Rejected)
    return input_, reply.problem


def the_day(input_: CreatePayment) -> BrandDay:
    """The day of the requests."""
    return BrandDay(input_.brand.id, START // DAY)


async def test_many_refusals_are_one_write_and_what_is_too_much_is_counted(
    watched: WatchedStore, autojump_clock: MockClock
) -> None:
    recorder = RefusalRecorder(cast(AdminStore, watched), lambda: START)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await trio.sleep(10 * REFUSALS_INTERVAL_S)
        assert watched.writes == []
        for number in range(REFUSALS_WAITING_MAX + 7):
            recorder.note(*refused(number))
        await trio.sleep(REFUSALS_INTERVAL_S - 0.1)
        assert watched.writes == []
        await trio.sleep(0.2)
        assert watched.writes == [REFUSALS_WAITING_MAX]
        count = await watched.refusal_count(the_day(refused(0)[0]))
        assert count == RefusalCount(REFUSALS_WAITING_MAX + 7, REFUSALS_WAITING_MAX)
        recorder.note(*refused(0))
        await trio.sleep(10 * REFUSALS_INTERVAL_S)
        assert watched.writes == [REFUSALS_WAITING_MAX, 1]
        nursery.cancel_scope.cancel()


async def test_what_is_left_at_the_end_is_written(watched: WatchedStore) -> None:
    recorder = RefusalRecorder(cast(AdminStore, watched), lambda: START)
    recorder.note(*refused(1))
    await recorder.write_last()
    await recorder.write_last()
    assert watched.writes == [1]


async def test_a_store_that_is_down_costs_only_these_refusals(watched: WatchedStore) -> None:
    recorder = RefusalRecorder(cast(AdminStore, watched), lambda: START)
    watched.is_down = True
    recorder.note(*refused(1))
    with capture_logs() as lines:
        await recorder.write()
    assert [(each["event"], each["refused"]) for each in lines] == [("refusals_not_recorded", 1)]
    watched.is_down = False
    recorder.note(*refused(2))
    await recorder.write()
    assert (await watched.refusal_count(the_day(refused(0)[0]))).times == 1
