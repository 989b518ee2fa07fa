"""Runs TLS to other servers on the system's TLS library. Bytes to send wait for those that follow, so that the end of a
handshake and the request leave in one write."""

from __future__ import annotations

import ssl

from mmo_trio.http.streams import TransportStream

RECORD_BYTES_MAX = 17 * 1024
"""Bytes of one read: a whole record (RFC 8446 section 5.2)."""


class TlsStream:
    """Is the client's end of a connection under TLS; the owner of the connection closes it."""

    def __init__(self, tcp: TransportStream, context: ssl.SSLContext, host: str) -> None:
        """Begin TLS; `host` is the name or address that the server has to prove."""
        self._tcp = tcp
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def do_handshake(self) -> None:
        """Return once the server has proved itself; the last message to it waits for the first data. Raises
        ssl.SSLError, or BrokenResourceError when the server is gone."""
        while True:
            try:
                return self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._exchange_records()

    async def send_all_now(self, data: bytes) -> None:
        """Send all of it and begin at once. Raises BrokenResourceError when the server is gone."""
        while data:
            data = data[self.tls.write(data) :]
        await self._flush()

    async def receive_some(self, max_bytes: int) -> bytes:
        """Return the bytes that arrived, b"" at the end; many servers end TCP without ending TLS first. Raises
        ssl.SSLError, or BrokenResourceError when the server is gone."""
        if not self._incoming.eof and not self.has_unread:
            await self._exchange_records()  # The library would find nothing, and say so by an error.
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
