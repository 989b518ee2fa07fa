"""Continues the gateway's own time from the process before."""

from __future__ import annotations

from typing import Protocol

from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_trio.storage.interface.store import OutcomeUnknown, StoredClockRecord, StoreUnavailable
from mmo_trio.system.clock import GatewayClock


class ClockRecords(Protocol):
    """The store as the clock needs it; see :class:`mmo_trio.storage.interface.store.BatchStore`."""

    async def clock_record(self, boot_id: str) -> StoredClockRecord | None: ...


class KeptClockRecords(ClockRecords, Protocol):
    """The store as a process needs it that serves it."""

    async def save_clock_record(self, record: ClockRecord) -> None: ...


async def continue_clock(clock: GatewayClock, store: ClockRecords) -> None:
    """Continue the gateway's own time from the latest record in the store, if there is one. Raises StoreUnavailable."""
    if (found := await store.clock_record(clock.boot_id())) is not None:
        clock.continue_from(found.record, down_for=found.age)


async def begin_clock(clock: GatewayClock, store: KeptClockRecords) -> None:
    """Continue the gateway's own time, and save where it goes on, before anything is dated by it: after a restart of
    the machine with a clock that was ahead, a later process with the right clock would else wait days for what is due.
    Raises StoreUnavailable."""
    await continue_clock(clock, store)
    try:
        await store.save_clock_record(clock.record())
    except OutcomeUnknown as error:
        raise StoreUnavailable("it is not known whether the gateway's own time was saved") from error
