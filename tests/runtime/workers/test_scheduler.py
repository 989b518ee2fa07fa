"""The scanner: what is due is woken in order, what the dead have left is taken on, a bad clock expires nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import outcome
import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_sansio.messages.inputs import Input, TransactionWoke
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.testing import a_create_payment, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Terms
from mmo_trio.engine.engine import PendingInput
from mmo_trio.storage.interface.store import StoreUnavailable, WorkItem
from mmo_trio.workers import scheduler as scanner
from mmo_trio.workers.scheduler import Scheduler
from tests.support.engine_double import EngineDouble, now


@define
class Floor:
    """A scanner on the façade's memory."""

    engine: EngineDouble = Factory(EngineDouble)
    wall_offset: Span = Span(0)
    """How far the wall clock alone has jumped."""
    advanced: Span = Span(0)
    """How far the sandbox's clock is advanced."""
    orphaned: list[WorkItem] = Factory(list)
    taken: list[WorkItem] = Factory(list)
    room: int = 1_000
    troubles: list[Exception] = Factory(list)
    woken_references: list[str] = Factory(list)
    looks: int = 0
    scanner: Scheduler = Factory(
        lambda self: Scheduler(
            self,
            self.post,
            self.take,
            lambda: len(self.taken) < self.room,
            self.now,
            lambda: round(trio.current_time() * clock.SECOND) + self.advanced,
        ),
        takes_self=True,
    )

    def now(self) -> Instant:
        return later(later(now(), self.wall_offset), self.advanced)

    def post(self, given: Input) -> PendingInput:
        assert isinstance(given, TransactionWoke)
        self.woken_references.append(given.gateway_reference)
        call = PendingInput(given)
        call.complete(outcome.capture(self.engine.gateway.receive, given, now=self.now()))
        return call

    def take(self, work: WorkItem) -> None:
        self.taken.append(work)

    async def next_wake(self) -> Instant | None:
        await trio.lowlevel.checkpoint()
        return self.engine.gateway.next_wake()

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.looks += 1
        if self.troubles:
            raise self.troubles.pop(0)
        found = sorted(
            (each.progress.wake_at, each.reference)
            for each in self.engine.gateway.ledger.transactions.values()
            if each.progress.wake_at is not None and each.progress.wake_at <= now
        )
        return [reference for _, reference in found[:limit]]

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        await trio.lowlevel.checkpoint()
        handed, self.orphaned = self.orphaned[:limit], self.orphaned[limit:]
        return handed

    async def create(self, number: int, *, pending_for: Span) -> None:
        terms = Terms(pending_timeout=pending_for)
        subject = numbered_reference(number)
        await self.engine.submit(a_create_payment(subject, terms=terms, merchant_reference=subject))

    def stage(self, number: int) -> Stage:
        return self.engine.transaction(numbered_reference(number)).progress.stage


@asynccontextmanager
async def scanning(floor: Floor) -> AsyncIterator[Floor]:
    with trio.fail_after(7 * 86_400):
        async with trio.open_nursery() as nursery:
            await nursery.start(floor.scanner.run)
            yield floor
            nursery.cancel_scope.cancel()


@pytest.mark.spec("S3")
async def test_a_payment_expires_at_its_time(autojump_clock: MockClock) -> None:
    async with scanning(Floor()) as floor:
        await floor.create(1, pending_for=Span(300 * clock.SECOND))
        await trio.sleep(299.9)
        assert floor.stage(1) is Stage.CREATED
        await trio.sleep(1)
        progress = floor.engine.transaction(numbered_reference(1)).progress
        assert progress.error_code is ErrorCode.TRANSACTION_EXPIRED
        assert progress.completed_at is not None
        assert progress.completed_at - now() < clock.SECOND


@pytest.mark.spec("S3")
async def test_what_came_due_meanwhile_is_woken_in_the_order_of_its_time(
    autojump_clock: MockClock,
) -> None:
    floor = Floor()
    order = [7, 3, 9, 1, 5, 2, 8, 4, 6, 0]
    for place, number in enumerate(order):
        await floor.create(number, pending_for=Span((place + 1) * clock.MINUTE))
    await trio.sleep(3_600)
    async with scanning(floor):
        await trio.sleep(1)
        assert floor.woken_references == [numbered_reference(number) for number in order]
        assert floor.engine.gateway.next_wake() is None


@pytest.mark.spec("S3")
async def test_more_than_a_round_is_woken_without_a_pause_that_is_felt(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "ROUND_SIZE_MAX", 3)
    floor = Floor()
    for number in range(10):
        await floor.create(number, pending_for=clock.SECOND)
    await trio.sleep(10)
    async with scanning(floor):
        await trio.sleep(0.5)
        assert len(floor.woken_references) == 10


@pytest.mark.spec("S3")
async def test_after_trouble_with_the_store_it_goes_on(autojump_clock: MockClock) -> None:
    floor = Floor(troubles=[StoreUnavailable("gone"), StoreUnavailable("gone"), ValueError("bug")])
    await floor.create(1, pending_for=clock.SECOND)
    async with scanning(floor):
        await trio.sleep(2.5)
        assert floor.stage(1) is Stage.CREATED
        await trio.sleep(2)
        assert floor.stage(1) is Stage.FAILED


async def test_one_that_cannot_be_woken_holds_up_no_other_and_keeps_nobody_busy(
    autojump_clock: MockClock,
) -> None:
    @define
    class Stubborn(Floor):
        def post(self, given: Input) -> PendingInput:
            assert isinstance(given, TransactionWoke)
            if given.gateway_reference != numbered_reference(1):
                return Floor.post(self, given)
            call = PendingInput(given)
            call.complete(outcome.Error(StoreUnavailable("not this one")))
            return call

    floor = Stubborn()
    await floor.create(1, pending_for=clock.SECOND)
    await floor.create(2, pending_for=clock.SECOND)
    async with scanning(floor):
        await trio.sleep(61)
        assert (floor.stage(1), floor.stage(2)) == (Stage.CREATED, Stage.FAILED)
        assert floor.looks <= 70


@pytest.mark.spec("S6")
async def test_what_the_dead_have_left_is_taken_on_while_there_is_room(
    autojump_clock: MockClock,
) -> None:
    floor = Floor(room=2)
    for number in range(3):
        await floor.create(number, pending_for=clock.DAY)
    works = [floor.engine.work(SubmitToProvider(numbered_reference(number))) for number in range(3)]
    async with scanning(floor):
        floor.orphaned = works[:2]
        await trio.sleep(1.5)
        assert floor.taken == works[:2]
        floor.orphaned = works[2:]
        await trio.sleep(10)
        assert floor.taken == works[:2]
        floor.taken.clear()
        await trio.sleep(1.5)
        assert floor.taken == works[2:]


@pytest.mark.spec("S3")
async def test_while_the_clocks_disagree_nothing_expires(autojump_clock: MockClock) -> None:
    floor = Floor()
    await floor.create(1, pending_for=Span(3 * clock.DAY))
    async with scanning(floor):
        await trio.sleep(10)
        floor.wall_offset = Span(4 * clock.DAY)
        await trio.sleep(30)
        floor.wall_offset = Span(0)
        await trio.sleep(120)
        assert floor.stage(1) is Stage.CREATED


@pytest.mark.spec("S3")
async def test_a_jump_that_is_confirmed_for_a_minute_counts(autojump_clock: MockClock) -> None:
    floor = Floor()
    await floor.create(1, pending_for=Span(3 * clock.DAY))
    async with scanning(floor):
        await trio.sleep(10)
        floor.wall_offset = Span(4 * clock.DAY)
        await trio.sleep(59)
        assert floor.stage(1) is Stage.CREATED
        await trio.sleep(5)
        assert floor.stage(1) is Stage.FAILED


@pytest.mark.spec("S3")
async def test_a_sandbox_s_clock_is_no_jump(autojump_clock: MockClock) -> None:
    floor = Floor()
    await floor.create(1, pending_for=Span(3 * clock.DAY))
    async with scanning(floor):
        await trio.sleep(10.5)
        floor.advanced = Span(3 * clock.DAY)
        floor.scanner.wake_up()
        await trio.testing.wait_all_tasks_blocked()
        assert floor.stage(1) is Stage.FAILED


@pytest.mark.spec("S3")
async def test_wake_all_due_returns_once_all_is_decided(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "ROUND_SIZE_MAX", 2)
    floor = Floor()
    for number in range(5):
        await floor.create(number, pending_for=clock.DAY)
    floor.advanced = clock.DAY
    assert await floor.scanner.wake_all_due(floor.now()) == 5
    assert floor.engine.gateway.next_wake() is None
