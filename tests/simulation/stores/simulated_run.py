"""Runs tests of the simulated stores in virtual time, and gives other tests a store that several
processes share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import trio
import trio.testing

from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from tests.conformance.driver import NOON
from tests.simulation.stores.faults import NO_FAULTS, FaultDraws, StoreFaults
from tests.simulation.stores.file_store import SimulatedFile
from tests.simulation.stores.shared_server import SimulatedServer
from tests.simulation.stores.shared_store import SimulatedSharedStore
from tests.simulation.world.run import run_simulated


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test in virtual time, by Trio's own clock for tests and as a simulation."""

    async def whole() -> None:
        with trio.fail_after(100_000):
            await main()

    trio.run(whole, clock=trio.testing.MockClock(autojump_threshold=0))
    run_simulated(lambda _: whole(), seed=0)


@asynccontextmanager
async def a_file(faults: StoreFaults = NO_FAULTS, *, seed: int = 1) -> AsyncIterator[SimulatedFile]:
    """Make an empty file."""
    file = SimulatedFile(FaultDraws(Random(seed)), faults)
    async with trio.open_nursery() as nursery:
        await nursery.start(file.machine.run)
        yield file
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def a_server(
    faults: StoreFaults = NO_FAULTS, *, seed: int = 1, draws: FaultDraws | None = None
) -> AsyncIterator[SimulatedServer]:
    """Start an empty server; Trio's clock shows 0 at noon."""
    server = SimulatedServer(draws or FaultDraws(Random(seed)), NOON, faults)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.machine.run)
        yield server
        nursery.cancel_scope.cancel()


def quiet_server() -> SimulatedServer:
    """Make an empty server at which every statement succeeds at once; it needs no task."""
    return SimulatedServer(FaultDraws(Random(1)), NOON)


def at_once(server: SimulatedServer, process: str = "gateway") -> SimulatedSharedStore:
    """Open the store on a quiet server, without a wait."""
    return SimulatedSharedStore(
        server, process, server.rows.ownership.renew(None, now=server.rows.clock())
    )


async def outcome_of(work: Callable[[], Awaitable[object]], into: list[object]) -> None:
    """Keep the result, or the class of the store's error."""
    try:
        into.append(await work())
    except (StoreUnavailable, OutcomeUnknown) as error:
        into.append(type(error))
