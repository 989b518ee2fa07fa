"""The workers of a process end in an order: what is due is taken on by nobody who has no time to do
it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from attrs import Factory, define, evolve, field, fields, frozen
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT, BreakerSnapshot, BreakerState
from mmo_trio.engine.engine import PendingInput
from mmo_trio.service.wiring import LAST_ROUND_MAX_S, Workers
from tests.runtime.workers.providers.test_worker import WorkerHarness, has_it
from tests.runtime.workers.test_scheduler import SchedulerWorld


class Idle:
    """Does nothing until it is told to drain, or for ever."""

    accounts = ()

    async def run(
        self,
        *,
        drain: trio.Event | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        task_status.started()
        await (trio.Event() if drain is None else drain).wait()


class NoBreakers:
    async def breakers(self) -> dict[str, object]:
        return {}


@define(eq=False)
class Commits(SchedulerWorld):
    """A scheduler whose wakes are durable after a second; then their intents go to the harness's
    worker."""

    harness: WorkerHarness = field(kw_only=True)
    has_begun: trio.Event = Factory(trio.Event)
    """Set once a wake is being made durable."""

    def enqueue(self, input_: Input) -> PendingInput:
        decided = SchedulerWorld.enqueue(self, input_)
        self.has_begun.set()
        return SlowReply(decided, self.dispatch_all)  # type: ignore[return-value]

    def dispatch_all(self) -> None:
        for each in self.engine.gateway.take_intents():
            self.harness.worker_takes(self.engine.work(each))


@frozen
class SlowReply:
    decided: PendingInput
    on_durable: Callable[[], None]

    async def reply(self) -> Reply:
        await trio.sleep(1)
        self.on_durable()
        return await self.decided.reply()


@define(eq=False)
class Drained:
    """Workers of which only the scheduler and the conversations are real."""

    harness: WorkerHarness = Factory(lambda: WorkerHarness(answers=[has_it]))
    world: Commits = Factory(
        lambda self: Commits(self.harness.engine, harness=self.harness), takes_self=True
    )
    drain: trio.Event = Factory(trio.Event)

    async def run(self, nursery: trio.Nursery) -> None:
        idle: Any = Idle()
        self.harness.engine.dispatch = self.harness.worker_takes
        names = {each.name for each in fields(Workers)} - {
            "store",
            "simulated_operator",
            "channel_owner",
        }
        real: dict[str, Any] = {"providers": self.harness.worker, "scheduler": self.world.scheduler}
        workers = Workers(
            store=NoBreakers(),  # type: ignore[arg-type]
            simulated_operator=None,
            channel_owner=None,
            **{**dict.fromkeys(names, idle), **real},
        )
        await nursery.start(partial(workers.run, drain=self.drain))


@define(eq=False)
class Ending:
    """Notes when it is told to drain and when it has ended, some seconds later; one that nobody
    tells anything runs until it is cancelled."""

    name: str
    ends: dict[str, tuple[float | None, float]]
    """Trio's times by name: of its drain, if it was told, and of its end."""
    takes_s: float = 0.0
    accounts = ("its own",)
    lock: trio.Lock = Factory(trio.Lock)

    async def run(
        self,
        *,
        drain: trio.Event | None = None,
        callbacks_ended: trio.Event | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        task_status.started()
        drained_at = None
        try:
            if drain is None:
                await self.run_rounds()
            else:
                await drain.wait()
                drained_at = trio.current_time()
            if callbacks_ended is not None:
                await callbacks_ended.wait()
            await trio.sleep(self.takes_s)
        finally:
            self.ends[self.name] = drained_at, trio.current_time()

    async def run_rounds(self) -> None:
        """Hold the lock for most of the time, as a busy scheduler does."""
        while True:
            async with self.lock:
                await trio.sleep(self.takes_s or 1)
            await trio.sleep(0.01)


@pytest.mark.spec("S3", "S6", "K3")
async def test_the_workers_end_in_the_order_that_is_drawn(autojump_clock: MockClock) -> None:
    ends: dict[str, tuple[float | None, float]] = {}
    takes_s = {
        "callbacks": 3,
        "channel_owner": 1,
        "qr_codes": 2,
        "reversals": 4,
        "scheduler": 2,
        "providers": 6,
    }
    names = {each.name for each in fields(Workers)} - {"store", "payees"}
    fakes: dict[str, Any] = {name: Ending(name, ends, takes_s.get(name, 0)) for name in names}
    nobody: Any = None
    workers = Workers(store=nobody, payees=nobody, **fakes)
    drain = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(workers.run, drain=drain))
        await trio.sleep(1)
        drain.set()
    times = {
        name: (drained_at and round(drained_at), round(ended_at))
        for name, (drained_at, ended_at) in ends.items()
    }
    assert times == {
        "callbacks": (1, 4),
        "channel_owner": (1, 5),
        "qr_codes": (1, 3),
        "reversals": (1, 5),
        "deposit_claims": (1, 1),
        "scheduler": (None, 2),
        "deposit_lister": (None, 2),
        "providers": (2, 8),
        **dict.fromkeys(
            (
                "simulated_operator",
                "configuration_watch",
                "account_checks",
                "recorder",
                "float_monitor",
                "dispatcher",
                "clock_monitor",
            ),
            (None, 8),
        ),
    }


@pytest.mark.spec("S3")
async def test_a_last_round_that_hangs_holds_up_the_end_for_seconds_only(
    autojump_clock: MockClock,
) -> None:
    ends: dict[str, tuple[float | None, float]] = {}
    names = {each.name for each in fields(Workers)} - {"store", "payees"}
    fakes: dict[str, Any] = {name: Ending(name, ends) for name in names}
    fakes["scheduler"].takes_s = 3_600
    nobody: Any = None
    workers = Workers(store=nobody, payees=nobody, **fakes)
    drain = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(workers.run, drain=drain))
        await trio.sleep(1)
        drain.set()
    assert ends["providers"] == pytest.approx((1 + LAST_ROUND_MAX_S, 1 + LAST_ROUND_MAX_S))


@define(eq=False)
class StoredBreakers:
    """A store, and the worker of callbacks that is given its breakers."""

    stored: dict[str, BreakerSnapshot]
    loaded: dict[str, BreakerSnapshot] = Factory(dict)
    loaded_first: dict[str, BreakerSnapshot] | None = None
    """What was loaded when the worker began."""

    async def breakers(self) -> dict[str, BreakerSnapshot]:
        await trio.lowlevel.checkpoint()
        return self.stored

    def load_breaker(self, brand: str, snapshot: BreakerSnapshot) -> None:
        self.loaded[brand] = snapshot

    async def run(self, *, drain: trio.Event, task_status: trio.TaskStatus[None]) -> None:
        self.loaded_first = dict(self.loaded)
        await Idle().run(drain=drain, task_status=task_status)


@pytest.mark.spec("K5")
@pytest.mark.parametrize("is_shared", [False, True])
async def test_breakers_are_where_they_were_before_a_callback_is_sent_after_a_restart(
    is_shared: bool, autojump_clock: MockClock
) -> None:
    """Where the store is shared, they come with the channels instead."""
    books: Any = StoredBreakers({"acme": evolve(INITIAL_SNAPSHOT, state=BreakerState.OPEN)})
    names = {each.name for each in fields(Workers)} - {"store", "callbacks"}
    fakes: dict[str, Any] = {name: Ending(name, {}) for name in names}
    if not is_shared:
        fakes["channel_owner"] = None

    workers = Workers(store=books, callbacks=books, **fakes)
    drain = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(workers.run, drain=drain))
        drain.set()

    assert books.loaded_first == ({} if is_shared else books.stored)
    assert books.loaded == books.loaded_first


async def an_awaited_payment(drained: Drained) -> None:
    """Wait until a payment is polled in minutes."""
    await drained.harness.create()
    await drained.harness.worker.wait_idle()


@pytest.mark.spec("S3", "S6")
async def test_a_draining_process_uses_up_no_poll(autojump_clock: MockClock) -> None:
    """Nobody in it would ask, and the next time may be an hour later, or the end of the payment."""

    async def takes_long(request: HttpRequest) -> HttpResponse:
        await trio.sleep(15)
        return HttpResponse(202)

    drained = Drained()
    async with trio.open_nursery() as nursery:
        await drained.run(nursery)
        await an_awaited_payment(drained)
        drained.harness.answers = [takes_long]
        await drained.harness.create(2)
        await trio.sleep(0.5)
        before = drained.harness.engine.transaction().progress
        assert before.wake_at is not None
        drained.drain.set()
    after = drained.harness.engine.transaction().progress
    assert trio.current_time() >= 15, "a conversation was under way for as long"
    assert after == before


@pytest.mark.spec("S3", "S6")
async def test_the_polls_of_the_last_round_before_a_drain_are_asked(
    autojump_clock: MockClock,
) -> None:
    drained = Drained()
    async with trio.open_nursery() as nursery:
        await drained.run(nursery)
        await an_awaited_payment(drained)
        before = drained.harness.engine.transaction().progress
        assert before.wake_at is not None
        await drained.world.has_begun.wait()
        drained.drain.set()
    assert drained.harness.engine.transaction().progress.polls == before.polls + 1
    assert drained.harness.methods == ["POST", "GET"]
