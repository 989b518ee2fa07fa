"""Simulates leases and channels on a server: each query is made once, as the result of a second one would leave out
what the first has done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import trio
from attrs import define

from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.ownership import Channel, OwnershipCounts
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, WorkItem
from mmo_trio.storage.memory.ownership import MemoryChannelOwnership
from tests.simulation.stores.machine import StoreCall, run_at_once
from tests.simulation.stores.shared_server import ConnectionLost, SimulatedServer, StatementRefused

T = TypeVar("T")

OWNERSHIP_TIMEOUT_S = 2.0
"""How long a request may take: a lease has to be renewed in time."""


CHANNEL_CLAIMED = "channel_claimed_on_server"
"""The event that names the process to which the server has given a channel, whether or not that learns of it."""


@define(eq=False)
class SimulatedChannelOwnership:
    """See :class:`mmo_trio.storage.interface.store.ChannelOwnership`."""

    server: SimulatedServer
    process: str
    rows: MemoryChannelOwnership
    lease_number: int
    """The number of the lease, as far as this process knows."""
    is_open: bool = True
    _has_ended_lease: bool = False

    async def renew_lease(self) -> int:
        number = None if self._has_ended_lease else self.lease_number
        memory = self.server.memory

        def renew() -> int:
            return memory.ownership.renew(number, now=memory.clock())

        self.lease_number = await self._call_once("renew_lease", renew)
        self._has_ended_lease = False
        return self.lease_number

    async def end_lease(self) -> None:
        self._has_ended_lease = True
        await self._call_rows("end_lease", self.rows.end_lease)

    async def counts(self) -> OwnershipCounts:
        return await self._call_rows("counts", self.rows.counts)

    async def claim(
        self,
        *,
        excluding: Collection[str] = (),
        known: Mapping[str, int] | None = None,
        waiting: Collection[str] | None = None,
        end_leases: bool = False,
    ) -> Sequence[Channel]:
        async def claim() -> Sequence[Channel]:
            channels = await self.rows.claim(excluding=excluding, known=known, waiting=waiting, end_leases=end_leases)
            for each in channels:
                self.server.draws.trace(CHANNEL_CLAIMED, process=self.process, brand=each.brand)
            return channels

        return await self._call_rows("claim", claim)

    async def find_callbacks(
        self,
        room: Mapping[str, int],
        *,
        known: Mapping[str, int] | None = None,
        taken: Mapping[str, Collection[str]] | None = None,
        afresh: Collection[str] = (),
    ) -> Sequence[WorkItem]:
        find = partial(self.rows.find_callbacks, room, known=known, taken=taken, afresh=afresh)
        return await self._call_rows("find_callbacks", find)

    async def release(self, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]) -> None:
        await self._call_rows("release", partial(self.rows.release, fences, breakers))

    async def _call_rows(self, name: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Call under the lease that this process has now, whenever the statement arrives."""
        holder = self.lease_number

        def statement() -> T:
            self.rows.lease_number = holder
            return run_at_once(call())

        return await self._call_once(name, statement)

    async def _call_once(self, name: str, statement: Callable[[], T]) -> T:
        if not self.is_open:
            raise StoreUnavailable("the store is closed")
        deadline = trio.current_time() + OWNERSHIP_TIMEOUT_S

        def do(call: StoreCall[T]) -> None:
            self.server.do(call, statement)

        try:
            return await self.server.call(self.process, name, deadline, do)
        except ConnectionLost as error:
            raise OutcomeUnknown("the connection was lost on the way") from error
        except StatementRefused as error:
            raise StoreUnavailable(f"the server: {error}") from error
