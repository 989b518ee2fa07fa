"""Serves an ASGI app under Hypercorn, with what Hypercorn itself has no means for: a deadline for
every write, sends that always end, and connections that fail alone."""

from __future__ import annotations

import logging
import math
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio
from attrs import frozen
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    ConnectionState,
    Scope,
)
from quart_trio import QuartTrio

from mmo_trio.http.limits import ListenerLimits
from mmo_trio.system.fault_report import describe_fault

logger = logging.getLogger(__name__)


async def serve_app(
    app: QuartTrio,
    listener: trio.SocketListener,
    *,
    limits: ListenerLimits,
    drain: trio.Event,
    certificate: tuple[str, str] | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP/1.1 and HTTP/2 on this listener, ours from now on, until `drain` is set; requests
    in flight may then take `limits.drain_timeout_s`.

    `certificate` names the files of a chain and its key; None serves in the clear.
    """
    config = _config(limits, certificate)
    patience = _Patience(limits.write_timeout_s)
    wrapper = ASGIWrapper(_Punctual(app, patience))
    lifespan = Lifespan(wrapper, config, {})
    context = WorkerContext(None)
    house = _House(wrapper, config, context, config.create_ssl_context(), patience)
    async with trio.open_nursery() as living:
        await living.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(_accept, house, listener, connections)
                task_status.started()
                await drain.wait()
                accepting.cancel_scope.cancel()
            await context.terminated.set()
            end = trio.current_time() + limits.drain_timeout_s
            connections.cancel_scope.deadline = end
            patience.end_by(end)
        await lifespan.wait_for_shutdown()
        living.cancel_scope.cancel()


def _config(limits: ListenerLimits, certificate: tuple[str, str] | None) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = limits.head.head
    config.h2_max_header_list_size = limits.head.head
    config.keep_alive_timeout = limits.idle_timeout_s
    config.ssl_handshake_timeout = limits.handshake_timeout_s
    # It would also count while a request is answered, which may take long; everything else that a
    # client may delay has a deadline without it: the head is part of idling, the body is the app's.
    config.read_timeout = None
    if certificate is not None:
        config.certfile, config.keyfile = certificate
    return config


@frozen
class _House:
    """What all connections of one listener share."""

    app: ASGIWrapper
    config: Config
    context: WorkerContext
    tls: ssl.SSLContext | None
    patience: _Patience

    async def converse(self, accepted: trio.SocketStream) -> None:
        """Let Hypercorn hold one connection; whatever it raises ends this connection only."""
        transport = _PunctualStream(accepted, self.patience)
        stream: Any = transport
        if self.tls is not None:
            stream = trio.SSLStream(transport, self.tls, server_side=True, https_compatible=True)
        try:
            await TCPServer(self.app, self.config, self.context, ConnectionState({}), stream)
        except Exception as error:
            logger.error("a connection failed: %s", describe_fault(error))
        finally:
            accepted.socket.close()


class _Patience:
    """How long writes may take: each its own time, and none beyond the end of a drain. They are
    shielded from every other deadline, so somebody has to tell them."""

    def __init__(self, write_timeout_s: float) -> None:
        self._write_timeout_s = write_timeout_s
        self._end = math.inf
        self._under_way: set[trio.CancelScope] = set()

    @contextmanager
    def limit(self, *, shield: bool = False) -> Iterator[None]:
        """Bound what happens within; raises TooSlowError when its time is over."""
        deadline = min(trio.current_time() + self._write_timeout_s, self._end)
        scope = trio.CancelScope(deadline=deadline, shield=shield)
        self._under_way.add(scope)
        try:
            with scope:
                yield
        finally:
            self._under_way.discard(scope)
        if scope.cancelled_caught:
            raise trio.TooSlowError

    def end_by(self, moment: float) -> None:
        """From this moment of Trio's time on, nothing is written any more."""
        self._end = moment
        for scope in self._under_way:
            scope.deadline = min(scope.deadline, moment)


async def _accept(house: _House, listener: trio.SocketListener, connections: trio.Nursery) -> None:
    await trio.serve_listeners(house.converse, [listener], handler_nursery=connections)


class _PunctualStream(trio.abc.HalfCloseableStream):
    """A connection that ends when a write takes longer than it may: Hypercorn shields its writes
    from every deadline but the stream's own."""

    def __init__(self, stream: trio.SocketStream, patience: _Patience) -> None:
        self.socket = stream.socket
        self._stream = stream
        self._patience = patience

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            with self._patience.limit():
                await self._stream.send_all(data)
        except trio.TooSlowError as error:
            self.socket.close()
            raise trio.BrokenResourceError("the client did not read in time") from error

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Punctual:
    """The app with a `send` that always ends.

    Hypercorn announces the disconnect while it still sends the last piece of a body; Quart-Trio
    then cancels the task that is inside that very `send`, and the socket would never be closed. So
    nothing cancels a `send` but its own deadline, which a client that opens no HTTP/2 window meets.
    """

    def __init__(self, app: QuartTrio, patience: _Patience) -> None:
        self._app: Any = app
        self._patience = patience

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        async def send_whole(event: ASGISendEvent) -> None:
            with self._patience.limit(shield=True):
                await send(event)

        await self._app(scope, receive, send_whole)
