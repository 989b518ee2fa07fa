"""Accepts the connections of a simulated process."""

from __future__ import annotations

from collections import deque
from collections.abc import Sized
from typing import Final, Protocol

import outcome
import trio
from attrs import define, field

from mmo_trio.http.streams import TransportStream
from mmo_trio.system.waiting import ParkingSpot
from tests.simulation.network.connection_end import ConnectionEnd
from tests.simulation.network.identities import ServerIdentity
from tests.simulation.network.simulated_stream import SimulatedStream

BACKLOG: Final = 1_024
"""Connections that wait to be accepted; further attempts are not answered."""
FIRST_DESCRIPTOR: Final = 3
"""The lowest descriptor that a connection may have."""


class ConnectionOwner(Protocol):
    """Is a process that has connections."""

    @property
    def ends(self) -> Sized:
        """Its open ends of connections."""
        ...

    def is_alive(self) -> bool:
        """Return whether it was neither killed nor has ended."""
        ...

    def require_descriptor(self) -> None:
        """Raise OSError when the process may open nothing more."""
        ...

    def own(self, end: ConnectionEnd) -> None:
        """Count an end of a connection as one of this process until it is closed."""
        ...

    def listen_no_more(self, listener: SimulatedListener) -> None:
        """Make the port of this listener free."""
        ...


@define(eq=False)
class SimulatedListener(trio.abc.Listener[TransportStream]):
    """Listens on one port of a process's machine. The machine connects also while the process is
    suspended."""

    process: ConnectionOwner
    port: int
    identity: ServerIdentity | None
    """What the server shows in TLS handshakes; None for clear HTTP."""
    _waiting: deque[tuple[ConnectionEnd, str]] = field(factory=deque, init=False)
    _acceptor: ParkingSpot[None] = field(factory=ParkingSpot, init=False)
    is_closed: bool = field(default=False, init=False)

    def __len__(self) -> int:
        """Return how many connections wait to be accepted."""
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether one more connection may wait."""
        return len(self._waiting) < BACKLOG

    def add(self, end: ConnectionEnd, peer: str) -> None:
        """Let an established connection wait to be accepted."""
        self._waiting.append((end, peer))
        self._acceptor.unpark(outcome.Value(None))

    async def accept(self) -> TransportStream:
        """Return the next connection. Raises ClosedResourceError."""
        if self._waiting:
            await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self.is_closed:
                raise trio.ClosedResourceError("closed here")
            await self._acceptor.park()
        self.process.require_descriptor()
        end, peer = self._waiting.popleft()
        return SimulatedStream(
            end,
            peer,
            is_alive=self.process.is_alive,
            descriptor=FIRST_DESCRIPTOR + len(self.process.ends),
            lingers=True,
        )

    async def aclose(self) -> None:
        """Listen no more; connections that were not accepted are reset."""
        if self.process.is_alive():
            self.end()
        await trio.lowlevel.checkpoint()

    def end(self) -> None:
        """Listen no more, as the machine does for a process that has ended."""
        if self.is_closed:
            return
        self.is_closed = True
        self.process.listen_no_more(self)
        for end, _ in self._waiting:
            end.close()
        self._waiting.clear()
        self._acceptor.unpark(outcome.Value(None))
