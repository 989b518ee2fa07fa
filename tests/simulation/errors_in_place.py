"""Plays worlds in which the workers of a gateway meet an error of their own program at each place
where they wait: for the store, the engine, an operator or a merchant. Work that is claimed ends all
the same: by a conclusion, by another attempt after a pause, or as a durable intent."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from random import Random
from typing import Any, Final, TypeVar
from unittest.mock import patch

import trio
from attrs import Factory, define, frozen

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_trio.engine.engine import Batch, Engine, PendingInput
from mmo_trio.http.client.client import HttpClient
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.deliveries import DeliveryPool
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.simulation.judges import (
    JUDGES,
    an_undisturbed_payment_succeeds_soon,
    no_part_has_a_fault,
)
from tests.simulation.play import Variant
from tests.simulation.world.process import SimulatedProcess
from tests.simulation.world.store import WorldStore
from tests.simulation.world.world import run_world

T = TypeVar("T")

SERVES_AFTER_S: Final = 60.0
"""From when on errors are raised: a process that meets one at its start ends."""
SPARED_MAX: Final = 3
"""How many calls at a place succeed at most before the first that fails."""
AT_THE_START: Final = frozenset({"aclose", "clock_record", "save_clock_record"})
"""Calls of the store by which a process begins or ends."""
ALLOWING: Final = frozenset({no_part_has_a_fault, an_undisturbed_payment_succeeds_soon})
"""Judges for whom an error of the program is a violation by itself, or no disturbance."""


@define(eq=False)
class PlantedErrors:
    """Raises an error at each place, at one of its first calls, so many times in a row."""

    random: Random
    times: int
    make_error: Callable[[], Exception]
    calls: Counter[str] = Factory(Counter)
    raised: Counter[str] = Factory(Counter)
    """How often at each place."""
    _spared: dict[str, int] = Factory(dict)

    async def at(self, places: Sequence[str], operation: Callable[[], Awaitable[T]]) -> T:
        """Do this, which is at these places, unless it is to fail at one of them."""
        if trio.current_time() > SERVES_AFTER_S:
            for place in places:
                self._meet(place)
        return await operation()

    def _meet(self, place: str) -> None:
        self.calls[place] += 1
        spared = self._spared.setdefault(place, self.random.randint(0, SPARED_MAX))
        if spared < self.calls[place] <= spared + self.times:
            self.raised[place] += 1
            raise self.make_error()

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant them while the block lasts. Half of the submissions have commits of their own, as
        where others wait."""
        submit, enqueue = Engine.submit, Engine.enqueue
        call_provider, deliver = HttpClient.call_provider, HttpClient.deliver
        find_key, try_reserve = DeliveryPool._delivery_key, ProviderWorker.try_reserve

        async def submit_or_fail(engine: Engine, input_: Input, *args: Any) -> Reply:
            place = f"submit {type(input_).__name__}"
            return await self.at([place], lambda: submit(engine, input_, *args))

        async def call_or_fail(client: HttpClient, request: HttpRequest, **options: Any) -> Any:
            place = f"exchange {request.method}"
            answer = await self.at([place], lambda: call_provider(client, request, **options))
            return await self.at([f"answer to {place}"], lambda: _returned(answer))

        async def deliver_or_fail(client: HttpClient, *args: Any, **options: Any) -> Any:
            attempt = await self.at(["deliver"], lambda: deliver(client, *args, **options))
            return await self.at(["answer to a delivery"], lambda: _returned(attempt))

        async def find_key_or_fail(pool: DeliveryPool, *args: Any) -> Any:
            return await self.at(["find_key"], lambda: find_key(pool, *args))

        def may_reserve(worker: ProviderWorker, *args: Any) -> bool:
            return self.random.random() < 0.5 and try_reserve(worker, *args)

        with ExitStack() as patches:
            for owner, name, replacement in (
                (Engine, "submit", submit_or_fail),
                (Engine, "enqueue", lambda *args: _PlantedReply(enqueue(*args), self)),
                (HttpClient, "call_provider", call_or_fail),
                (HttpClient, "deliver", deliver_or_fail),
                (DeliveryPool, "_delivery_key", find_key_or_fail),
                (ProviderWorker, "try_reserve", may_reserve),
                (WorldStore, "open", self._opening(WorldStore.open)),
            ):
                patches.enter_context(patch.object(owner, name, replacement))
            yield

    def _opening(
        self, open_store: Callable[..., AbstractAsyncContextManager[Store]]
    ) -> Callable[..., AbstractAsyncContextManager[Store]]:
        @asynccontextmanager
        async def open_planted(
            world: WorldStore, process: SimulatedProcess
        ) -> AsyncIterator[Store]:
            async with open_store(world, process) as store:
                for name, method in vars(Store).items():
                    is_place = not name.startswith("_") and name not in AT_THE_START
                    if is_place and inspect.iscoroutinefunction(method):
                        setattr(store, name, self._failing(name, getattr(store, name)))
                yield store

        return open_planted

    def _failing(
        self, name: str, method: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            places = [f"store {name}"]
            batch = getattr(args[1], "__self__", None) if name == "transact" else None
            if isinstance(batch, Batch):
                kinds = sorted({type(each.input).__name__ for each in batch.pending_inputs})
                places = [f"store {name} {kind}" for kind in kinds]
            return await self.at(places, lambda: method(*args, **options))

        return call


@frozen
class _PlantedReply:
    """Is an input that the engine decides; to wait for its reply is a place."""

    pending: PendingInput
    errors: PlantedErrors

    async def reply(self) -> Reply:
        place = f"reply to {type(self.pending.input).__name__}"
        return await self.errors.at([place], self.pending.reply)


async def _returned(value: T) -> T:
    await trio.lowlevel.checkpoint()
    return value


def play_with_errors(variant: Variant, errors: PlantedErrors) -> list[str]:
    """Play this world with these errors, and return every violation, with the judge's name."""
    with errors.planted():
        world = run_world(variant.plan())
    assert world.books is not None
    judges = [judge for judge in JUDGES if judge not in ALLOWING]
    return [f"{judge.__name__}: {found}" for judge in judges for found in judge(world, world.books)]
