"""Opens and secures the connections of a client: over the system's network with TLS, or over a
simulated one.

Of several addresses it takes the first that answers (Happy Eyeballs, RFC 8305). TLS runs in memory:
bytes to send wait for those that follow, so that the end of a handshake and the request leave in
one write. Most requests have a connection of their own, so TLS sessions are kept: otherwise each
request would cost both sides a full handshake (RFC 8446 section 2.2)."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Sequence
from ipaddress import IPv6Address
from itertools import chain, zip_longest
from typing import Protocol

import trio
from attrs import Factory, define

from mmo_sansio.http.ip_rules import Address
from mmo_trio.http.streams import PlainStream, TransportStream

# Seconds from one attempt to the next address, while the first goes on (RFC 8305 section 5).
ATTEMPT_DELAY_S = 0.25

# Bytes of one read: a whole record (RFC 8446 section 5.2).
RECORD_BYTES_MAX = 17 * 1024

# How long a verified certificate is trusted; then the server has to show it again.
SESSION_LIFETIME_S = 300.0

# Servers that are cached; the one verified first is dropped first.
SESSIONS_MAX = 1_024


class SecuredStream(Protocol):
    """Is the client's end of a connection whose server has proved its name; the transport below is
    closed instead."""

    async def send_all_now(self, data: bytes) -> None:
        """Send all of it and begin at once. Raises BrokenResourceError when the server is gone."""

    async def receive_some(self, max_bytes: int) -> bytes:
        """Return the bytes that arrived, b"" at the end. Raises ssl.SSLError, or
        BrokenResourceError when the server is gone."""


class OutsideNetwork(Protocol):
    """Connects a client to the servers of others."""

    async def connect(self, address: Address, port: int) -> TransportStream:
        """Return a connection to this address. Raises OSError; never ends by itself while the
        address is silent."""

    async def start_tls(self, transport: TransportStream, host: str, port: int) -> SecuredStream:
        """Return once the server has proved that it is this host. Raises ssl.SSLError, or
        BrokenResourceError when it is gone."""

    def mark_answered(self, stream: SecuredStream, host: str, port: int) -> None:
        """Learn that a response has been read from a secured connection."""


async def connect(
    network: OutsideNetwork, addresses: Sequence[Address], port: int
) -> TransportStream:
    """Return a connection to one of these addresses, tried in turn with alternating families.

    Raises OSError when none answers, with the reason of the first. Never ends by itself when an
    address stays silent: the caller has the deadline."""
    # The usual case needs no tasks.
    if len(addresses) == 1:
        return await network.connect(addresses[0], port)

    connected: list[TransportStream] = []
    errors: list[OSError] = []

    async def attempt(address: Address, ended: trio.Event) -> None:
        try:
            stream = await network.connect(address, port)
        except OSError as error:
            errors.append(error)
            ended.set()
        else:
            connected.append(stream)
            # The first one wins; whoever is still connecting is cancelled, and closes what it has.
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            for address in interleave_families(addresses):
                # The next attempt begins when this one has failed, or after the delay.
                ended = trio.Event()
                nursery.start_soon(attempt, address, ended)
                with trio.move_on_after(ATTEMPT_DELAY_S):
                    await ended.wait()
    except BaseException:
        for stream in connected:
            stream.close()
        raise

    # Two may connect in the same turn of the loop.
    for stream in connected[1:]:
        stream.close()

    if not connected:
        # The first address is the best one, so its reason tells most.
        raise errors[0]

    return connected[0]


def interleave_families(addresses: Sequence[Address]) -> list[Address]:
    """Return the addresses in their order, but with alternating families, so that a broken family
    costs one delay."""
    first = [address for address in addresses if address.version == addresses[0].version]
    second = [address for address in addresses if address.version != addresses[0].version]
    return [address for address in chain(*zip_longest(first, second)) if address is not None]


class TlsStream:
    """Is the client's end of a connection under TLS; the owner of the connection closes it."""

    def __init__(self, tcp: TransportStream, context: ssl.SSLContext, host: str) -> None:
        """Begin TLS; `host` is the name or address that the server has to prove."""
        self._tcp = tcp
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def do_handshake(self) -> None:
        """Return once the server has proved itself; the last message to it waits for the first
        data. Raises ssl.SSLError, or BrokenResourceError when the server is gone."""
        while True:
            try:
                return self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._exchange_records()

    async def send_all_now(self, data: bytes) -> None:
        """Send all of it and begin at once. Raises BrokenResourceError when the server is gone."""
        while data:
            # Into memory: the records leave together, with what a handshake has left.
            data = data[self.tls.write(data) :]
        await self._flush()

    async def receive_some(self, max_bytes: int) -> bytes:
        """Return the bytes that arrived, b"" at the end; many servers end TCP without ending TLS
        first. Raises ssl.SSLError, or BrokenResourceError when the server is gone."""
        if not self._incoming.eof and not self.has_unread:
            # The library would find nothing, and say so by an error.
            await self._exchange_records()

        while True:
            try:
                return self.tls.read(max_bytes)
            except ssl.SSLWantReadError:
                await self._exchange_records()
            except ssl.SSLEOFError:
                return b""

    @property
    def has_unread(self) -> bool:
        """Tell whether more has arrived than was read."""
        return bool(self._incoming.pending or self.tls.pending())

    async def _exchange_records(self) -> None:
        await self._flush()
        data = await self._tcp.receive_some(RECORD_BYTES_MAX)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._tcp.send_all_now(self._outgoing.read())


@define(eq=False)
class SystemNetwork:
    """Connects by the system's sockets and secures by its TLS library."""

    _context: ssl.SSLContext
    _sessions: dict[tuple[str, int], tuple[ssl.SSLSession, float]] = Factory(dict)
    """By host and port of a server with a verified certificate: the session, and Trio's time when
    to verify the certificate again."""

    async def connect(self, address: Address, port: int) -> TransportStream:
        """Return a connection to this address. Raises OSError when it is refused."""
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        stream = PlainStream(connecting := socket.socket(family, socket.SOCK_STREAM))
        try:
            # Each request is one write and waits for its answer: Nagle's delay would only cost
            # time.
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = connecting.connect_ex(_socket_address(address, port))
            if code == errno.EINPROGRESS:
                await trio.lowlevel.wait_writable(connecting)
                # connect(2): the socket is writable once it is decided, and this says how.
                code = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

            if code:
                raise OSError(code, os.strerror(code))

            return stream
        except BaseException:
            stream.close()
            raise

    async def start_tls(self, transport: TransportStream, host: str, port: int) -> TlsStream:
        """Return the connection under TLS, with the certificate checked against the host's name,
        now or in the session that is resumed. Raises ssl.SSLError or BrokenResourceError."""
        stream = TlsStream(transport, self._context, host)
        session, expires_at = self._sessions.get((host, port), (None, 0.0))
        if session is not None and trio.current_time() < expires_at:
            stream.tls.session = session  # A server that cannot resume it makes a full handshake.

        try:
            await stream.do_handshake()
        except BaseException:
            self._sessions.pop((host, port), None)  # The next handshake is a full one.
            raise

        return stream

    def mark_answered(self, stream: SecuredStream, host: str, port: int) -> None:
        """Keep the session of a full handshake for any number of further connections, now that TLS
        1.3 has sent it."""
        if not isinstance(stream, TlsStream) or stream.tls.session_reused:
            return

        # TLS 1.2 may have a session without a ticket, which the server keeps or not.
        session = stream.tls.session
        if session is None or not session.has_ticket:
            return

        self._sessions.pop((host, port), None)
        self._sessions[host, port] = session, trio.current_time() + SESSION_LIFETIME_S
        if len(self._sessions) > SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]


def _socket_address(address: Address, port: int) -> tuple[object, ...]:
    """Return the system's form of an address; only the resolver reads a zone (RFC 4007)."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        (resolved, *_) = socket.getaddrinfo(str(address), port, flags=socket.AI_NUMERICHOST)
        return resolved[4]
    return str(address), port
