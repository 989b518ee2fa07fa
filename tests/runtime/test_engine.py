"""The engine: batches, one bad input among good ones, a full queue, a store that fails, an end in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from mmo_sansio.decisions import Decision
from mmo_sansio.inputs import TransactionWoke
from mmo_sansio.intents import Intent, SubmitToProvider
from mmo_sansio.ledger import Reads
from mmo_sansio.model import Transaction
from mmo_sansio.replies import Accepted, Reply
from mmo_sansio.testing import a_create_payment, reference
from mmo_trio.engine import DecisionFailed, Engine
from mmo_trio.storage.base import Decide, StoreUnavailable
from mmo_trio.storage.memory import open_memory
from mmo_trio.wallclock import WallClock


class Watched:
    """A store in memory that counts batches and can be told to fail."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.batches: list[int] = []
        self.error: Exception | None = None
        self.hold: trio.Event | None = None
        self.poison: str | None = None

    async def latest_stamp(self) -> int:
        stamp: int = await self.store.latest_stamp()
        return stamp

    async def transact(self, reads: Reads, decide: Decide) -> Sequence[Decision]:
        if self.hold is not None:
            await self.hold.wait()
        if self.error is not None:
            raise self.error
        if any(merchant == self.poison for _, merchant in reads.references):
            raise ValueError("this can't be written")
        decisions: Sequence[Decision] = await self.store.transact(reads, decide)
        self.batches.append(len(decisions))
        return decisions


def a_payment(number: int) -> Any:
    return a_create_payment(
        gateway_reference=reference(number), merchant_reference=f"order-{number}"
    )


class Callers:
    """Tasks that each submit one input."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.replies: dict[int, Reply | Exception] = {}

    async def ask(self, number: int) -> None:
        try:
            self.replies[number] = await self.engine.submit(a_payment(number))
        except Exception as error:
            self.replies[number] = error


async def with_engine(act: Any, *, queue_max: int = 4_096, **watched: Any) -> None:
    """Run `act(engine, store, acted)` beside a running engine on a store in memory."""
    acted: list[tuple[Intent, Transaction]] = []
    async with open_memory() as memory, trio.open_nursery() as nursery:
        store = Watched(memory)
        engine = Engine(
            store,  # type: ignore[arg-type]
            WallClock(),
            lambda intent, transaction: acted.append((intent, transaction)),
            queue_max=queue_max,
        )
        await nursery.start(engine.run)
        with trio.fail_after(10):
            await act(engine, store, acted)
        nursery.cancel_scope.cancel()


@pytest.mark.spec("C6")
async def test_what_waits_together_is_one_batch_answered_before_anything_is_done() -> None:
    async def act(engine: Engine, store: Watched, acted: list[Any]) -> None:
        callers = Callers(engine)
        async with trio.open_nursery() as nursery:
            for number in range(1, 101):
                nursery.start_soon(callers.ask, number)
        assert sum(store.batches) == 100
        assert len(store.batches) <= 2
        assert all(isinstance(reply, Accepted) for reply in callers.replies.values())
        assert [type(intent) for intent, _ in acted] == [SubmitToProvider] * 100
        created = [transaction.order.created_at for _, transaction in acted]
        assert created == sorted(set(created))

    await with_engine(act)


@pytest.mark.spec("P3")
async def test_an_input_that_the_store_chokes_on_costs_only_its_own_caller() -> None:
    async def act(engine: Engine, store: Watched, acted: list[Any]) -> None:
        store.poison = "order-7"
        callers = Callers(engine)
        async with trio.open_nursery() as nursery:
            for number in range(1, 21):
                nursery.start_soon(callers.ask, number)
        failed = {n for n, reply in callers.replies.items() if isinstance(reply, Exception)}
        assert failed == {7}
        assert isinstance(callers.replies[7], DecisionFailed)
        assert len(acted) == 19

    await with_engine(act)


@pytest.mark.spec("P5")
async def test_a_store_that_fails_stores_nothing_and_serves_again_without_a_restart() -> None:
    async def act(engine: Engine, store: Watched, acted: list[Any]) -> None:
        store.error = StoreUnavailable("locked")
        with pytest.raises(StoreUnavailable):
            await engine.submit(a_payment(1))
        assert acted == []
        store.error = None
        assert isinstance(await engine.submit(a_payment(1)), Accepted)

    await with_engine(act)


@pytest.mark.spec("P5")
async def test_a_full_queue_refuses_at_once() -> None:
    async def act(engine: Engine, store: Watched, acted: list[Any]) -> None:
        store.hold = trio.Event()
        callers = Callers(engine)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(callers.ask, 1)
            await trio.testing.wait_all_tasks_blocked()
            for number in range(2, 7):
                nursery.start_soon(callers.ask, number)
            await trio.testing.wait_all_tasks_blocked()
            refused = {n for n, reply in callers.replies.items()}
            assert len(refused) == 2
            assert all(isinstance(callers.replies[n], StoreUnavailable) for n in refused)
            store.hold.set()
        assert sum(isinstance(reply, Accepted) for reply in callers.replies.values()) == 4

    await with_engine(act, queue_max=3)


async def test_who_waits_when_the_engine_ends_is_told_that_nothing_was_stored() -> None:
    async with open_memory() as memory:
        engine = Engine(memory, WallClock(), lambda intent, transaction: None)
        callers = Callers(engine)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(callers.ask, 1)
                await trio.testing.wait_all_tasks_blocked()
                scope = trio.CancelScope()

                async def run() -> None:
                    with scope:
                        scope.cancel()
                        await engine.run()

                nursery.start_soon(run)
        assert isinstance(callers.replies[1], StoreUnavailable)


async def test_a_caller_that_stops_waiting_doesnt_stop_what_it_asked_for() -> None:
    async def act(engine: Engine, store: Watched, acted: list[Any]) -> None:
        store.hold = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.submit, a_payment(1))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        store.hold.set()
        await engine.submit(TransactionWoke(reference(1)))
        assert [transaction.reference for _, transaction in acted] == [reference(1)]

    await with_engine(act)
