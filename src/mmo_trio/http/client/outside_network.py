"""Opens and secures the connections of a client: over the system's network with TLS, or over a simulated one."""

from __future__ import annotations

import ssl
from typing import Protocol

from attrs import Factory, define

from mmo_sansio.http.ip_rules import Address
from mmo_trio.http.client.connect import connect_system
from mmo_trio.http.client.tls import TlsStream
from mmo_trio.http.client.tls_sessions import TlsSessionCache
from mmo_trio.http.streams import TransportStream


class SecuredStream(Protocol):
    """Is the client's end of a connection whose server has proved its name; the transport below is closed instead."""

    async def send_all_now(self, data: bytes) -> None:
        """Send all of it and begin at once. Raises BrokenResourceError when the server is gone."""
        ...

    async def receive_some(self, max_bytes: int) -> bytes:
        """Return the bytes that arrived, b"" at the end. Raises ssl.SSLError, or BrokenResourceError when the server is
        gone."""
        ...


class OutsideNetwork(Protocol):
    """Connects a client to the servers of others."""

    async def connect(self, address: Address, port: int) -> TransportStream:
        """Return a connection to this address. Raises OSError; never ends by itself while the address is silent."""
        ...

    async def start_tls(self, transport: TransportStream, host: str, port: int) -> SecuredStream:
        """Return once the server has proved that it is this host. Raises ssl.SSLError, or BrokenResourceError when it
        is gone."""
        ...

    def mark_answered(self, stream: SecuredStream, host: str, port: int) -> None:
        """Learn that a response has been read from a secured connection."""
        ...


@define(eq=False)
class SystemNetwork:
    """Connects by the system's sockets and secures by its TLS library."""

    _context: ssl.SSLContext
    _session_cache: TlsSessionCache = Factory(TlsSessionCache)

    async def connect(self, address: Address, port: int) -> TransportStream:
        """Return a connection to this address. Raises OSError."""
        return await connect_system(address, port)

    async def start_tls(self, transport: TransportStream, host: str, port: int) -> TlsStream:
        """Return the connection under TLS, with the certificate checked against the host's name, now or in the session
        that is resumed. Raises ssl.SSLError or BrokenResourceError."""
        stream = TlsStream(transport, self._context, host)
        self._session_cache.resume(stream.tls, host, port)
        try:
            await stream.do_handshake()
        except BaseException:
            self._session_cache.discard(host, port)
            raise
        return stream

    def mark_answered(self, stream: SecuredStream, host: str, port: int) -> None:
        """Keep the session for the next connection, as TLS 1.3 sends it after the handshake."""
        if isinstance(stream, TlsStream):
            self._session_cache.store(stream.tls, host, port)
