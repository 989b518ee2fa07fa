"""Records up to when windows of records have been served, before they are: then no later process creates a payment in
one of them, even if its machine's clock has stepped back meanwhile (R7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import Factory, define

from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.clock import GatewayClock


@define(eq=False)
class ServedWindows:
    """Runs once in each process that serves the merchants' API."""

    clock: GatewayClock
    save: Callable[[ClockRecord], Awaitable[None]] | None
    """Saves the clocks for the process after this one; None where the store itself records how far its records are
    complete, as one that several processes share must."""
    _saved_until: Instant = Instant(0)
    _lock: trio.Lock = Factory(trio.Lock)
    """Held while the clocks are saved: who waits for it mostly finds that done which it needs."""

    async def mark(self, end: Instant) -> None:
        """Let nothing be created below this wall time any more, by this process or a later one. A window that ends in
        the future promises nothing. Raises StoreUnavailable when that cannot be saved."""
        self.clock.mark_served(end)
        if self.save is None or self.clock.served_until <= self._saved_until:
            return
        async with self._lock:
            record = self.clock.record()
            if record.served_until > self._saved_until:
                try:
                    await self.save(record)
                except OutcomeUnknown as error:
                    raise StoreUnavailable("it is not known how far records are complete") from error
                self._saved_until = record.served_until
