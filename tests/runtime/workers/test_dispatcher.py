"""The dispatcher lets work wait in order while its worker has no room, and delays no other."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import trio
from attrs import Factory, define, evolve
from trio.testing import MockClock

from mmo_sansio.messages.intents import DeliverCallback, Intent, PollEnded, SubmitToProvider
from mmo_sansio.testing import START, a_transaction, numbered_reference
from mmo_sansio.values.model import Stage, Transaction
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.workers import dispatcher as dispatcher_module
from mmo_trio.workers.dispatcher import Dispatcher


@define(eq=False)
class DispatcherWorld:
    """A store with the transactions, and workers with limited room."""

    room: Counter[str] = Factory(Counter)
    """Room by provider or brand."""
    accepted: list[str] = Factory(list)
    reads: int = 0
    stored: dict[str, Transaction] = Factory(dict)
    open: dict[str, PollEnded] = Factory(dict)
    """Questions that are open, by gatewayReference."""
    asked: list[Intent] = Factory(list)
    """The questions that were accepted."""

    def try_enqueue(self, work: WorkItem) -> bool:
        order = work.transaction.order
        is_callback = isinstance(work.intent, DeliverCallback)
        owner = order.brand if is_callback else order.provider
        if not self.room[owner]:
            return False
        self.room[owner] -= 1
        self.accepted.append(work.transaction.reference)
        self.asked += [work.intent] * isinstance(work.intent, PollEnded)
        return True

    async def transactions(self, gateway_references: Sequence[str]) -> Mapping[str, Transaction]:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        return {each: self.stored[each] for each in gateway_references if each in self.stored}

    async def open_polls(self, gateway_references: Sequence[str]) -> Mapping[str, PollEnded]:
        await trio.lowlevel.checkpoint()
        return {each: self.open[each] for each in gateway_references if each in self.open}

    def question(self, number: int, hint: str) -> WorkItem:
        transaction = self._about(number, provider="slow")
        poll = self.open[transaction.reference] = PollEnded(transaction.reference, START, hint)
        return WorkItem(poll, transaction)

    def submission(self, number: int, provider: str) -> WorkItem:
        transaction = self._about(number, provider=provider)
        return WorkItem(SubmitToProvider(transaction.reference), transaction)

    def callback(self, number: int, brand: str) -> WorkItem:
        transaction = self._about(number, brand=brand)
        return WorkItem(DeliverCallback(transaction.reference), transaction)

    def _about(self, number: int, **members: Any) -> Transaction:
        made = a_transaction(Stage.CREATED)
        subject = numbered_reference(number)
        transaction = evolve(made, order=evolve(made.order, gateway_reference=subject, **members))
        self.stored[subject] = transaction
        return transaction


def a_dispatcher(world: DispatcherWorld) -> Dispatcher:
    """Return a dispatcher whose store and workers are this world."""
    return Dispatcher(world, world, world, world)  # type: ignore[arg-type]


async def test_waiting_work_goes_on_without_a_pause_while_there_is_room(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "RETRIES_PER_ROUND_MAX", 2)
    world = DispatcherWorld()
    dispatcher = a_dispatcher(world)
    for number in range(9):
        dispatcher.dispatch(world.callback(number, "acme"))
    world.room["acme"] = 9
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dispatcher.run)
        await trio.sleep(1.5 * dispatcher_module.RETRY_INTERVAL_S)
        assert world.accepted == [numbered_reference(each) for each in range(9)]
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
@pytest.mark.parametrize("room", [100, 35, 0])
async def test_every_payment_is_passed_to_its_provider_once_whether_or_not_it_had_to_wait(
    room: int, autojump_clock: MockClock
) -> None:
    world = DispatcherWorld()
    world.room["slow"] = room
    dispatcher = a_dispatcher(world)
    for number in range(100):
        dispatcher.take(world.submission(number, "slow"))

    world.room["slow"] = 100
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dispatcher.run)
        await trio.sleep(1.5 * dispatcher_module.RETRY_INTERVAL_S)
        nursery.cancel_scope.cancel()

    assert world.accepted == [numbered_reference(number) for number in range(100)]


async def test_waiting_work_goes_on_in_order_and_a_full_worker_is_tried_once_a_round(
    autojump_clock: MockClock,
) -> None:
    world = DispatcherWorld()
    dispatcher = a_dispatcher(world)
    for number in range(5):
        dispatcher.dispatch(world.submission(number, "slow"))
    for number in range(5, 8):
        dispatcher.dispatch(world.callback(number, "acme"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dispatcher.run)
        await trio.sleep(0.6)
        assert (world.accepted, world.reads) == ([], 2)
        world.room.update({"acme": 9, "slow": 2})
        dispatcher.dispatch(world.submission(8, "slow"))
        await trio.sleep(0.5)
        assert world.accepted == [numbered_reference(each) for each in (0, 1, 5, 6, 7)]
        world.room["slow"] = 9
        await trio.sleep(0.5)
        assert world.accepted[5:] == [numbered_reference(each) for each in (2, 3, 4, 8)]
        nursery.cancel_scope.cancel()


async def test_waiting_work_is_read_many_at_a_time_where_there_is_room(
    autojump_clock: MockClock,
) -> None:
    world = DispatcherWorld()
    dispatcher = a_dispatcher(world)
    for number in range(300):
        dispatcher.dispatch(world.callback(number, "acme"))
    del world.stored[numbered_reference(7)]
    world.room["acme"] = 200
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dispatcher.run)
        await trio.sleep(0.6)
        assert world.accepted == [numbered_reference(each) for each in range(201) if each != 7]
        assert world.reads == 5
        world.room["acme"] = 200
        await trio.sleep(0.5)
        assert world.accepted[200:] == [numbered_reference(each) for each in range(201, 300)]
        assert world.reads == 8
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S3", "S5")
async def test_a_question_that_waits_for_room_keeps_what_it_knows_unless_it_is_answered(
    autojump_clock: MockClock,
) -> None:
    world = DispatcherWorld()
    dispatcher = a_dispatcher(world)
    for number in range(3):
        dispatcher.dispatch(world.question(number, f"hint {number}"))
    del world.open[numbered_reference(1)]
    world.room["slow"] = 9
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dispatcher.run)
        await trio.sleep(1.5 * dispatcher_module.RETRY_INTERVAL_S)
        assert world.asked == [
            PollEnded(numbered_reference(each), START, f"hint {each}") for each in (0, 2)
        ]
        nursery.cancel_scope.cancel()


def test_of_work_that_waits_nothing_is_kept_but_its_reference() -> None:
    world = DispatcherWorld()
    dispatcher = a_dispatcher(world)
    work = world.callback(1, "acme")
    kept: list[weakref.ref[object]] = [
        weakref.ref(work),
        weakref.ref(work.intent),
        weakref.ref(work.transaction),
    ]
    dispatcher.dispatch(work)
    world.stored.clear()
    del work
    assert [each() for each in kept] == [None, None, None]


@pytest.mark.spec("K6")
def test_the_open_callbacks_of_one_slow_merchant_hold_back_nobodys_unsent_payments() -> None:
    """They wait as references, so further work of processes that have ended can be claimed."""
    world = DispatcherWorld(room=Counter(test=1))
    dispatcher = a_dispatcher(world)
    for number in range(20_000):
        dispatcher.dispatch(world.callback(number, "slow"))
    assert dispatcher.has_room()
    dispatcher.dispatch(world.submission(20_000, "test"))
    assert world.accepted == [numbered_reference(20_000)]
