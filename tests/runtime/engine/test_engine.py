"""The engine: batches, one bad input among good ones, a full queue, a store that fails, an end in
the middle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CreatePayment,
    Input,
    ProviderAccepted,
    ProviderFailed,
    ProviderSucceeded,
    TransactionWoke,
)
from mmo_sansio.messages.intents import Intent, SubmitToProvider
from mmo_sansio.messages.replies import Accepted, Applied, Rejected, Reply
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.testing import a_create_payment, a_transaction, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import MonotonicInstant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction
from mmo_trio.engine.engine import (
    CLIENT_PATIENCE,
    COALESCED_MAX,
    CREATION_AGE_MAX,
    LATE_QUEUE_BATCHES,
    PATIENCE_S,
    Batch,
    DecisionFailed,
    Engine,
    Outbox,
    PendingInput,
    Sender,
)
from mmo_trio.storage.interface.store import HANGS_AFTER_S as HANGS_FOR_S
from mmo_trio.storage.interface.store import DecideBatch, StoreUnavailable, WorkItem
from mmo_trio.system.clock import RESUMING, GatewayClock
from tests.conformance.inputs import creation, succeeded
from tests.conformance.inputs import reference as check_reference
from tests.support.sqlite_store import StoreFile
from tests.support.time_limits import HANGS_AFTER_S


class Watched:
    """A store in memory that counts batches and can be told to fail."""

    batches_in_flight = 1

    def __init__(self, store: Any) -> None:
        self.store = store
        self.batches: list[int] = []
        self.error: Exception | None = None
        self.hold: trio.Event | None = None
        self.poison: str | None = None
        self.hangs_for_s = 0.0

    async def clock_record(self, boot_id: str) -> Any:
        return await self.store.clock_record(boot_id)

    async def save_clock_record(self, record: ClockRecord) -> None:
        await self.store.save_clock_record(record)

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        if self.hold is not None:
            await self.hold.wait()
        if self.hangs_for_s:
            await trio.sleep(self.hangs_for_s)
        if self.error is not None:
            raise self.error
        if any(merchant == self.poison for _, merchant in reads.references):
            raise ValueError("this can't be written")
        decisions: Sequence[Decision] = await self.store.transact(reads, decide)
        self.batches.append(len(decisions))
        return decisions


def a_payment(number: int) -> Any:
    return a_create_payment(
        gateway_reference=numbered_reference(number), merchant_reference=f"order-{number}"
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


@asynccontextmanager
async def running_engine(
    *, queue_max: int = 4_096, machine: GatewayClock | None = None
) -> AsyncIterator[tuple[Engine, Watched, list[tuple[Intent, Transaction]]]]:
    """An engine on a store in memory, and what has been acted on."""
    acted: list[tuple[Intent, Transaction]] = []
    outbox = Outbox()
    outbox.subscribe(lambda work: acted.append((work.intent, work.transaction)))
    async with StoreFile().open() as memory, trio.open_nursery() as nursery:
        store = Watched(memory)
        engine = Engine(
            store,  # type: ignore[arg-type]
            machine or GatewayClock(),
            outbox,
            queue_max=queue_max,
        )
        await nursery.start(engine.run)
        with trio.fail_after(HANGS_AFTER_S):
            yield engine, store, acted
        nursery.cancel_scope.cancel()


def test_an_outbox_loses_nothing_before_there_is_a_subscriber() -> None:
    outbox, received = Outbox(), list[WorkItem]()
    transactions = [a_transaction() for _ in range(4)]
    work = [WorkItem(SubmitToProvider(each.reference), each) for each in transactions]
    for each in work[:2]:
        outbox.put(each)
    outbox.subscribe(received.append)
    for each in work[2:]:
        outbox.put(each)
    assert received == work


@pytest.mark.spec("C6")
async def test_what_waits_together_is_one_batch_answered_before_anything_is_done() -> None:
    async with running_engine() as (engine, store, acted):
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


@pytest.mark.spec("K3", "S5")
async def test_what_nobody_waits_for_shares_the_commit_of_the_next_input_and_is_decided_before_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_engine() as (engine, store, _):
        await engine.submit(a_payment(1))
        await engine.submit(BeginSubmission(numbered_reference(1)))
        acceptance = ProviderAccepted(numbered_reference(1), "test", Source.POLL)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.submit, acceptance)
            await trio.sleep(PATIENCE_S / 2)
            assert (sum(store.batches), engine.queued) == (2, 1)
            result = await engine.submit(
                ProviderSucceeded(numbered_reference(1), "test", Source.WEBHOOK)
            )
        assert store.batches == [1, 1, 2]
        assert isinstance(result, Applied)
        assert result.transaction.progress.version == 4, "the acceptance came first"


async def test_what_nobody_waits_for_is_decided_alone_when_nothing_else_comes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_engine() as (engine, store, _):
        await engine.submit(a_payment(1))
        await engine.submit(BeginSubmission(numbered_reference(1)))
        for _ in range(2):
            began = trio.current_time()
            await engine.submit(ProviderAccepted(numbered_reference(1), "test", Source.POLL))
            assert trio.current_time() - began == pytest.approx(PATIENCE_S)
        assert store.batches == [1, 1, 1, 1]


async def test_enough_of_what_nobody_waits_for_is_decided_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_engine() as (engine, store, _):
        for number in range(COALESCED_MAX):
            await engine.submit(a_payment(number))
            await engine.submit(BeginSubmission(numbered_reference(number)))
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(COALESCED_MAX):
                acceptance = ProviderAccepted(numbered_reference(number), "test", Source.POLL)
                nursery.start_soon(engine.submit, acceptance)
        assert trio.current_time() - began < PATIENCE_S
        assert store.batches[-1] == COALESCED_MAX


class MachineClock(GatewayClock):
    """Runs as the test says."""

    booted = MonotonicInstant(0)

    def monotonic(self) -> MonotonicInstant:
        return self.booted


@pytest.mark.spec("C12", "P5")
async def test_a_request_that_may_have_waited_in_a_suspended_process_creates_nothing() -> None:
    machine = MachineClock()
    async with running_engine(machine=machine) as (engine, _, _):
        machine.observe()
        read_before = Sender(machine.since_boot(), lambda: False)
        taken = await engine.submit(a_payment(1), read_before)
        assert isinstance(taken, Accepted)
        machine.booted = later(machine.booted, clock.HOUR)
        with pytest.raises(StoreUnavailable, match="was suspended"):
            await engine.submit(a_payment(2))
        reply = await engine.submit(BeginSubmission(numbered_reference(1)))
        assert isinstance(reply, Applied), "what is known about older payments is taken"
        machine.booted = later(machine.booted, RESUMING)
        assert isinstance(await engine.submit(a_payment(2)), Accepted)
        with pytest.raises(StoreUnavailable, match="was suspended"):
            await engine.submit(a_payment(3), read_before)  # Its body took so long.


@pytest.mark.spec("C12", "P5")
async def test_a_request_that_is_too_old_creates_nothing() -> None:
    machine = MachineClock()
    async with running_engine(machine=machine) as (engine, _, _):
        read_before = Sender(machine.since_boot(), lambda: False)
        machine.booted = later(machine.booted, Span(CREATION_AGE_MAX + 1))
        with pytest.raises(StoreUnavailable, match="waited too long"):
            await engine.submit(a_payment(1), read_before)
        assert isinstance(await engine.submit(a_payment(1)), Accepted)


@pytest.mark.spec("C12", "P5")
async def test_a_client_that_gave_up_finds_nothing_created() -> None:
    """It is looked for only where its request has waited: before that a look costs more."""

    machine = MachineClock()
    async with running_engine(machine=machine) as (engine, _, _):
        asked_at = machine.since_boot()
        gone, there = Sender(asked_at, lambda: True), Sender(asked_at, lambda: False)
        assert isinstance(await engine.submit(a_payment(1), gone), Accepted)
        machine.booted = later(machine.booted, Span(CLIENT_PATIENCE + 1))
        with pytest.raises(StoreUnavailable, match="closed its connection"):
            await engine.submit(a_payment(2), gone)
        assert isinstance(await engine.submit(a_payment(3), there), Accepted)


@pytest.mark.spec("C12", "P5")
async def test_nothing_is_created_behind_a_queue_that_is_answered_late() -> None:
    """What is known about older payments is taken all the same."""

    machine = MachineClock()
    async with running_engine(machine=machine) as (engine, store, _):
        engine.batch_max = 2
        waiting = 2 + LATE_QUEUE_BATCHES * engine.batch_max
        store.hangs_for_s = HANGS_FOR_S
        async with trio.open_nursery() as nursery:
            for number in range(1, waiting + 1):
                nursery.start_soon(engine.submit, a_payment(number))
            await trio.testing.wait_all_tasks_blocked()
            machine.booted = later(machine.booted, Span(CLIENT_PATIENCE + 1))
            with pytest.raises(StoreUnavailable, match="answered late"):
                await engine.submit(a_payment(waiting + 1))
            nursery.start_soon(engine.submit, BeginSubmission(numbered_reference(1)))
        assert engine.statistics.rejected == 1
        assert isinstance(await engine.submit(a_payment(waiting + 2)), Accepted)


@pytest.mark.spec("C12", "P5")
async def test_a_body_that_came_slowly_makes_nobody_late_behind_it() -> None:
    """It has waited in the queue for as long as the others, however long ago its head was read."""

    machine = MachineClock()
    async with running_engine(machine=machine) as (engine, store, _):
        slow = Sender(machine.since_boot(), lambda: False)
        machine.booted = later(machine.booted, Span(CLIENT_PATIENCE + 1))
        engine.batch_max, store.hangs_for_s = 2, HANGS_FOR_S
        waiting = 2 + LATE_QUEUE_BATCHES * engine.batch_max
        async with trio.open_nursery() as nursery:
            for number in range(1, waiting + 1):
                nursery.start_soon(engine.submit, a_payment(number), slow)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(engine.submit, a_payment(waiting + 1))
        assert engine.statistics.rejected == 0


@pytest.mark.spec("C12", "P5")
async def test_what_has_waited_for_a_store_that_hangs_does_not_wait_for_it_again() -> None:
    async with running_engine() as (engine, store, _):
        store.hangs_for_s, store.error = HANGS_FOR_S, StoreUnavailable("it hangs")
        engine.batch_max = 1
        callers = Callers(engine)
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(callers.ask, number)
        refused = [str(reply) for reply in callers.replies.values()]
        assert sum("waited as long" in each for each in refused) == 8
        assert engine.statistics.failed_batches == 2


@pytest.mark.spec("C12", "P5")
def test_a_creation_that_was_in_the_queue_of_a_suspended_process_is_never_decided() -> None:
    machine = MachineClock()
    machine.observe()
    batch = Batch([PendingInput(a_payment(1), machine.since_boot())], machine, machine.since_boot())
    machine.booted = later(machine.booted, clock.HOUR)
    machine.observe()
    for _ in range(9):  # The store takes its time.
        machine.booted = later(machine.booted, RESUMING)
        machine.observe()
    assert batch.decide(Ledger()) == []
    (result,) = batch.results
    assert isinstance(result, StoreUnavailable)


@pytest.mark.spec("P3")
async def test_an_input_that_the_store_chokes_on_costs_only_its_own_caller() -> None:
    async with running_engine() as (engine, store, acted):
        store.poison = "order-7"
        callers = Callers(engine)
        async with trio.open_nursery() as nursery:
            for number in range(1, 21):
                nursery.start_soon(callers.ask, number)
        failed = {n for n, reply in callers.replies.items() if isinstance(reply, Exception)}
        assert failed == {7}
        assert isinstance(callers.replies[7], DecisionFailed)
        assert len(acted) == 19


@pytest.mark.spec("P5")
async def test_a_store_that_fails_stores_nothing_and_serves_again_without_a_restart() -> None:
    async with running_engine() as (engine, store, acted):
        store.error = StoreUnavailable("locked")
        with pytest.raises(StoreUnavailable):
            await engine.submit(a_payment(1))
        assert acted == []
        store.error = None
        assert isinstance(await engine.submit(a_payment(1)), Accepted)


async def test_what_stores_nothing_does_not_count_as_a_commit_after_one_that_failed() -> None:
    async with running_engine() as (engine, store, _):
        await engine.submit(a_payment(1))
        store.error = StoreUnavailable("the disk is full")
        with pytest.raises(StoreUnavailable):
            await engine.submit(a_payment(2))
        store.error = None
        await engine.submit(TransactionWoke(numbered_reference(3)))
        figures = engine.statistics
        assert figures.last_failure_at > figures.last_commit_at
        await engine.submit(a_payment(2))
        assert engine.statistics.last_commit_at > figures.last_failure_at


@pytest.mark.spec("P5")
async def test_a_full_queue_refuses_at_once() -> None:
    async with running_engine(queue_max=3) as (engine, store, _):
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


async def test_who_waits_when_the_engine_ends_is_told_that_nothing_was_stored() -> None:
    async with StoreFile().open() as memory:
        engine = Engine(memory, GatewayClock(), Outbox())
        callers = Callers(engine)
        with trio.fail_after(HANGS_AFTER_S):
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


@pytest.mark.parametrize("callers", [1, 2])
async def test_a_caller_that_stops_waiting_doesnt_stop_what_it_asked_for(callers: int) -> None:
    async with running_engine() as (engine, store, acted):
        store.hold = trio.Event()
        async with trio.open_nursery() as nursery:
            for number in range(1, callers + 1):
                nursery.start_soon(engine.submit, a_payment(number))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            store.hold.set()
        await engine.submit(TransactionWoke(numbered_reference(callers)))
        expected = {numbered_reference(number) for number in range(1, callers + 1)}
        assert {transaction.reference for _, transaction in acted} == expected


async def test_the_batch_of_a_caller_that_is_alone_is_decided_in_its_own_task() -> None:
    tasks: list[str] = []

    class Recording(Watched):
        async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
            tasks.append(trio.lowlevel.current_task().name)
            return await super().transact(reads, decide)

    async with StoreFile().open() as memory, trio.open_nursery() as nursery:
        store = Recording(memory)
        engine = Engine(store, GatewayClock(), Outbox())  # type: ignore[arg-type]
        await nursery.start(engine.run)
        await trio.testing.wait_all_tasks_blocked()
        for number in (1, 2):
            assert isinstance(await engine.submit(a_payment(number)), Accepted)
        async with trio.open_nursery() as calling:
            for number in (3, 4):
                calling.start_soon(engine.submit, a_payment(number), name=f"caller {number}")
        nursery.cancel_scope.cancel()
    alone, again, first_of_two, others = tasks
    assert alone == again == trio.lowlevel.current_task().name
    assert first_of_two.startswith("caller")
    assert "_decide_batches" in others


async def test_an_engine_that_ends_answers_the_caller_that_decides_and_refuses_who_waits() -> None:
    async with StoreFile().open() as memory, trio.open_nursery() as nursery:
        store = Watched(memory)
        store.hold = trio.Event()
        engine = Engine(store, GatewayClock(), Outbox())  # type: ignore[arg-type]
        callers = Callers(engine)
        async with trio.open_nursery() as running:
            await running.start(engine.run)
            nursery.start_soon(callers.ask, 1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(callers.ask, 2)
            await trio.testing.wait_all_tasks_blocked()
            running.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(callers.replies.pop(2), StoreUnavailable)
        store.hold.set()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(callers.replies.pop(1), Accepted)


class Unsteady(Watched):
    """Two batches may be under way, and which of them is decided and stored first is left to
    chance."""

    batches_in_flight = 2

    def __init__(self, store: Any, seed: int) -> None:
        super().__init__(store)
        self.random = Random(seed)
        self.under_way = 0
        self.side_by_side = 0

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        self.under_way += 1
        self.side_by_side += self.under_way > 1
        try:
            for _ in range(self.random.randrange(12)):
                await trio.lowlevel.checkpoint()
            return await super().transact(reads, decide)
        finally:
            self.under_way -= 1


@asynccontextmanager
async def unsteady_engine(seed: int) -> AsyncIterator[tuple[Engine, Unsteady]]:
    async with StoreFile().open() as memory, trio.open_nursery() as nursery:
        store = Unsteady(memory, seed)
        engine = Engine(
            store,  # type: ignore[arg-type]
            GatewayClock(),
            Outbox(),
            batch_max=5,
            active_per_waiting=10,
        )
        await nursery.start(engine.run)
        with trio.fail_after(HANGS_AFTER_S):
            yield engine, store
        nursery.cancel_scope.cancel()


def told_in_turn(random: Random, payments: int) -> list[Input]:
    """Each payment is created and submitted, succeeds, then fails, which comes too late: payments
    mixed, but each in this order."""
    stories: list[list[Input]] = [
        [
            creation(n),
            BeginSubmission(check_reference(n)),
            succeeded(n),
            ProviderFailed(check_reference(n), "sandbox", Source.WEBHOOK, ErrorCode.USER_CANCELLED),
        ]
        for n in range(payments)
    ]
    told: list[Input] = []
    while stories := [each for each in stories if each]:
        told.append(random.choice(stories).pop(0))
    return told


@pytest.mark.spec("S1", "S5")
@pytest.mark.parametrize("seed", range(40))
async def test_what_is_posted_about_one_payment_keeps_its_order_beside_other_batches(
    seed: int,
) -> None:
    """Creations are over before the rest is posted: nobody can name a payment sooner."""
    random, payments = Random(seed), 12
    async with unsteady_engine(seed) as (engine, store):
        told = told_in_turn(random, payments)
        for begun in (True, False):
            calls = []
            for each in told:
                if isinstance(each, CreatePayment) is begun:
                    calls.append(engine.enqueue(each))
                    if random.random() < 0.3:
                        await trio.lowlevel.checkpoint()
            for call in calls:
                await call.reply()
        assert store.side_by_side, "batches were under way beside each other"
        for number in range(payments):
            lines = await store.store.admin.timeline(check_reference(number))
            assert [each.stage_after for each in lines][:3] == [
                "created",
                "submitting",
                "succeeded",
            ]


@pytest.mark.spec("C12")
@pytest.mark.parametrize("seed", range(20))
async def test_of_creates_with_one_reference_the_first_posted_is_accepted(seed: int) -> None:
    random = Random(seed)
    async with unsteady_engine(seed) as (engine, store):
        names = [f"order-{random.randrange(6)}" for _ in range(60)]
        calls = []
        for number, name in enumerate(names):
            calls.append(engine.enqueue(creation(number, merchant_reference=name)))
            if random.random() < 0.3:
                await trio.lowlevel.checkpoint()
        accepted = [isinstance(await call.reply(), Accepted) for call in calls]
        assert accepted == [name not in names[:nth] for nth, name in enumerate(names)]
        assert store.side_by_side, "batches were under way beside each other"


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (1, (2, 2, 2)),  # One beside another, and as many batches as the store allows.
        (4, (1, 2, 2)),
        (5, (1, 1, 2)),
    ],
)
async def test_a_batch_begins_beside_another_that_is_at_most_twice_as_large(
    first: int, later: tuple[int, ...]
) -> None:
    async with StoreFile().open() as memory, trio.open_nursery() as nursery:
        store = Unsteady(memory, 1)
        store.hold = trio.Event()
        engine = Engine(
            store,  # type: ignore[arg-type]
            GatewayClock(),
            Outbox(),
        )
        await nursery.start(engine.run)
        with trio.fail_after(HANGS_AFTER_S):
            calls = [engine.enqueue(a_payment(number)) for number in range(first)]
            await trio.testing.wait_all_tasks_blocked()
            for number, expected in enumerate(later, first):
                calls.append(engine.enqueue(a_payment(number)))
                await trio.testing.wait_all_tasks_blocked()
                assert store.under_way == expected
            store.hold.set()
            for call in calls:
                assert isinstance(await call.reply(), Accepted)
        assert sum(store.batches) == first + len(later)
        nursery.cancel_scope.cancel()


@pytest.mark.spec("P5")
async def test_a_batch_that_fails_costs_the_one_beside_it_nothing() -> None:
    class HalfBroken(Unsteady):
        async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
            if any(merchant == "order-1" for _, merchant in reads.references):
                await trio.testing.wait_all_tasks_blocked()
                raise StoreUnavailable("lost")
            return await super().transact(reads, decide)

    async with StoreFile().open() as memory, trio.open_nursery() as nursery:
        engine = Engine(
            HalfBroken(memory, 1),  # type: ignore[arg-type]
            GatewayClock(),
            Outbox(),
            batch_max=1,
        )
        await nursery.start(engine.run)
        with trio.fail_after(HANGS_AFTER_S):
            failing, other = engine.enqueue(a_payment(1)), engine.enqueue(a_payment(2))
            assert isinstance(await other.reply(), Accepted)
            with pytest.raises(StoreUnavailable):
                await failing.reply()
            again = a_create_payment(
                gateway_reference=numbered_reference(3), merchant_reference="order-2"
            )
            assert isinstance(await engine.submit(again), Rejected)
        nursery.cancel_scope.cancel()
