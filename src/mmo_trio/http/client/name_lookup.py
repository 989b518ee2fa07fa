"""Looks up names for many who must not wait for each other (K6).

The system's resolver runs in threads, and a look-up that hangs keeps its thread for as long as the
resolver waits, long after all who asked have given up. So all who need the same name share one
look-up, and a look-up takes a place of the one who began it until it has really ended: who asks for
names that hang uses up their own places only."""

from __future__ import annotations

import socket
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio
from attrs import define, field

# Returns the addresses of a host name, which is asked for because of a port, best first and as
# text; raises OSError when there are none.
Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

# Name look-ups that run at a time, each in a thread.
LOOKUPS_MAX: Final = 256

# One owner may hold an eighth of the places that are free. So places stay free for others, however
# many owners have names that hang: with one of them 28 of 256 are taken, with twenty 183.
SHARE_DIVISOR: Final = 8


class SystemResolver:
    """Calls the system's resolver (getaddrinfo), with its hosts file and its order of preference
    (RFC 6724)."""

    def __init__(self) -> None:
        # Threads of its own, as no other work may queue behind a look-up that hangs.
        self._limiter = trio.CapacityLimiter(LOOKUPS_MAX)

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return the addresses of this host name, best first. A cancelled look-up ends by
        itself."""

        def look_up() -> list[str]:
            # Bytes, as the text of a name would be converted once more, by another edition of IDNA.
            addresses = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
            return [str(address[0]) for *_, address in addresses]

        return await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=self._limiter)


@define(eq=False)
class _RunningLookup:
    host: str
    owner: str
    ended: trio.Event = field(factory=trio.Event)
    addresses: list[str] = field(factory=list)
    error: Exception | None = None


class NameLookups:
    """Runs the look-ups of a client: one at a time for each name, and a share of the places for
    each owner."""

    def __init__(self, resolver: Resolver, *, places: int = LOOKUPS_MAX) -> None:
        self._resolver = resolver
        self._places = places
        self._running: dict[str, _RunningLookup] = {}

        # The places that each owner holds.
        self._held: Counter[str] = Counter()

        # The callers that wait for a place, by owner.
        self._waiting: defaultdict[str, trio.lowlevel.ParkingLot] = defaultdict(
            trio.lowlevel.ParkingLot
        )

    async def addresses(self, host: str, port: int, *, owner: str) -> list[str]:
        """Return the addresses of this host name, best first; raises OSError when there are none.
        Waits for a place of the owner when the look-up has not begun; the caller has the
        deadline."""
        # Another one may have begun it while this caller waited for a place.
        while (lookup := self._running.get(host)) is None:
            if self._has_place(owner):
                lookup = self._begin(host, port, owner)
                break
            await self._wait_for_place(owner)

        await lookup.ended.wait()
        if isinstance(lookup.error, OSError):
            # An exception of its own for each who waits.
            raise OSError(*lookup.error.args) from lookup.error

        if lookup.error is not None:
            raise lookup.error

        return lookup.addresses

    def _has_place(self, owner: str) -> bool:
        # Of what is free now: the more owners hang, the less each one may take.
        free = self._places - len(self._running)
        return free > 0 and self._held[owner] < max(1, free // SHARE_DIVISOR)

    async def _wait_for_place(self, owner: str) -> None:
        lot = self._waiting[owner]
        try:
            await lot.park()
        finally:
            if not lot and self._waiting.get(owner) is lot:
                del self._waiting[owner]

    def _begin(self, host: str, port: int, owner: str) -> _RunningLookup:
        """Begin the look-up in a task of its own, as it outlives the caller who gives up."""
        lookup = self._running[host] = _RunningLookup(host, owner)
        self._held[owner] += 1
        # A thread cannot be cancelled, so the place is taken until the resolver returns.
        trio.lowlevel.spawn_system_task(self._run, lookup, port)
        return lookup

    async def _run(self, lookup: _RunningLookup, port: int) -> None:
        try:
            lookup.addresses = await self._resolver(lookup.host, port)
        except Exception as error:
            lookup.error = error

        del self._running[lookup.host]
        self._held[lookup.owner] -= 1
        if not self._held[lookup.owner]:
            del self._held[lookup.owner]

        lookup.ended.set()

        # One of each owner, who may have a share of the place that has become free.
        for lot in tuple(self._waiting.values()):
            lot.unpark()
