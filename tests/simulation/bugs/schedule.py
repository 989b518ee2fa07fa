"""Bugs of what is due and of what others have left."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import trio

from mmo_sansio.messages.intents import SubmitToProvider
from mmo_trio.service.wiring import Workers
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.scheduler import SCAN_INTERVAL_S, Scheduler, WakeRound
from tests.simulation.clocks.machine_clock import MachineGatewayClock


def expiry_by_the_wall_clock() -> AbstractContextManager[object]:
    """What is due is judged by the machine's wall clock, right or wrong."""
    return patch.object(MachineGatewayClock, "own_time", lambda self: self.raw_wall_time())


def submission_forgotten() -> AbstractContextManager[object]:
    """Every tenth payment is not passed to its provider."""
    dispatch, counted = Dispatcher.dispatch, itertools.count(1)

    def dispatch_most(self: Dispatcher, work: WorkItem) -> None:
        if not (isinstance(work.intent, SubmitToProvider) and next(counted) % 10 == 0):
            dispatch(self, work)

    return patch.object(Dispatcher, "dispatch", dispatch_most)


def due_payments_never_woken() -> AbstractContextManager[object]:
    """Nothing that is due happens."""

    async def wake_nothing(self: Scheduler, *_: Any, **__: Any) -> WakeRound:
        # What stays due would else be sought fifty times a second for days.
        await trio.sleep(SCAN_INTERVAL_S)
        return WakeRound()

    return patch.object(Scheduler, "_wake_due", wake_nothing)


def drain_takes_polls() -> AbstractContextManager[object]:
    """A process that drains goes on to wake what is due."""

    async def run_to_the_end(
        self: Workers, drain: trio.Event, ended: trio.Event, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.deposit_lister.run)
            await nursery.start(self.scheduler.run)
            task_status.started()
            await drain.wait()
            ended.set()

    return patch.object(Workers, "_run_scheduler", run_to_the_end)


def work_of_the_dead_left() -> AbstractContextManager[object]:
    """Nobody goes on with what a process has left that died."""

    async def claim_nothing(self: Scheduler) -> int:
        return 0

    return patch.object(Scheduler, "_claim_abandoned", claim_nothing)
