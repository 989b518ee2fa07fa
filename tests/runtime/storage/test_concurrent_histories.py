"""The model of the shared store and PostgreSQL answer alike, and end with the same rows, when three
processes decide at once: each stands still between its loads and its commits for as long as a seed
says. So they do when the processes take turns, and assume what each has committed last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, Final, TypeAlias

import pytest
import trio
import trio.testing
from attrs import define, evolve, field, frozen

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    CreatePayment,
    DepositClaimWoke,
    Input,
    ProviderAccepted,
    ProviderHinted,
    TransactionWoke,
)
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.messages.replies import Rejected
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads, merge_reads
from mmo_sansio.values.clock import DAY, FIRST_INSTANT, SECOND, Instant, Span, later
from mmo_sansio.values.model import BrandLimits, Source
from mmo_trio.storage.interface.admin_types import BrandHold
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres import store as postgres_store
from mmo_trio.storage.postgres.assumptions import Assumptions
from mmo_trio.storage.postgres.batch_load import load_batch
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON
from tests.conformance.inputs import (
    DELIVERED,
    claimed,
    creation,
    failed,
    random_inputs,
    reference,
    succeeded,
)
from tests.simulation.stores.faults import FaultDraws
from tests.simulation.stores.shared_server import SimulatedServer
from tests.simulation.stores.shared_store import SimulatedSharedStore, open_shared_store
from tests.simulation.world.books import WorldBooks, read_books
from tests.support.effort import by_effort
from tests.support.lock_timeout import set_lock_timeout
from tests.support.stored_ledger import stored_ledger
from tests.support.time_limits import HANGS_AFTER_S

CLIENTS: Final = ("one", "two", "three")
BRANDS: Final = ("acme", "globex")
INPUTS: Final = 60
ABOUT_FEW: Final = 0.6
"""The share of inputs about the same few payments."""
LATER: Final = later(NOON, Span(1_000 * DAY))
"""What the clock of the model shows, so that nothing of a history is dated beyond it, as in
PostgreSQL."""
SEEDS: Final = range(by_effort(8, 150))
TURNS: Final = 200
"""Inputs of two clients that take turns."""
ASSUMED_MIN: Final = 20
"""How many of their batches at least are decided from payments that were committed last."""

Act: TypeAlias = Callable[[Store], Awaitable[object]]
OpenClient: TypeAlias = Callable[[str], AbstractAsyncContextManager[Store]]
PlayHistory: TypeAlias = Callable[[OpenClient, int], Awaitable[list[tuple[str, object]]]]


@frozen
class Operation:
    """Is what one client does: a batch of inputs, or what staff and readers do."""

    name: str
    act: Act
    is_read: bool = False
    """Whether it waits for those who decide once more, and so must not begin while they stand
    still."""


@define(eq=False)
class Client:
    """Does its operations one after the other, and stands still after each load."""

    name: str
    store: Store
    operations: list[Operation] = field(factory=list)
    is_active: bool = False
    loads: int = 0
    """Loads of the operation in progress: with the second one, another client was quicker."""
    outcome: object = None
    _has_stopped: trio.Event = field(factory=trio.Event)
    _may_go_on: trio.Event = field(factory=trio.Event)

    async def stand_still(self) -> None:
        """Wait until the history goes on with this client."""
        self.loads += 1
        self._may_go_on = trio.Event()
        self._has_stopped.set()
        await self._may_go_on.wait()

    async def step(self, nursery: trio.Nursery) -> object:
        """Go on until the next load, or the end of an operation; return what came of it."""
        self._has_stopped = trio.Event()
        if self.is_active:
            self._may_go_on.set()
        else:
            self.is_active, self.loads = True, 0
            nursery.start_soon(self._do, self.operations.pop(0))
        with trio.fail_after(HANGS_AFTER_S):
            await self._has_stopped.wait()
        return f"load {self.loads}" if self.is_active else self.outcome

    async def _do(self, operation: Operation) -> None:
        _CLIENT.set(self)
        self.outcome = operation.name, await operation.act(self.store)
        self.is_active = False
        self._has_stopped.set()


_CLIENT: ContextVar[Client | None] = ContextVar("client", default=None)
"""The one that the present task works for."""


async def stand_still() -> None:
    """Let the client that has loaded wait for its turn."""
    if (client := _CLIENT.get()) is not None:
        await client.stand_still()


@pytest.fixture
def _stops_after_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients of both stores stand still between a load and what follows; every batch has a
    load."""
    call = SimulatedSharedStore._call

    async def load_and_stop(*args: Any, **kwargs: Any) -> Any:
        loaded = await load_batch(*args, **kwargs)
        await stand_still()
        return loaded

    async def call_and_stop(
        self: SimulatedSharedStore, name: str, *args: Any, **kwargs: Any
    ) -> Any:
        result = await call(self, name, *args, **kwargs)
        if name == "load":
            await stand_still()
        return result

    monkeypatch.setattr(postgres_store, "load_batch", load_and_stop)
    monkeypatch.setattr(SimulatedSharedStore, "_call", call_and_stop)
    monkeypatch.setattr(Assumptions, "working_set", lambda *_: None)
    set_lock_timeout(
        monkeypatch, HANGS_AFTER_S
    )  # A busy machine makes a client stand still for longer.


def batch(*inputs: tuple[Input, Instant]) -> Operation:
    """Decide these inputs in one batch, each a little later if records up to its time were
    served."""

    async def act(store: Store) -> object:
        def decide_all(ledger: Ledger) -> Sequence[Decision]:
            decisions = []
            for each, at in inputs:
                decision = decide(ledger, each, now=max(at, later(ledger.not_before, Span(1))))
                ledger.apply(decision.changes, decision.intents)
                decisions.append(decision)
            return decisions

        decided = await store.transact(merge_reads(reads(each) for each, _ in inputs), decide_all)
        replies = [each.reply for each in decided]
        return [
            each.problem.segment if isinstance(each, Rejected) else type(each).__name__
            for each in replies
        ]

    return Operation(", ".join(type(each).__name__ for each, _ in inputs), act)


def listing(brand: str, end: Instant) -> Operation:
    """List the records of a brand, after which nothing may be added to them."""

    async def act(store: Store) -> object:
        found = await store.list_records(ListRecords(brand, FIRST_INSTANT, end, page_size=100))
        return [bytes(each) for each in found.objects]

    return Operation("list", act, is_read=True)


def hold(brand: str, at: Instant) -> Operation:
    """Put a brand on hold, or release it."""

    async def act(store: Store) -> object:
        return await store.admin.hold_brand(
            BrandHold(brand, at, "ada")
        ) or await store.admin.release_brand(brand)

    return Operation("hold", act, is_read=True)


def about_few(random: Random, number: int) -> Input:
    """Return an input about one of three payments, of one merchantReference or of one of two
    receipts."""
    about = random.randrange(3)
    every: tuple[Input, ...] = (
        creation(number, merchant_reference="order-0"),
        BeginSubmission(reference(about)),
        TransactionWoke(reference(about)),
        succeeded(about),
        failed(about),
        CallbackConcluded(reference(about), DELIVERED),
        claimed(f"R{about % 2}", number),
        DepositClaimWoke("sandbox", f"R{about % 2}"),
    )
    return random.choice(every)


def history(seed: int) -> list[list[Operation]]:
    """Return what each client does; their payments, references, receipts and limits are few, so
    that they meet."""
    random = Random(seed)
    limits = BrandLimits(None, None, random.choice((None, 3)))
    stamped = [
        (about_few(random, number) if number > 3 and random.random() < ABOUT_FEW else each, at)
        for number, (each, at) in enumerate(random_inputs(random, INPUTS))
    ]
    stamped = [
        (
            evolve(each, brand=evolve(each.brand, limits=limits))
            if isinstance(each, CreatePayment)
            else each,
            at,
        )
        for each, at in stamped
    ]
    operations: list[list[Operation]] = [[] for _ in CLIENTS]
    while stamped:
        mine, chance, (_, at) = random.choice(operations), random.random(), stamped[0]
        if chance < 0.05:
            mine.append(listing(random.choice(BRANDS), at))
        elif chance < 0.1:
            mine.append(hold(random.choice(BRANDS), at))
        else:
            some = stamped[: random.choice((1, 1, 1, 2, 3))]
            mine.append(batch(*some))
            del stamped[: len(some)]
    return operations


async def play(open_client: OpenClient, seed: int) -> list[tuple[str, object]]:
    """Let three clients play the history of a seed; return what came of each step."""
    random, trace = Random(seed), list[tuple[str, object]]()
    async with AsyncExitStack() as stack:
        clients = [
            Client(name, await stack.enter_async_context(open_client(name)), operations)
            for name, operations in zip(CLIENTS, history(seed), strict=True)
        ]
        async with trio.open_nursery() as nursery:
            while able := [each for each in clients if each.is_active or each.operations]:
                is_repeated = any(each.is_active and each.loads > 1 for each in able)
                able = [
                    each
                    for each in able
                    if each.is_active or not (is_repeated and each.operations[0].is_read)
                ]
                client = random.choice(able)
                trace.append((client.name, await client.step(nursery)))
    return trace


def about_the_latest(random: Random, number: int) -> Input:
    """Return a creation, or an input about one of the two latest payments."""
    if number % 6 == 0:
        return creation(number)
    about = random.choice((number - number % 6, max(0, number - number % 6 - 6)))
    every: tuple[Input, ...] = (
        BeginSubmission(reference(about)),
        BeginSubmission(reference(about)),
        ProviderAccepted(reference(about), "sandbox", Source.WEBHOOK),
        ProviderHinted(reference(about), "sandbox", f"hint {number}"),
        TransactionWoke(reference(about)),
        succeeded(about),
        failed(about),
        CallbackConcluded(reference(about), DELIVERED),
        CallbackConcluded(reference(about), DELIVERED),
    )
    return random.choice(every)


async def take_turns(open_client: OpenClient, seed: int) -> list[tuple[str, object]]:
    """Let two clients play inputs, some in a row, so that each batch ends before the next begins;
    return what came of each."""
    random, trace, number = Random(seed), list[tuple[str, object]](), 0
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_client(name)) for name in CLIENTS[:2]]
        while number < TURNS:
            store = random.choice(stores)
            for _ in range(random.choice((1, 2, 4))):
                some = range(number, number + random.choice((1, 1, 2)))
                number = some.stop
                operation = batch(
                    *(
                        (about_the_latest(random, each), later(NOON, Span(each * SECOND)))
                        for each in some
                    )
                )
                with trio.fail_after(HANGS_AFTER_S):
                    trace.append((operation.name, await operation.act(store)))
    return trace


def comparable(books: WorldBooks) -> WorldBooks:
    """Leave out numbers that PostgreSQL takes and does not use, an order that no reader relies on,
    and the brands on hold, which were not asked for and which PostgreSQL reads with each batch."""
    suspense = {
        about: sorted((evolve(each, id=0) for each in entries), key=repr)
        for about, entries in books.suspense.items()
    }
    ledger = evolve(books.ledger, held_brands=frozenset())
    return evolve(
        books, suspense=suspense, unfinished=sorted(books.unfinished, key=repr), ledger=ledger
    )


async def play_on_model(
    seed: int, play: PlayHistory
) -> tuple[list[tuple[str, object]], WorldBooks, Ledger]:
    """Return what came of each step, and what is stored."""
    server = SimulatedServer(FaultDraws(Random(seed)), LATER)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.machine.run)
        trace = await play(lambda name: open_shared_store(server, name), seed)
        decided = stored_ledger(server.rows.connection)
        async with open_shared_store(server, "reader") as store:
            books = await read_books(store, BRANDS, decided)
        nursery.cancel_scope.cancel()
    return trace, books, decided


@asynccontextmanager
async def open_patiently(database: str) -> AsyncIterator[Store]:
    """Open the store as one process, which waits for as long as a busy machine takes."""
    async with open_postgres(database, serving=True, timeout_s=HANGS_AFTER_S) as store:
        yield store


@pytest.mark.long
@pytest.mark.spec("P5", "S1", "S2", "C12", "R7")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("_stops_after_loads")
def test_of_processes_that_decide_at_once_the_model_has_the_same_winners_and_rows(
    seed: int, migrated_database: str
) -> None:
    compare_with_model(seed, migrated_database, play)


@pytest.mark.long
@pytest.mark.spec("P5", "S1", "S2", "C12", "R7")
@pytest.mark.parametrize("seed", SEEDS)
def test_of_processes_that_take_turns_the_model_has_the_same_replies_and_rows(
    seed: int, migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each assumes what it has committed last, and others have moved much of it since."""
    assumed = 0
    find_working_set = Assumptions.working_set

    def count(self: Assumptions, reads: Reads, connection: PostgresConnection) -> Any:
        nonlocal assumed
        found = find_working_set(self, reads, connection)
        assumed += found is not None and bool(reads.transactions)
        return found

    monkeypatch.setattr(Assumptions, "working_set", count)
    compare_with_model(seed, migrated_database, take_turns)
    assert assumed >= ASSUMED_MIN


def compare_with_model(seed: int, database: str, play: PlayHistory) -> None:
    """Play the history of a seed on the model, which loads each batch, and on PostgreSQL: replies
    and rows are the same."""
    trace, books, decided = trio.run(
        play_on_model, seed, play, clock=trio.testing.MockClock(autojump_threshold=0)
    )

    async def on_postgres() -> tuple[list[tuple[str, object]], WorldBooks]:
        found = await play(lambda _: open_patiently(database), seed)
        async with open_patiently(database) as store:
            return found, await read_books(store, BRANDS, decided)

    found, stored = trio.run(on_postgres)
    assert found == trace
    assert comparable(stored) == comparable(books)
