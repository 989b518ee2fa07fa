"""The simulated stores pass the public suite, also while faults occur that a store hides from its
callers."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import TypeAlias

import pytest
from attrs import define

from tests.conformance import CHECKS, SHARED_CHECKS, StoreCheck
from tests.conformance.driver import OpenStore
from tests.simulation.stores.faults import NO_FAULTS, FaultDraws, StoreFaults
from tests.simulation.stores.file_store import FileProcess
from tests.simulation.stores.shared_store import open_shared_store
from tests.simulation.stores.simulated_run import a_file, a_server
from tests.simulation.world.run import run_simulated
from tests.support.effort import by_effort

SLOW = StoreFaults(latency_s=(0.001, 0.01), commit_s=(0.0, 0.02))
HIDDEN = StoreFaults(
    latency_s=(0.001, 0.01),
    commit_s=(0.0, 0.02),
    lost_before=0.02,
    lost_after=0.02,
    conflict=0.05,
    late=0.01,
    late_s=(0.1, 0.5),
)
"""Faults that the store on a server hides by trying again."""

MADE_ONCE = frozenset(
    ("open", "renew_lease", "end_lease", "counts", "claim", "find_callbacks", "release")
)
"""Statements that the store does not hide behind a second one: the callers of these have to live
with a fault."""

Simulated: TypeAlias = Callable[[StoreFaults], AbstractAsyncContextManager[OpenStore]]


@define(eq=False)
class HiddenFaultDraws(FaultDraws):
    """Draws faults only of what the store tries again."""

    def happens(self, kind: str, probability: float, **details: object) -> bool:
        return details.get("statement") not in MADE_ONCE and super().happens(
            kind, probability, **details
        )


@asynccontextmanager
async def one_file(faults: StoreFaults) -> AsyncIterator[OpenStore]:
    """Open an empty file."""
    async with a_file(faults, seed=7) as file:
        yield lambda: FileProcess(file, "gateway").open()


@asynccontextmanager
async def one_server(faults: StoreFaults) -> AsyncIterator[OpenStore]:
    """Start an empty server, which several processes use."""
    names = itertools.count(1)
    async with a_server(faults, draws=HiddenFaultDraws(Random(7))) as server:
        yield lambda: open_shared_store(server, f"gateway {next(names)}")


def run_check(simulated: Simulated, faults: StoreFaults, check: StoreCheck) -> None:
    """Run a check in a simulation."""

    async def main() -> None:
        async with simulated(faults) as open_store:
            await check(open_store)

    run_simulated(lambda _: main(), seed=0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("simulated", "faults"), [(one_file, NO_FAULTS), (one_file, SLOW), (one_server, NO_FAULTS)]
)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_simulated_store_keeps_its_promises(
    check: StoreCheck, simulated: Simulated, faults: StoreFaults
) -> None:
    run_check(simulated, faults, check)


@pytest.mark.parametrize("faults", by_effort([HIDDEN], [SLOW, HIDDEN]))
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_simulated_server_hides_faults(check: StoreCheck, faults: StoreFaults) -> None:
    run_check(one_server, faults, check)


@pytest.mark.parametrize("faults", by_effort([SLOW], [NO_FAULTS, SLOW]))
@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
def test_a_simulated_server_is_shared(check: StoreCheck, faults: StoreFaults) -> None:
    run_check(one_server, faults, check)
