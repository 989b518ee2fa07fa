"""Serves an ASGI app under Hypercorn and adds what Hypercorn lacks: limits of connections, of frames that only make
work and of bytes that nobody reads, a deadline for every write, sends that always end, and connections that fail
alone."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import h11
import structlog
import trio
from attrs import define, frozen
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, ConnectionState, Scope
from quart_trio import QuartTrio

from mmo_sansio.http.http2_frames import FrameCounter
from mmo_sansio.http.ip_rules import subscriber_network
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.server.connection_table import ConnectionTable
from mmo_trio.http.server.write_budget import SMALL_RESPONSE_BYTES, WriteBudget
from mmo_trio.http.streams import unmap_ipv4
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

STREAMS_MAX: Final = 8
"""Requests that one HTTP/2 connection may have open; the client waits with further ones."""
COPIES: Final = 2
"""Times that a body is in memory while it waits: the app's, and Hypercorn's."""
CONNECTION_SHARE: Final = 4
"""One connection may hold one part in so many of the bytes that wait to be read."""


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
    context = WorkerContext(None)
    deadlines = _WriteDeadlines(limits.write_timeout_s)
    lifespan = Lifespan(ASGIWrapper(app), config, {})
    server = _Server(
        app, config, context, tls, deadlines, ConnectionTable(limits), WriteBudget(limits.write_buffer_bytes)
    )
    async with trio.open_nursery() as lifespan_nursery:
        await lifespan_nursery.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                serve = partial(trio.serve_listeners, handler_nursery=connections)
                accepting.start_soon(serve, server.serve_connection, [listener])
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
    config.h2_max_concurrent_streams = STREAMS_MAX
    config.keep_alive_timeout = limits.idle_timeout_s
    config.ssl_handshake_timeout = limits.handshake_timeout_s
    # It would also count while a request is answered, which may take long; everything else that a client may delay has
    # a deadline without it: the head is part of idling, the body is the app's.
    config.read_timeout = None
    return config


@define(eq=False)
class _CountedConnection:
    """Is a connection in the table; Hypercorn itself closes idle ones."""

    client: str
    idle_since: float = math.inf
    waiting_since: float = math.inf

    def close_at(self, deadline: float) -> None:
        """Do nothing: it is never known as idle."""

    def break_off(self) -> None:
        """Do nothing: it is never known as waiting."""


@frozen
class _Server:
    """Holds what all connections of the listener share."""

    app: QuartTrio
    config: Config
    context: WorkerContext
    tls: Callable[[], ssl.SSLContext] | None
    write_deadlines: _WriteDeadlines
    connection_table: ConnectionTable
    write_budget: WriteBudget

    async def serve_connection(self, accepted: trio.SocketStream) -> None:
        """Let Hypercorn serve one connection, if there is room; whatever it raises ends this connection only."""
        counted: _CountedConnection | None = None
        try:
            peer = accepted.socket.getpeername()
            client = unmap_ipv4(str(peer[0])) if isinstance(peer, tuple) else ""
            if self.connection_table.has_room_for(client):
                counted = _CountedConnection(client)
                self.connection_table.add(counted)
                await self._run(accepted, client)
        except OSError:
            pass  # The client has gone already.
        except Exception as error:
            logger.error("connection_failed", fault=describe_fault(error))
        finally:
            accepted.socket.close()
            if counted is not None:
                self.connection_table.remove(counted)

    async def _run(self, accepted: trio.SocketStream, client: str) -> None:
        transport = _DeadlineStream(accepted, self.write_deadlines)
        stream: Any = transport
        if self.tls is not None:
            stream = trio.SSLStream(transport, self.tls(), server_side=True, https_compatible=True)
        send = _BoundedSend(
            self.app, self.write_deadlines, self.write_budget, subscriber_network(client), accepted.socket.close
        )
        counting: Any = _CountingStream(stream)
        connection = _HypercornConnection(ASGIWrapper(send), self.config, self.context, ConnectionState({}), counting)
        connection.on_end = send.break_off
        await connection


class _HypercornConnection(TCPServer):
    """Ends with its client: Hypercorn would keep the socket open for the rest of the idle timeout."""

    has_ended = False
    on_end: Callable[[], None]
    """Called when the client is gone, to end what is still sent to it."""

    async def _read_data(self) -> None:
        if isinstance(self.protocol.protocol, H11Protocol):
            connection: Any = _ConnectionWithoutUpgrade(self.protocol.protocol.connection)
            self.protocol.protocol.connection = connection
        await super()._read_data()
        self.has_ended = True
        self.on_end()
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """Send the event to the client; nothing is idle any more once the client is gone."""
        if not (self.has_ended and isinstance(event, Updated)):
            await super().protocol_send(event)


class _ConnectionWithoutUpgrade:
    """Hides offers of HTTP/2 in clear text from Hypercorn, which would accept them; is the connection of h11 in
    everything else. A proxy that passes an offer on would let the rest of the connection pass unread."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def next_event(self) -> Any:
        """Return the next event of h11."""
        event = self._connection.next_event()
        if not isinstance(event, h11.Request) or b"upgrade" not in dict(event.headers):
            return event
        kept = [each for each in event.headers if each[0] != b"upgrade" or each[1].lower() == b"websocket"]
        return h11.Request(method=event.method, target=event.target, headers=kept, http_version=event.http_version)


class _CountingStream:
    """Ends the connection of a client that sends too many frames which only make work; passes on everything else.

    Hypercorn tells TLS from clear HTTP by the methods of its stream, so all others are those of the stream within."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._frames = FrameCounter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what the client has sent; nothing, as if it had closed, once it has sent too many such frames."""
        data = bytes(await self._stream.receive_some(max_bytes))
        return data if self._frames.receive(data, now=trio.current_time()) else b""


class _WriteDeadlines:
    """Limits writes: each has its own time, and none lasts beyond the end of a drain. Writes are shielded from every
    other deadline."""

    def __init__(self, write_timeout_s: float) -> None:
        self._write_timeout_s = write_timeout_s
        self._final_deadline = math.inf
        self._active: set[trio.CancelScope] = set()

    @contextmanager
    def limit_write(self, *, shield: bool = False) -> Iterator[trio.CancelScope]:
        """Bound the writes within; raises TooSlowError when their time is over, or the scope was cancelled."""
        deadline = min(trio.current_time() + self._write_timeout_s, self._final_deadline)
        scope = trio.CancelScope(deadline=deadline, shield=shield)
        self._active.add(scope)
        try:
            with scope:
                yield scope
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


class _BoundedSend:
    """Gives the app a `send` that always ends, and that no client can make hold too many bytes.

    Hypercorn announces the disconnect while it still sends the last piece of a body; Quart-Trio then cancels the task
    that is inside that very `send`, and the socket would never be closed. So nothing cancels a `send` but its own
    deadline, which takes effect when a client opens no HTTP/2 window. Hypercorn keeps all of a body until the client
    has opened its window, so each large piece is counted until the response has ended."""

    def __init__(
        self,
        app: QuartTrio,
        write_deadlines: _WriteDeadlines,
        budget: WriteBudget,
        network: str,
        close: Callable[[], None],
    ) -> None:
        self._app: Any = app
        self._write_deadlines = write_deadlines
        self._budget = budget
        self._network = network
        self._close = close
        self._waiting_bytes = 0
        self._writes: set[trio.CancelScope] = set()

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        with ExitStack() as held:

            async def send_event(event: ASGISendEvent) -> None:
                with self._write_deadlines.limit_write(shield=True) as write:
                    self._writes.add(write)
                    try:
                        if event["type"] == "http.response.body" and len(event["body"]) > SMALL_RESPONSE_BYTES:
                            held.enter_context(self._hold(COPIES * len(event["body"])))
                        await send(event)
                    finally:
                        self._writes.discard(write)

            await self._app(scope, receive, send_event)

    def break_off(self) -> None:
        """Close the connection, and end the sends that Hypercorn would let wait for its windows."""
        self._close()
        for write in self._writes:
            write.cancel()

    @contextmanager
    def _hold(self, size_bytes: int) -> Iterator[None]:
        """Count a piece until the response has ended. The connection is closed when it holds more than its share,
        unless this is all that it holds, or when the budget of the listener is used up."""
        is_too_much = self._waiting_bytes + size_bytes > self._budget.limit_bytes // CONNECTION_SHARE
        if self._waiting_bytes and is_too_much:
            self.break_off()
        self._waiting_bytes += size_bytes
        try:
            with self._budget.hold(size_bytes, self._network, self.break_off):
                yield
        finally:
            self._waiting_bytes -= size_bytes
