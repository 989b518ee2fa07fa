"""The scheduler wakes transactions in order, and claims abandoned work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import copy

import outcome
import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_sansio.messages.inputs import Input, TransactionWoke
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.testing import a_create_payment, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import FIRST_INSTANT, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Terms
from mmo_trio.engine.engine import DecisionFailed, PendingInput
from mmo_trio.storage.interface.store import StoreUnavailable, WorkItem
from mmo_trio.system.clock import boot_time
from mmo_trio.workers import scheduler as scheduler_module
from mmo_trio.workers.scheduler import Scheduler
from tests.support.engine_double import EngineDouble, now


@define
class SchedulerWorld:
    """A scheduler on the store of the engine double."""

    engine: EngineDouble = Factory(EngineDouble)
    advanced: Span = Span(0)
    """How far the sandbox's clock is advanced."""
    abandoned: list[WorkItem] = Factory(list)
    dispatched: list[WorkItem] = Factory(list)
    room: int = 1_000
    store_errors: list[Exception] = Factory(list)
    woken_references: list[str] = Factory(list)
    queries: int = 0
    scheduler: Scheduler = Factory(
        lambda self: Scheduler(
            self, self.enqueue, self.dispatch, lambda: len(self.dispatched) < self.room, self.now
        ),
        takes_self=True,
    )

    def now(self) -> Instant:
        return later(now(), self.advanced)

    def enqueue(self, input_: Input) -> PendingInput:
        assert isinstance(input_, TransactionWoke)
        self.woken_references.append(input_.gateway_reference)
        pending = PendingInput(input_, boot_time())
        pending.complete(outcome.capture(self.engine.gateway.receive, input_, now=self.now()))
        return pending

    def dispatch(self, work: WorkItem) -> None:
        self.dispatched.append(work)

    async def next_wake(self, *, after: Instant = FIRST_INSTANT) -> Instant | None:
        await trio.lowlevel.checkpoint()
        wakes = (each.progress.wake_at for each in self.engine.gateway.ledger.transactions.values())
        return min((at for at in wakes if at is not None and at > after), default=None)

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.queries += 1
        if self.store_errors:
            raise self.store_errors.pop(0)
        found = sorted(
            (each.progress.wake_at, each.reference)
            for each in self.engine.gateway.ledger.transactions.values()
            if each.progress.wake_at is not None and each.progress.wake_at <= now
        )
        return [reference for _, reference in found[:limit]]

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        await trio.lowlevel.checkpoint()
        handed, self.abandoned = self.abandoned[:limit], self.abandoned[limit:]
        return handed

    async def create(self, number: int, *, pending_for: Span) -> None:
        terms = Terms(pending_timeout=pending_for)
        subject = numbered_reference(number)
        await self.engine.submit(a_create_payment(subject, terms=terms, merchant_reference=subject))

    def stage(self, number: int) -> Stage:
        return self.engine.transaction(numbered_reference(number)).progress.stage


@asynccontextmanager
async def running(world: SchedulerWorld) -> AsyncIterator[SchedulerWorld]:
    with trio.fail_after(7 * 86_400):
        async with trio.open_nursery() as nursery:
            await nursery.start(world.scheduler.run)
            yield world
            nursery.cancel_scope.cancel()


@pytest.mark.spec("S3")
async def test_a_payment_expires_at_its_time(autojump_clock: MockClock) -> None:
    async with running(SchedulerWorld()) as world:
        await world.create(1, pending_for=Span(300 * clock.SECOND))
        await trio.sleep(299.9)
        assert world.stage(1) is Stage.CREATED
        await trio.sleep(1)
        progress = world.engine.transaction(numbered_reference(1)).progress
        assert progress.error_code is ErrorCode.TRANSACTION_EXPIRED
        assert progress.completed_at is not None
        assert progress.completed_at - now() < clock.SECOND


@pytest.mark.spec("S3")
async def test_transactions_that_are_overdue_at_the_start_are_woken_in_the_order_of_their_times(
    autojump_clock: MockClock,
) -> None:
    world = SchedulerWorld()
    order = [7, 3, 9, 1, 5, 2, 8, 4, 6, 0]
    for place, number in enumerate(order):
        await world.create(number, pending_for=Span((place + 1) * clock.MINUTE))
    await trio.sleep(3_600)
    async with running(world):
        await trio.sleep(1)
        assert world.woken_references == [numbered_reference(number) for number in order]
        assert world.engine.gateway.next_wake() is None


@pytest.mark.spec("S3")
async def test_several_rounds_follow_each_other_without_a_long_pause(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "ROUND_SIZE_MAX", 3)
    world = SchedulerWorld()
    for number in range(10):
        await world.create(number, pending_for=clock.SECOND)
    await trio.sleep(10)
    async with running(world):
        await trio.sleep(scheduler_module.SCAN_INTERVAL_MIN_S / 2)
        assert len(world.woken_references) == 10


@pytest.mark.spec("S3")
async def test_a_backlog_is_told_of_until_its_last_round(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "ROUND_SIZE_MAX", 3)
    woken_at_end: list[int] = []

    @define
    class WaitsFromTheFirstRound(SchedulerWorld):
        def enqueue(self, input_: Input) -> PendingInput:
            if not self.woken_references:
                nursery.start_soon(self.wait)
            return SchedulerWorld.enqueue(self, input_)

        async def wait(self) -> None:
            await self.scheduler.backlog.wait_for_end()
            woken_at_end.append(len(self.woken_references))

    world = WaitsFromTheFirstRound()
    for number in range(10):
        await world.create(number, pending_for=clock.SECOND)
    await trio.sleep(10)
    async with trio.open_nursery() as nursery, running(world):
        await trio.sleep(scheduler_module.SCAN_INTERVAL_MIN_S / 2)
        assert woken_at_end == [10]


@pytest.mark.spec("S3")
async def test_rounds_in_which_the_same_transaction_is_due_again_cause_little_load(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    @define
    class Defers(SchedulerWorld):
        def enqueue(self, input_: Input) -> PendingInput:
            pending = PendingInput(input_, boot_time())
            pending.complete(outcome.Value(Ignored("It is not due any more.")))
            return pending

    monkeypatch.setattr(scheduler_module, "ROUND_SIZE_MAX", 3)
    world = Defers()
    for number in range(3):
        await world.create(number, pending_for=clock.SECOND)
    await trio.sleep(10)
    async with running(world):
        await trio.sleep(1)
        assert 10 < world.queries <= 2 + 1 / scheduler_module.SCAN_INTERVAL_MIN_S


@pytest.mark.spec("S3")
async def test_the_scheduler_goes_on_after_store_errors(autojump_clock: MockClock) -> None:
    world = SchedulerWorld(
        store_errors=[StoreUnavailable("gone"), StoreUnavailable("gone"), ValueError("bug")]
    )
    await world.create(1, pending_for=clock.SECOND)
    async with running(world):
        await trio.sleep(2.5)
        assert world.stage(1) is Stage.CREATED
        await trio.sleep(2)
        assert world.stage(1) is Stage.FAILED


async def test_a_transaction_that_cannot_be_woken_delays_no_other_and_causes_little_load(
    autojump_clock: MockClock,
) -> None:
    @define
    class NeverWakesTheFirst(SchedulerWorld):
        def enqueue(self, input_: Input) -> PendingInput:
            assert isinstance(input_, TransactionWoke)
            if input_.gateway_reference != numbered_reference(1):
                return SchedulerWorld.enqueue(self, input_)
            pending = PendingInput(input_, boot_time())
            pending.complete(outcome.Error(StoreUnavailable("not this one")))
            return pending

    world = NeverWakesTheFirst()
    await world.create(1, pending_for=clock.SECOND)
    await world.create(2, pending_for=clock.SECOND)
    async with running(world):
        await trio.sleep(61)
        assert (world.stage(1), world.stage(2)) == (Stage.CREATED, Stage.FAILED)
        assert world.queries <= 70


@define
class NeverWakesSome(SchedulerWorld):
    """The engine fails on these, every time that they are woken."""

    failing: int = 3
    """How many of the payments, the first ones, cannot be woken."""
    error: Exception = Factory(lambda: DecisionFailed("the decision failed"))
    stopped_failing: bool = False

    def enqueue(self, input_: Input) -> PendingInput:
        assert isinstance(input_, TransactionWoke)
        if self.stopped_failing or input_.gateway_reference >= numbered_reference(self.failing):
            return SchedulerWorld.enqueue(self, input_)
        self.woken_references.append(input_.gateway_reference)
        pending = PendingInput(input_, boot_time())
        pending.complete(outcome.Error(copy(self.error)))  # Each with a traceback of its own.
        return pending


@pytest.mark.spec("S3")
async def test_a_round_full_of_payments_that_cannot_be_woken_holds_up_no_other(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "ROUND_SIZE_MAX", 3)
    world = NeverWakesSome()
    for number in range(3):
        await world.create(number, pending_for=clock.SECOND)
    for number in range(3, 20):
        await world.create(number, pending_for=Span(2 * clock.SECOND))
    await world.create(20, pending_for=Span(31 * clock.SECOND))
    await trio.sleep(10)
    async with running(world):
        await trio.sleep(scheduler_module.SCAN_INTERVAL_MIN_S * 3)
        assert {world.stage(number) for number in range(3, 20)} == {Stage.FAILED}
        await trio.sleep(20.9)
        assert world.stage(20) is Stage.CREATED
        await trio.sleep(0.1)
        assert world.stage(20) is Stage.FAILED, "a payment that is due later is woken at its time"


@pytest.mark.spec("S3")
async def test_however_many_payments_cannot_be_woken_they_hold_up_no_other(
    autojump_clock: MockClock,
) -> None:
    """More than any bound of before: 1,024 and a full round."""
    many = 1_100
    world = NeverWakesSome(failing=many)
    for number in range(many):
        await world.create(number, pending_for=clock.SECOND)
    await world.create(many, pending_for=Span(2 * clock.SECOND))
    await trio.sleep(10)
    async with running(world):
        await trio.sleep(5)
        assert world.stage(many) is Stage.FAILED
        world.stopped_failing = True
        await trio.sleep(120)
        assert {world.stage(number) for number in range(many)} == {Stage.FAILED}


@pytest.mark.spec("S6")
async def test_abandoned_work_is_claimed_beside_payments_that_cannot_be_woken(
    autojump_clock: MockClock,
) -> None:
    world = NeverWakesSome()
    await world.create(0, pending_for=clock.SECOND)
    await world.create(7, pending_for=clock.DAY)
    world.abandoned = [world.engine.work(SubmitToProvider(numbered_reference(7)))]
    await trio.sleep(10)
    async with running(world):
        await trio.sleep(0.5)
        assert [work.intent.gateway_reference for work in world.dispatched] == [
            numbered_reference(7)
        ]


@pytest.mark.spec("S3")
async def test_a_payment_that_could_not_be_woken_is_woken_again_and_ever_more_rarely(
    autojump_clock: MockClock,
) -> None:
    world = NeverWakesSome()
    await world.create(0, pending_for=clock.SECOND)
    async with running(world):
        await trio.sleep(1_800)
        assert 10 < len(world.woken_references) < 50
        world.stopped_failing = True
        await trio.sleep(61)
        assert world.stage(0) is Stage.FAILED
        failures = len(world.woken_references)
        await trio.sleep(1_800)
        assert len(world.woken_references) == failures


@pytest.mark.spec("S6")
async def test_abandoned_work_is_claimed_while_the_workers_have_room(
    autojump_clock: MockClock,
) -> None:
    world = SchedulerWorld(room=2)
    for number in range(3):
        await world.create(number, pending_for=clock.DAY)
    work_items = [
        world.engine.work(SubmitToProvider(numbered_reference(number))) for number in range(3)
    ]
    async with running(world):
        world.abandoned = work_items[:2]
        await trio.sleep(1.5)
        assert world.dispatched == work_items[:2]
        world.abandoned = work_items[2:]
        await trio.sleep(10)
        assert world.dispatched == work_items[:2]
        world.dispatched.clear()
        await trio.sleep(1.5)
        assert world.dispatched == work_items[2:]


@pytest.mark.spec("S3")
async def test_what_is_due_once_a_sandbox_clock_was_advanced_is_woken_at_once(
    autojump_clock: MockClock,
) -> None:
    world = SchedulerWorld()
    await world.create(1, pending_for=Span(3 * clock.DAY))
    async with running(world):
        await trio.sleep(10.5)
        world.advanced = Span(3 * clock.DAY)
        world.scheduler.wake_up()
        await trio.testing.wait_all_tasks_blocked()
        assert world.stage(1) is Stage.FAILED


@pytest.mark.spec("S3")
async def test_wake_all_due_returns_once_everything_is_decided(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "ROUND_SIZE_MAX", 2)
    world = SchedulerWorld()
    for number in range(5):
        await world.create(number, pending_for=clock.DAY)
    world.advanced = clock.DAY
    assert await world.scheduler.wake_all_due(world.now()) == 5
    assert world.engine.gateway.next_wake() is None
