"""Gives the programs of a simulation their ends of connections, as the HTTP server and client use
them."""

from __future__ import annotations

from collections.abc import Callable

import trio

from mmo_trio.http.streams import RECEIVE_BYTES_MAX, SendBuffer, TransportStream
from tests.simulation.network.connection_end import ConnectionEnd


class SimulatedStream(TransportStream):
    """Is one end of a connection in the hands of its process. Nothing that a killed process still
    does with it, while its tasks are cancelled, leaves it."""

    def __init__(
        self,
        end: ConnectionEnd,
        peer: str,
        *,
        is_alive: Callable[[], bool],
        descriptor: int,
        lingers: bool,
    ) -> None:
        """Take the end of a connection with this peer. An end that lingers closes as an accepted
        connection does: it waits for the peer to close too."""
        self.end = end
        self._peer = peer
        self._is_alive = is_alive
        self._descriptor = descriptor
        self._lingers = lingers

    @property
    def descriptor(self) -> int:
        """The number of its descriptor when it was opened; -1 once it is closed."""
        return -1 if self.end.is_closed else self._descriptor

    def peer_address(self) -> str | None:
        """Return the peer's address; None when the peer is gone."""
        return None if self.end.error is not None or self.end.is_closed else self._peer

    def try_send(self, data: SendBuffer) -> SendBuffer:
        """Send as much as is taken at once and return the remainder. Raises BrokenResourceError."""
        self._check_open()
        try:
            return data[self.end.send(bytes(data)) :]
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it; raises BrokenResourceError when the peer is gone."""
        rest = memoryview(data)
        while rest:
            await self.wait_send_all_might_not_block()
            rest = self.try_send(rest)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for more."""
        self._check_open()
        await trio.lowlevel.checkpoint()
        while not (self.end.room_bytes or self.end.error or self.end.is_closed):
            await self.end.writer.park()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the bytes that have arrived, b"" at the end; raises BrokenResourceError when the
        peer is gone."""
        self._check_open()
        if self.end.is_readable:
            await trio.lowlevel.checkpoint()
        while not self.end.is_readable:
            await self.end.reader.park()
        self._check_open()
        try:
            return self.end.read(max_bytes or RECEIVE_BYTES_MAX)
        except OSError as error:
            raise trio.BrokenResourceError from error

    def seconds_since_arrival(self) -> float:
        """Return how long ago the peer's last bytes arrived, or its connection."""
        return self.end.seconds_since_arrival

    async def aclose(self) -> None:
        """Close; one that lingers first says that nothing more is sent, and waits until the peer
        closes too."""
        try:
            if self._lingers and self._is_alive():
                self.end.send_end()
                while await self.receive_some():
                    pass
        except trio.BrokenResourceError:
            pass  # The peer has gone already.
        finally:
            self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close at once and interrupt all calls; a second call does nothing."""
        self.end.close()

    def _check_open(self) -> None:
        if self.end.is_closed or not self._is_alive():
            raise trio.BrokenResourceError("closed here")
