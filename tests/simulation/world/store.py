"""Gives a simulated world its store, of either kind: a file that one process serves, or a server
that several share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Final

import trio
from attrs import Factory, define, evolve, field

from mmo_sansio.values.clock import MINUTE, Span
from mmo_trio.storage.sql.store import Store
from tests.simulation.clocks.virtual_clock import TRUE_TIME_AT_START
from tests.simulation.stores.faults import FaultDraws, StoreFaults
from tests.simulation.stores.file_store import FileProcess, SimulatedFile
from tests.simulation.stores.shared_ownership import CHANNEL_CLAIMED
from tests.simulation.stores.shared_server import SimulatedServer
from tests.simulation.stores.shared_store import open_outside, open_shared_store
from tests.simulation.world.commits import WorldCommits
from tests.simulation.world.process import SimulatedProcess
from tests.simulation.world.trace import SimulationTrace

ORDINARY: Final = StoreFaults(latency_s=(0.0002, 0.002), commit_s=(0.001, 0.04))
"""A store at which nothing goes wrong takes its time."""


@define(eq=False)
class WorldStore:
    """Holds the store of a world, which outlives every process."""

    is_shared: bool
    random: Random
    trace: SimulationTrace
    commits: WorldCommits
    file: SimulatedFile = field(init=False)
    server: SimulatedServer = field(init=False)
    """Only one of the two is used."""
    faults: StoreFaults = Factory(lambda: ORDINARY)
    cut_off: frozenset[str] = frozenset()
    """The machines that the server does not reach now."""

    def __attrs_post_init__(self) -> None:
        draws = FaultDraws(self.random, self._record)
        self.file = SimulatedFile(draws, ORDINARY, self.commits.observe)
        self.server = SimulatedServer(draws, TRUE_TIME_AT_START, ORDINARY, self._is_reachable)
        self.server.observe = self.commits.observe

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Let the store work until cancelled."""
        machine = self.server.machine if self.is_shared else self.file.machine
        await machine.run(task_status=task_status)

    @asynccontextmanager
    async def open(self, process: SimulatedProcess) -> AsyncIterator[Store]:
        """Open the store for one gateway process; when that is killed, what it has sent arrives or
        does not. Raises StoreUnavailable and StoreUnusable."""
        if self.is_shared:
            async with open_shared_store(self.server, process.name) as shared:
                process.on_death.append(shared.kill)
                yield shared
        else:
            user = FileProcess(
                self.file, process.name, process.gateway_clock(), process.call_when_running
            )
            process.on_death.append(user.kill)
            async with user.open() as only:
                yield only

    def open_outside(self, *, serving: bool = False) -> AbstractAsyncContextManager[Store]:
        """Open the store for the world itself, as the process that serves it if there is no other:
        no fault meets it, and what it asks takes no time."""
        return (
            open_outside(self.server) if self.is_shared else self.file.stored.open(serving=serving)
        )

    def set_faults(self, faults: StoreFaults) -> None:
        """Let these faults occur from now on."""
        self.file.faults = self.server.faults = faults

    def fail_over(self, strength: float) -> float:
        """Let a standby take over after up to a minute, its clock a little off, and return the
        seconds until then; a file has none."""
        if not self.is_shared:
            return 0.0
        step = Span(round((strength - 0.5) * CLOCK_DIFFERENCE_MAX))
        self.server.fail_over(strength * FAIL_OVER_MAX_S, clock_step=step)
        return strength * FAIL_OVER_MAX_S

    def stand_still(self, for_s: float) -> float:
        """Let the server do nothing for so long, and return how long; a file never stands still."""
        if not self.is_shared:
            return 0.0
        self.server.stand_still(for_s)
        return for_s

    def fill_disk(self, for_s: float) -> None:
        """Let nothing be written for this time."""
        if self.is_shared:
            self.server.fill_disk(for_s)
        else:
            self.file.fill_disk(for_s)

    def next_work_at(self) -> float:
        """Return when a stored payment wakes next, in seconds after the beginning of the world; 0
        while an intent is open, and infinity when there is nothing to do."""
        return 0.0 if self.commits.ledger.intents else self.commits.next_wake_s()

    def what_is_left(self) -> Iterator[str]:
        """Yield sentences about what processes that have ended have left behind."""
        rows = self.server.rows
        if rows.locked_intents:
            yield f"a commit of {len(rows.locked_intents)} intents has not ended"
        if alive := rows.ownership.alive(now=rows.clock()):
            yield f"{len(alive)} leases have not ended"

    def _is_reachable(self, process: str) -> bool:
        return not self.cut_off or process.partition(",")[0] not in self.cut_off

    def _record(self, event: str, /, **details: object) -> None:
        """Record what the store does, which happens also when the world is at rest."""
        if event == CHANNEL_CLAIMED:
            self.commits.observe_claim(str(details["process"]), str(details["brand"]))
        kind = details.pop("kind", "")
        self.trace.add_routine(f"{event} {kind}" if kind else event, *details.values())


FAIL_OVER_MAX_S: Final = 60.0
CLOCK_DIFFERENCE_MAX: Final = MINUTE // 20


def store_faults(refused: float, uncertain: float, stalls: float) -> StoreFaults:
    """Return faults of these shares of statements, besides the ordinary times."""
    return evolve(
        ORDINARY,
        refused=refused,
        conflict=refused / 2,
        lost_before=uncertain / 2,
        lost_after=uncertain,
        late=uncertain / 4,
        stall=stalls,
    )
