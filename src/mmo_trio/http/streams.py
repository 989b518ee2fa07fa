"""TCP connections on the system's sockets: plain ones, and those that a listener has accepted."""

from __future__ import annotations

import socket
from typing import TypeVar

import trio

SendBuffer = TypeVar("SendBuffer", bytes, memoryview)

RECEIVE_BYTES_MAX = 64 * 1024
"""Bytes of one read: a request with the largest body of the API comes in two."""


def unmap_ipv4(address: str) -> str:
    """The address, an IPv4 one without the prefix that a dual-stack socket gives it."""
    return address.removeprefix("::ffff:")


class PlainStream(trio.abc.Stream):
    """A connection that owns the system's socket itself.

    Both ends wait before they read, as no peer has spoken yet when it is its turn, and what they
    send fits into the socket's buffer, so neither needs Trio's careful detour for the contrary."""

    def __init__(self, connected: socket.socket) -> None:
        """The socket is the stream's from now on."""
        self._socket = connected
        self._socket.setblocking(False)

    def peer_address(self) -> str | None:
        """The peer's address without its port, empty for a Unix socket; None when the peer is
        gone."""
        try:
            address = self._socket.getpeername()
        except OSError:
            return None
        if not isinstance(address, tuple):
            return ""
        return unmap_ipv4(str(address[0]))

    def try_send(self, data: SendBuffer) -> SendBuffer:
        """Send what the socket takes at once; what it left. Raises BrokenResourceError when the
        peer is gone."""
        try:
            return data[self._socket.send(data) :]
        except BlockingIOError:
            return data
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it; raises BrokenResourceError when the peer is gone."""
        rest = memoryview(data)
        while rest:
            self._check_open()
            await trio.lowlevel.wait_writable(self._socket)
            rest = self.try_send(rest)

    async def send_all_now(self, data: bytes) -> None:
        """The same, beginning at once: for whoever has just looked whether it may still be sent."""
        rest = self.try_send(data)
        if rest:
            await self.send_all(rest)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the socket takes more."""
        await trio.lowlevel.wait_writable(self._socket)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What has arrived, b"" at the end; raises BrokenResourceError when the peer is gone."""
        while True:
            self._check_open()
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes or RECEIVE_BYTES_MAX)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close at once."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close at once, whatever is under way; again does no harm."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _check_open(self) -> None:
        if self._socket.fileno() < 0:
            raise trio.BrokenResourceError("closed here")


class LingeringStream(PlainStream):
    """One accepted connection, whose graceful close lets the last answer arrive (RFC 9112 section
    9.6).

    Closing a socket that holds unread input resets the connection, and the reset may overtake an
    answer the client has not read yet. So `aclose` says that nothing more will come, then reads
    away what still arrives until the client closes too. It may wait; cancelled, it closes at
    once."""

    def __init__(self, accepted: trio.socket.SocketType) -> None:
        family, kind, protocol = accepted.family, accepted.type, accepted.proto
        super().__init__(socket.socket(family, kind, protocol, fileno=accepted.detach()))

    async def aclose(self) -> None:
        """Close so that what was sent can still be read; the caller's deadline bounds the wait."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while await self.receive_some():
                pass
        except (OSError, trio.BrokenResourceError):
            pass  # the client is gone already: nobody to be polite to
        finally:
            self.close()
