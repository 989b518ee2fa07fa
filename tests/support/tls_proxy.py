"""Offers TLS in front of servers that have none: of a PostgreSQL, as some builds can't, and of any
other."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio

BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)
SSL_REQUEST_BYTES = 8


@asynccontextmanager
async def tls_proxy(server_port: int, context: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Accept connections during the block and pass them to the server; yield the port. Without a
    context, answer as a server without TLS does."""
    async with _listening(partial(_serve_postgres, server_port, context)) as port:
        yield port


@asynccontextmanager
async def tls_terminator(server_port: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Accept TLS connections during the block and pass what they carry to the server in the clear;
    yield the port."""
    async with _listening(partial(_serve_tls, server_port, context)) as port:
        yield port


@asynccontextmanager
async def _listening(serve: Callable[[trio.SocketStream], Awaitable[object]]) -> AsyncIterator[int]:
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def _serve_postgres(
    server_port: int, context: ssl.SSLContext | None, client: trio.SocketStream
) -> None:
    """Serve one connection, whose first message asks for TLS."""
    try:
        await client.receive_some(SSL_REQUEST_BYTES)
        if context is None:
            await client.send_all(b"N")
            return
        await client.send_all(b"S")
    except BROKEN:
        return
    await _serve_tls(server_port, context, client)


async def _serve_tls(server_port: int, context: ssl.SSLContext, client: trio.SocketStream) -> None:
    """Pass one TLS connection to the server."""
    try:
        encrypted = trio.SSLStream(client, context, server_side=True, https_compatible=True)
        server = await trio.open_tcp_stream("127.0.0.1", server_port)
        async with server, trio.open_nursery() as nursery:
            nursery.start_soon(_pass, encrypted, server, nursery.cancel_scope)
            nursery.start_soon(_pass, server, encrypted, nursery.cancel_scope)
    except (*BROKEN, OSError):
        pass


async def _pass(source: trio.abc.Stream, sink: trio.abc.Stream, scope: trio.CancelScope) -> None:
    try:
        while data := await source.receive_some():
            await sink.send_all(data)
    except BROKEN:
        pass
    scope.cancel()
