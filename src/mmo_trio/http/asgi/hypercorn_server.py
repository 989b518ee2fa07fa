"""Serves an ASGI app under Hypercorn and adds what Hypercorn lacks: a deadline for every write, sends that always end,
and connections that fail alone."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, ConnectionState, Scope
from quart_trio import QuartTrio

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)


async def serve_app(
    app: QuartTrio,
    listener: trio.SocketListener,
    *,
    limits: ListenerLimits,
    drain: trio.Event,
    tls: Callable[[], ssl.SSLContext] | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP/1.1 and HTTP/2 on this listener until `drain` is set, and close the listener.

    Requests in flight may then take `limits.drain_timeout_s`. `tls` is called at every connection, so a renewed
    certificate needs no restart; its context should offer `h2` (ALPN). None serves in the clear."""
    config = _hypercorn_config(limits)
    deadlines = _WriteDeadlines(limits.write_timeout_s)
    wrapper = ASGIWrapper(_ShieldedSend(app, deadlines))
    lifespan = Lifespan(wrapper, config, {})
    context = WorkerContext(None)
    handle = partial(_serve_connection, wrapper, config, context, tls, deadlines)
    async with trio.open_nursery() as lifespan_nursery:
        await lifespan_nursery.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                serve = partial(trio.serve_listeners, handler_nursery=connections)
                accepting.start_soon(serve, handle, [listener])
                task_status.started()
                await drain.wait()
                accepting.cancel_scope.cancel()
            await context.terminated.set()
            end = trio.current_time() + limits.drain_timeout_s
            connections.cancel_scope.deadline = end
            deadlines.set_final_deadline(end)
        await lifespan.wait_for_shutdown()
        lifespan_nursery.cancel_scope.cancel()


def _hypercorn_config(limits: ListenerLimits) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = limits.head.head_bytes
    config.h2_max_header_list_size = limits.head.head_bytes
    config.keep_alive_timeout = limits.idle_timeout_s
    config.ssl_handshake_timeout = limits.handshake_timeout_s
    # It would also count while a request is answered, which may take long; everything else that a client may delay has
    # a deadline without it: the head is part of idling, the body is the app's.
    config.read_timeout = None
    return config


async def _serve_connection(
    app: ASGIWrapper,
    config: Config,
    context: WorkerContext,
    tls: Callable[[], ssl.SSLContext] | None,
    write_deadlines: _WriteDeadlines,
    accepted: trio.SocketStream,
) -> None:
    """Let Hypercorn serve one connection; whatever it raises ends this connection only."""
    transport = _DeadlineStream(accepted, write_deadlines)
    stream: Any = transport
    try:
        if tls is not None:
            stream = trio.SSLStream(transport, tls(), server_side=True, https_compatible=True)
        await TCPServer(app, config, context, ConnectionState({}), stream)
    except Exception as error:
        logger.error("connection_failed", fault=describe_fault(error))
    finally:
        accepted.socket.close()


class _WriteDeadlines:
    """Limits writes: each has its own time, and none lasts beyond the end of a drain. Writes are shielded from every
    other deadline."""

    def __init__(self, write_timeout_s: float) -> None:
        self._write_timeout_s = write_timeout_s
        self._final_deadline = math.inf
        self._active: set[trio.CancelScope] = set()

    @contextmanager
    def limit_write(self, *, shield: bool = False) -> Iterator[None]:
        """Bound the writes within; raises TooSlowError when their time is over."""
        deadline = min(trio.current_time() + self._write_timeout_s, self._final_deadline)
        scope = trio.CancelScope(deadline=deadline, shield=shield)
        self._active.add(scope)
        try:
            with scope:
                yield
        finally:
            self._active.discard(scope)
        if scope.cancelled_caught:
            raise trio.TooSlowError

    def set_final_deadline(self, deadline: float) -> None:
        """Cancel every write that lasts beyond this moment of Trio's time."""
        self._final_deadline = deadline
        for scope in self._active:
            scope.deadline = min(scope.deadline, deadline)


class _DeadlineStream(trio.abc.HalfCloseableStream):
    """Closes a connection when a write takes too long: Hypercorn shields its writes from every deadline but the
    stream's own."""

    def __init__(self, stream: trio.SocketStream, write_deadlines: _WriteDeadlines) -> None:
        self.socket = stream.socket
        self._stream = stream
        self._write_deadlines = write_deadlines

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            with self._write_deadlines.limit_write():
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


class _ShieldedSend:
    """Gives the app a `send` that always ends.

    Hypercorn announces the disconnect while it still sends the last piece of a body; Quart-Trio then cancels the task
    that is inside that very `send`, and the socket would never be closed. So nothing cancels a `send` but its own
    deadline, which takes effect when a client opens no HTTP/2 window."""

    def __init__(self, app: QuartTrio, write_deadlines: _WriteDeadlines) -> None:
        self._app: Any = app
        self._write_deadlines = write_deadlines

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        async def send_event(event: ASGISendEvent) -> None:
            with self._write_deadlines.limit_write(shield=True):
                await send(event)

        await self._app(scope, receive, send_event)
