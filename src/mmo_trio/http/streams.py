"""Defines what both ends of a connection need of its transport, wraps the system's TCP sockets in
it, and tells whose address a peer has."""

from __future__ import annotations

import os
import select
import socket
import sys
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import AddressValueError, IPv6Address
from typing import TypeAlias, TypeVar

import trio

SendBuffer = TypeVar("SendBuffer", bytes, memoryview)

# Bytes of one read: a request with the largest body of the API arrives in two.
RECEIVE_BYTES_MAX = 64 * 1024

# What tells, though bytes are unread, that the peer sends no more; on systems without it, only that
# the connection is broken.
PEER_CLOSED = getattr(select, "POLLRDHUP", select.POLLHUP)

# Where Linux's `struct tcp_info` has `tcpi_last_data_recv`, in milliseconds.
LAST_RECEIVED = slice(52, 56)


def unmap_ipv4(address: str) -> str:
    """Return the address; an IPv4 one loses the prefix that a dual-stack socket gives it."""
    return address.removeprefix("::ffff:")


def subscriber_network(address: str) -> str:
    """Return the network that one subscriber has, to count by: an IPv6 address by its /64, any
    other text as it is.

    An access network gives each subscriber a /64 at least (RFC 6177), so a client has 2^64
    addresses to count by."""
    # IPv4, or the empty text of a Unix socket.
    if ":" not in address:
        return address

    try:
        bits = int(IPv6Address(address.partition("%")[0]))
    except AddressValueError:
        return address

    return f"{IPv6Address(bits >> 64 << 64)}/64"


class TransportStream(trio.abc.Stream):
    """Is a connection as the HTTP server and client need it, over the system's sockets or a
    simulated network."""

    @property
    @abstractmethod
    def descriptor(self) -> int:
        """The number of its descriptor: there are at least so many open ones besides."""

    @abstractmethod
    def peer_address(self) -> str | None:
        """Return the peer's address without its port; empty for a Unix socket, None when the peer
        is gone."""

    @abstractmethod
    def try_send(self, data: SendBuffer) -> SendBuffer:
        """Send as much as is taken at once and return the remainder. Raises BrokenResourceError
        when the peer is gone."""

    @abstractmethod
    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the bytes that have arrived, b"" at the end; raises BrokenResourceError when the
        peer is gone."""

    @abstractmethod
    def close(self) -> None:
        """Close at once and interrupt all calls; a second call does nothing."""

    def is_silent(self) -> bool:
        """Tell whether the connection is certainly open and holds nothing unread."""
        return False

    def has_ended(self) -> bool:
        """Tell whether the peer is known to have closed its side, or this one is closed. Any
        thread may call this."""
        return False

    def seconds_since_arrival(self) -> float:
        """Return how long ago the peer's last bytes arrived, or its connection; 0 where nobody
        knows."""
        return 0.0

    async def send_all_now(self, data: bytes) -> None:
        """Send all of it and begin at once, for callers that have just checked their permission."""
        rest = self.try_send(data)
        if rest:
            await self.send_all(rest)


class PlainStream(TransportStream):
    """Owns the system's socket of a connection.

    Both ends wait before they read, as the peer has not sent yet when it is its turn, and what they
    send fits into the socket's buffer. So neither needs Trio's checkpoints before each call."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.setblocking(False)

    @property
    def descriptor(self) -> int:
        """The number of the socket's descriptor; -1 once it is closed."""
        return self._socket.fileno()

    def peer_address(self) -> str | None:
        try:
            address = self._socket.getpeername()
        except OSError:
            return None
        if not isinstance(address, tuple):
            return ""
        return unmap_ipv4(str(address[0]))

    def try_send(self, data: SendBuffer) -> SendBuffer:
        try:
            # No wait before it: a response nearly always fits into the socket's buffer.
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

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.wait_writable(self._socket)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            self._check_open()
            # Waiting first costs one call; a read that finds nothing would cost two.
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes or RECEIVE_BYTES_MAX)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError from error

    def is_silent(self) -> bool:
        try:
            # A peek leaves the byte; the end of the connection reads as b"", which is not silence.
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def has_ended(self) -> bool:
        descriptor = self._socket.fileno()
        if descriptor < 0:
            return True
        # Not `select.select`, which knows no descriptor above 1023.
        watch = select.poll()
        watch.register(descriptor, PEER_CLOSED)
        return bool(watch.poll(0))

    def seconds_since_arrival(self) -> float:
        # Only TCP on Linux tells.
        if self._socket.family is socket.AF_UNIX or not hasattr(socket, "TCP_INFO"):
            return 0.0
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_RECEIVED.stop)
        return int.from_bytes(info[LAST_RECEIVED], sys.byteorder) / 1_000

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            # Those who wait for the socket wake up; the number may be another connection's at once.
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _check_open(self) -> None:
        if self._socket.fileno() < 0:
            raise trio.BrokenResourceError("closed here")


class LingeringStream(PlainStream):
    """Closes an accepted connection so that its last response arrives (RFC 9112 section 9.6).

    Closing a socket that holds unread input resets the connection, and the reset may overtake a
    response that the client has not read yet. So `aclose` ends the sending direction, then discards
    what still arrives until the client closes too. It may wait; cancelled, it closes at once."""

    def __init__(self, accepted: trio.socket.SocketType | socket.socket) -> None:
        # Detached: else two objects would close one descriptor, the second time somebody else's.
        family, kind, protocol = accepted.family, accepted.type, accepted.proto
        super().__init__(socket.socket(family, kind, protocol, fileno=accepted.detach()))

    async def aclose(self) -> None:
        """Close so that the client can still read what was sent; the caller's deadline bounds the
        wait."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while await self.receive_some():
                pass
        except (OSError, trio.BrokenResourceError):
            pass  # The client has gone already.
        finally:
            self.close()


# Accepts connections of the system, or of a network of its own.
ConnectionListener: TypeAlias = (
    trio.abc.Listener[trio.SocketStream] | trio.abc.Listener[TransportStream]
)


def accepted_stream(accepted: trio.SocketStream | TransportStream) -> TransportStream:
    """Return the server's end of a connection that a listener has accepted."""
    if isinstance(accepted, TransportStream):
        return accepted
    return LingeringStream(accepted.socket)


def accept_waiting(listener: ConnectionListener) -> Iterator[TransportStream]:
    """Accept the connections that wait already: together with another one, or before the listener
    is closed, which would reset them with the requests that they may have brought."""
    # Trio's listener can only wait, so a copy of its descriptor accepts at once.
    if isinstance(listener, trio.SocketListener):
        with (
            suppress(OSError),
            socket.socket(fileno=os.dup(listener.socket.fileno())) as same_socket,
        ):
            same_socket.setblocking(False)
            while True:
                connected = trio.socket.from_stdlib_socket(same_socket.accept()[0])
                yield accepted_stream(trio.SocketStream(connected))  # Which sets its options.
