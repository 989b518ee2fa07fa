"""Simulates the store in one file, which one process at a time has open: the meaning of `mmo_trio.storage.sqlite`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import outcome
import trio
from attrs import Factory, define

from mmo_sansio.messages.intents import IntentKey
from mmo_sansio.messages.queries import ListRecords, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.values.clock import LAST_INSTANT, Instant
from mmo_trio.storage.interface.store import (
    CHECK_TIMEOUT_S,
    DecideBatch,
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnusable,
    WorkItem,
)
from mmo_trio.storage.memory.state import MemoryState
from mmo_trio.storage.memory.store import MemoryStore
from mmo_trio.storage.shared.net_effect import net_effect
from mmo_trio.system.parking import run_to_end
from tests.simulation.stores.faults import NO_FAULTS, FaultDraws, StoreFaults
from tests.simulation.stores.machine import StoreCall, StoreMachine, no_pause, run_at_once, tick_after
from tests.simulation.stores.stored_rows import StatementStore

T = TypeVar("T")

FILE_TIMEOUT_S = 10.0
"""Seconds that a caller waits before StoreUnavailable or OutcomeUnknown is raised (P5)."""


@define(eq=False)
class SimulatedFile:
    """Holds what is stored in a file, and which process serves it; it outlives its processes.

    `machine.run` must run as long as it is used.
    """

    draws: FaultDraws
    faults: StoreFaults = NO_FAULTS
    """The faults from now on; the world may replace them at any time."""
    machine: StoreMachine = Factory(StoreMachine)
    memory: MemoryState = Factory(MemoryState)
    served_by: SimulatedFileStore | None = None
    _disk_full_until: float = 0.0

    @property
    def is_disk_full(self) -> bool:
        """Tell whether nothing can be written now."""
        return trio.current_time() < self._disk_full_until

    def fill_disk(self, for_s: float) -> None:
        """Refuse commits for this time; what is read is read."""
        self.draws.note("disk_full", for_s=for_s)
        self._disk_full_until = max(self._disk_full_until, trio.current_time() + for_s)


@define(eq=False)
class _WriteAttempt:
    """A commit, which goes on in its thread when its caller gives up."""

    scheduled: Sequence[IntentKey]
    """Durable intents that it writes if it commits."""
    apply: Callable[[], None]
    creates_from: Instant = LAST_INSTANT
    """It dates no payment before this wall time."""
    has_ended: bool = False


class SimulatedFileStore(StatementStore):
    """See :class:`mmo_trio.storage.interface.store.Store`; made by :func:`open_file_store`."""

    batches_in_flight = 1
    """One, as there is one writer."""
    ownership = None
    """None, as one process has the file to itself."""

    def __init__(self, file: SimulatedFile, process: str) -> None:
        super().__init__(MemoryStore(file.memory, no_pause))
        self._file = file
        self.process = process
        self._is_open = True
        self._used_generation: int | None = None
        """The generation of the configuration that was recorded last."""
        self._turn = trio.Semaphore(1)
        """Is taken while a write is in progress."""
        self._writing: _WriteAttempt | None = None
        """The commit in progress."""
        self._in_doubt: list[_WriteAttempt] = []
        self._calls: dict[StoreCall[None], None] = {}
        """The commits whose callers wait."""

    def kill(self) -> None:
        """End the process at once: the commit in progress has taken place or it has not."""
        if not self._is_open:
            return
        self._close()
        attempt, self._writing = self._writing, None
        if attempt is not None:
            if self._file.draws.either():
                attempt.apply()
            self._turn.release()
        for call in list(self._calls):
            call.answer(outcome.Error(StoreUnavailable("the process was killed")))

    async def aclose(self) -> None:
        """Close the file, once the current write has ended; later calls raise StoreUnavailable."""
        if self._is_open:
            with trio.move_on_after(FILE_TIMEOUT_S):
                await self._turn.acquire()
                self._turn.release()
            self.kill()

    def _close(self) -> None:
        self._is_open = False
        self._file.served_by = None

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        memory = self._file.memory

        def begin() -> tuple[Sequence[Decision], _WriteAttempt | None]:
            decisions = decide(memory.ledger.working_set(reads))
            effect = net_effect(decisions)
            if effect.is_empty:
                return decisions, None
            dates = (each.order.created_at for each in effect.created.values())
            creates_from = min(dates, default=LAST_INSTANT)
            return decisions, _WriteAttempt(
                tuple(effect.scheduled), partial(memory.apply, decisions, 0), creates_from=creates_from
            )

        return await self._commit("commit", begin)

    async def write(self, name: str, statement: Callable[[], T]) -> T:
        results: list[T] = []
        attempt = _WriteAttempt((), lambda: results.append(statement()))
        await self._commit(name, lambda: (None, attempt))
        return results[0]

    async def read(self, name: str, statement: Callable[[], T]) -> T:
        return await self._read(name, statement, FILE_TIMEOUT_S)

    async def _read(self, name: str, statement: Callable[[], T], timeout_s: float) -> T:
        self._require_open()
        draws, faults = self._file.draws, self._file.faults
        delay_s = draws.time_s(faults.latency_s)
        if draws.happens("late", faults.late, process=self.process, statement=name):
            delay_s += draws.time_s(faults.late_s)
        await trio.sleep_until(tick_after(min(delay_s, timeout_s)))
        if delay_s > timeout_s:
            raise StoreUnavailable(f"the store didn't answer within {timeout_s:g} s")
        self._require_open()
        draws.trace("store_statement", process=self.process, statement=name)
        return statement()

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Claim also what commits have scheduled that were in doubt for their callers."""
        settled = [each for each in self._in_doubt if each.has_ended]
        ledger = self._file.memory.ledger

        def claim() -> Sequence[WorkItem]:
            keys = [key for each in settled for key in each.scheduled if key in ledger.intents]
            in_doubt = [WorkItem(ledger.intents[key], ledger.transactions[key[0]]) for key in keys]
            return [*in_doubt, *run_at_once(self.rows.claim_abandoned(limit=limit))]

        found = await self.read("claim_abandoned", claim)
        self._in_doubt = [each for each in self._in_doubt if each not in settled]
        return found

    async def list_records(self, query: ListRecords) -> Records:
        """Wait for a commit that may add payments to the window, and read then (R7)."""
        await self._wait_for_creations(query.end)
        return await self.read("list_records", lambda: run_at_once(self.rows.list_records(query)))

    async def use_configuration(self, generation: int, *, process: str) -> None:
        if generation != self._used_generation:
            await super().use_configuration(generation, process=process)
            self._used_generation = generation

    async def check(self) -> None:
        await self._read("check", self._require_space, CHECK_TIMEOUT_S)

    # Writes

    async def _commit(self, name: str, begin: Callable[[], tuple[T, _WriteAttempt | None]]) -> T:
        """Wait for the turn of this write, begin it, and return its result once it is durable."""
        deadline = trio.current_time() + FILE_TIMEOUT_S
        await self._wait_for_turn(deadline)
        attempt: _WriteAttempt | None = None
        try:
            self._require_open()
            result, attempt = begin()
            if attempt is None:
                return result
            self._writing = attempt
            self._require_space()
            if self._file.draws.happens("refused", self._file.faults.refused, process=self.process, statement=name):
                raise StoreUnavailable("the file is busy")
        except BaseException:
            attempt = self._writing = None
            raise
        finally:
            if attempt is None:
                self._turn.release()
        call: StoreCall[None] = StoreCall(self.process, name, deadline)
        self._begin_commit(attempt, call)
        self._calls[call] = None
        try:
            await call.result()
        except OutcomeUnknown:
            self._in_doubt.append(attempt)
            raise
        finally:
            self._calls.pop(call, None)
        return result

    async def _wait_for_creations(self, before: Instant) -> None:
        if self._writing is not None and self._writing.creates_from < before:
            await self._wait_for_turn(trio.current_time() + FILE_TIMEOUT_S)
            self._turn.release()

    async def _wait_for_turn(self, deadline: float) -> None:
        with trio.move_on_at(deadline):
            await self._turn.acquire()
            return
        raise StoreUnavailable(f"the store didn't answer within {FILE_TIMEOUT_S:g} s")

    def _begin_commit(self, attempt: _WriteAttempt, call: StoreCall[None]) -> None:
        draws, faults = self._file.draws, self._file.faults
        pause_s = draws.time_s(faults.commit_s)
        if draws.happens("stall", faults.stall, process=self.process):
            pause_s += draws.time_s(faults.stall_s)
        if not pause_s:
            self._end_commit(attempt, call)
            return
        left_s = call.deadline - trio.current_time()
        if pause_s > left_s:
            slow = OutcomeUnknown(f"the commit took longer than {FILE_TIMEOUT_S:g} s")
            self._file.machine.after(left_s, partial(call.answer, outcome.Error(slow)))
        self._file.machine.after(pause_s, partial(self._end_commit, attempt, call))

    def _end_commit(self, attempt: _WriteAttempt, call: StoreCall[None]) -> None:
        """Write, or fail in a way that does not tell whether that was written."""
        if self._writing is not attempt:
            return  # The process was killed.
        draws = self._file.draws
        result: outcome.Outcome[None] = outcome.Value(None)
        is_unknown = draws.happens("lost_after", self._file.faults.lost_after, process=self.process)
        if not is_unknown or draws.either():
            result = outcome.capture(attempt.apply)
            draws.trace("store_commit", process=self.process, statement=call.name)
        attempt.has_ended, self._writing = True, None
        self._turn.release()
        call.answer(outcome.Error(OutcomeUnknown("the disk has failed during a commit")) if is_unknown else result)

    def _require_space(self) -> None:
        if self._file.is_disk_full:
            raise StoreUnavailable("the disk is full")

    def _require_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable("the store is closed")


@asynccontextmanager
async def open_file_store(file: SimulatedFile, process: str) -> AsyncIterator[SimulatedFileStore]:
    """Open the file as its one serving process. Raises StoreUnusable while another process serves it."""
    await trio.lowlevel.checkpoint()
    if file.served_by is not None:
        raise StoreUnusable(f"another process serves the file: {file.served_by.process}")
    file.served_by = store = SimulatedFileStore(file, process)
    try:
        yield store
    finally:
        await run_to_end(store.aclose)
