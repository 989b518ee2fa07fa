"""Continues the gateway's own time from the process before."""

from __future__ import annotations

from typing import Protocol

from mmo_trio.storage.interface.store import StoredClockRecord
from mmo_trio.system.clock import GatewayClock


class ClockRecords(Protocol):
    """The store as the clock needs it; see :class:`mmo_trio.storage.interface.store.BatchStore`."""

    async def clock_record(self, boot_id: str) -> StoredClockRecord | None: ...


async def continue_clock(clock: GatewayClock, store: ClockRecords) -> None:
    """Continue the gateway's own time from the latest record in the store, if there is one. Raises StoreUnavailable."""
    if (found := await store.clock_record(clock.boot_id())) is not None:
        clock.continue_from(found.record, down_for=found.age)
