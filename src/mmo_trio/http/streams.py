"""A TCP connection whose graceful close lets the last answer arrive (RFC 9112 section 9.6)."""

from __future__ import annotations

import trio

RECEIVE_SIZE = 64 * 1024
"""Bytes of one read: a request with the largest body of the API comes in two."""


def plain_address(address: str) -> str:
    """The address, an IPv4 one without the prefix that a dual-stack socket gives it."""
    return address.removeprefix("::ffff:")


class LingeringStream(trio.abc.Stream):
    """One accepted connection.

    Closing a socket that holds unread input resets the connection, and the reset may overtake an
    answer the client has not read yet. So `aclose` says that nothing more will come, then reads
    away what still arrives until the client closes too. It may wait; cancelled, it closes at
    once."""

    def __init__(self, socket: trio.socket.SocketType) -> None:
        self._socket = socket

    def peer_address(self) -> str | None:
        """The client's address without its port, empty for a Unix socket; None when the client is
        gone."""
        try:
            address = self._socket.getpeername()
        except OSError:
            return None
        if not isinstance(address, tuple):
            return ""
        return plain_address(str(address[0]))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it; raises BrokenResourceError when the client is gone."""
        try:
            sent = await self._socket.send(data)
            if sent < len(data):
                rest = memoryview(data)
                while rest := rest[sent:]:
                    sent = await self._socket.send(rest)
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the socket takes more."""
        await self._socket.wait_writable()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What has arrived, b"" at the end; raises BrokenResourceError when the client is gone."""
        try:
            return await self._socket.recv(max_bytes or RECEIVE_SIZE)
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close so that what was sent can still be read; the caller's deadline bounds the wait."""
        try:
            self._socket.shutdown(trio.socket.SHUT_WR)
            while await self._socket.recv(RECEIVE_SIZE):
                pass
        except OSError:
            pass  # the client is gone already: nobody to be polite to
        finally:
            self.close()

    def close(self) -> None:
        """Close at once, whatever is under way; again does no harm."""
        self._socket.close()
