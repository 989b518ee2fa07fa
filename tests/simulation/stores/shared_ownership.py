"""Simulates leases and channels on a server: each query is made once, as the result of a second one
would leave out what the first has done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import trio
from attrs import define

from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.ownership import Channel, OwnershipCounts
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, WorkItem
from tests.simulation.stores.machine import StoreCall
from tests.simulation.stores.shared_server import ConnectionLost, SimulatedServer, StatementRefused

T = TypeVar("T")

OWNERSHIP_TIMEOUT_S = 2.0
"""How long a request may take: a lease has to be renewed in time."""


CHANNEL_CLAIMED = "channel_claimed_on_server"
"""The event that names the process to which the server has given a channel, whether or not that
learns of it."""


@define(eq=False, slots=False)
class SimulatedChannelOwnership:
    """See :class:`mmo_trio.storage.interface.store.ChannelOwnership`."""

    server: SimulatedServer
    process: str
    lease_number: int
    """The number of the lease, as far as this process knows."""
    is_open: bool = True
    _has_ended_lease: bool = False

    async def renew_lease(self) -> int:
        number = None if self._has_ended_lease else self.lease_number
        rows = self.server.rows
        self.lease_number = await self._call_once(
            "renew_lease", lambda: rows.ownership.renew(number, now=rows.clock())
        )
        self._has_ended_lease = False
        return self.lease_number

    async def end_lease(self) -> None:
        self._has_ended_lease = True
        await self._call_once(
            "end_lease", partial(self.server.rows.ownership.end_lease, self.lease_number)
        )

    async def counts(self) -> OwnershipCounts:
        rows = self.server.rows
        return await self._call_once("counts", lambda: rows.ownership.counts(now=rows.clock()))

    async def claim(
        self,
        *,
        excluding: Collection[str] = (),
        known: Mapping[str, int] | None = None,
        waiting: Collection[str] | None = None,
        end_leases: bool = False,
    ) -> Sequence[Channel]:
        holder, rows = self.lease_number, self.server.rows

        def claim() -> Sequence[Channel]:
            channels = rows.claim_channels(
                holder, excluding=excluding, known=known, end_leases=end_leases
            )
            for each in channels:
                self.server.draws.trace(CHANNEL_CLAIMED, process=self.process, brand=each.brand)
            return channels

        return await self._call_once("claim", claim)

    async def find_callbacks(
        self,
        room: Mapping[str, int],
        *,
        known: Mapping[str, int] | None = None,
        taken: Mapping[str, Collection[str]] | None = None,
        afresh: Collection[str] = (),
    ) -> Sequence[WorkItem]:
        find = partial(
            self.server.rows.find_callbacks, self.lease_number, room, known=known, taken=taken
        )
        return await self._call_once("find_callbacks", find)

    async def release(
        self, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]
    ) -> None:
        release = partial(self.server.rows.release_channels, self.lease_number, fences, breakers)
        await self._call_once("release", release)

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
