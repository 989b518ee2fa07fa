"""Accepts the connections of one listener, serves each in its own task, and drains.

The listener survives a lack of descriptors, applies the limits on connections, and ends in one of
two ways: cancelled, it breaks all connections off; drained, it answers what it has begun."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from itertools import chain, islice
from typing import Final, TypeAlias

import structlog
import trio
from attrs import field, frozen

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import Headers
from mmo_sansio.values.problems import UNAVAILABLE, Problem
from mmo_trio.http.handler import Handler
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.http.responses import response_bytes
from mmo_trio.http.server.connection import ListenerContext, ServerConnection
from mmo_trio.http.streams import (
    ConnectionListener,
    TransportStream,
    accept_waiting,
    accepted_stream,
)
from mmo_trio.system.logs import LogRateLimit

logger = structlog.get_logger(__name__)

# Errors of accept() that pass when something is closed; every other one is an internal error.
OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

# Further connections that are accepted in one turn of the loop: with one for each turn, the last of
# a crowd would wait for as many turns, in which the others are served already.
ACCEPTED_AT_ONCE_MAX: Final = 64

# How long accepting pauses then; the waiting connections stay in the kernel's queue.
ACCEPT_PAUSE_S: Final = 0.1

# 503 responses that are sent concurrently; further connections are closed without a response.
REJECTIONS_MAX: Final = 64

# Log lines about pauses in accepting.
PAUSE_LINES_PER_SECOND: Final = 1.0

# Log lines about clients that may not connect.
FOREIGN_CLIENT_LINES_PER_SECOND: Final = 1 / 60

TOO_MANY_CONNECTIONS: Final = UNAVAILABLE.problem(
    "Too many connections are open; send the request again soon."
)
WAITED_TOO_LONG: Final = UNAVAILABLE.problem(
    "The connection has waited too long to be accepted; send the request again."
)

# Returns what serves a connection from this client, which is not in the connection table yet.
OpenConnection: TypeAlias = Callable[[ListenerContext, TransportStream, str], ServerConnection]


@frozen
class AcceptRules:
    """Says whose connections a listener takes, and while how many descriptors are open."""

    is_proxy: Callable[[str], bool] = lambda _: False
    """Tells whether an address is that of a trusted proxy, whose connections are limited only in
    all."""
    only_from_proxies: bool = False
    """Whether only this machine and trusted proxies may connect: over clear HTTP nobody else can
    keep a secret."""
    descriptors_max: int | None = None
    """The number of open descriptors from which no connection is accepted; None where only the
    system limits them."""

    def permits_client(self, client: str) -> bool:
        """Return whether a client with this address may connect; the empty one is that of a Unix
        socket."""
        if not self.only_from_proxies or not client or self.is_proxy(client):
            return True
        return ip_address(client).is_loopback

    def has_descriptor(self, descriptor: int) -> bool:
        """Return whether a connection with this descriptor leaves enough for others.

        The system gives out the lowest free number, so all lower ones are in use."""
        return self.descriptors_max is None or descriptor < self.descriptors_max


async def serve_http(
    handler: Handler,
    listeners: Sequence[ConnectionListener],
    *,
    limits: ListenerLimits,
    error_docs_url: str,
    mint_request_id: Callable[[], str],
    drain: trio.Event,
    idle_grace_s: Callable[[], float] = lambda: 0.0,
    tls: Callable[[], ssl.SSLContext] | None = None,
    accept_rules: AcceptRules | None = None,
    extra_fields: Headers = (),
    metrics: HttpMetrics | None = None,
    open_connection: OpenConnection = ServerConnection,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `drain` is set and the requests in flight are answered, or
    `limits.drain_timeout_s` is over.

    Owns the listeners: they are closed when accepting ends, so that another process with the same
    sockets gets all new connections. `tls` is called at every connection, so a renewed certificate
    needs no restart; None serves in the clear. `mint_request_id` gives each request its id.
    `idle_grace_s` is called when the drain begins: idle connections stay open for so long, because
    a client that sends just then would find its connection closed. Their next response is their
    last in any case. `extra_fields` are in every response. `metrics` counts requests and logs
    rejections; with None only internal errors are logged. `open_connection` chooses the version of
    HTTP."""
    context = ListenerContext(
        handler,
        limits,
        error_docs_url,
        mint_request_id,
        metrics or HttpMetrics(log_rejections=False),
        drain,
        tls,
        extra_fields,
    )
    async with trio.open_nursery() as timing:
        timing.start_soon(context.deadline_timer.run)
        async with trio.open_nursery() as serving:
            acceptor = _Acceptor(context, open_connection, serving, accept_rules or AcceptRules())
            async with trio.open_nursery() as accepting:
                for listener in listeners:
                    accepting.start_soon(acceptor.accept_from, listener)
                task_status.started()
                await drain.wait()
                accepting.cancel_scope.cancel()

            now = trio.current_time()
            context.connection_table.close_idle_at(now + idle_grace_s())
            serving.cancel_scope.deadline = now + limits.drain_timeout_s

        timing.cancel_scope.cancel()


@frozen
class _Acceptor:
    listener_context: ListenerContext
    open_connection: OpenConnection
    connection_nursery: trio.Nursery
    rules: AcceptRules
    rejections: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(REJECTIONS_MAX))
    pause_log: LogRateLimit = field(factory=lambda: LogRateLimit(PAUSE_LINES_PER_SECOND, 1))
    foreign_client_log: LogRateLimit = field(
        factory=lambda: LogRateLimit(FOREIGN_CLIENT_LINES_PER_SECOND, 1)
    )

    async def accept_from(self, listener: ConnectionListener) -> None:
        """Accept until cancelled, then close the listener; a lack of descriptors only pauses
        accepting."""
        async with listener:
            try:
                await self._accept_for_ever(listener)
            finally:
                for transport in accept_waiting(listener):
                    self._accept(transport)

    async def _accept_for_ever(self, listener: ConnectionListener) -> None:
        while True:
            try:
                transport = accepted_stream(await listener.accept())
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                await self._pause(errno.errorcode[error.errno])
                continue
            for stream in chain(
                [transport], islice(accept_waiting(listener), ACCEPTED_AT_ONCE_MAX)
            ):
                if self.rules.has_descriptor(stream.descriptor):
                    self._accept(stream)
                else:
                    stream.close()
                    await self._pause("reserve")
                    break

    async def _pause(self, cause: str) -> None:
        if self.pause_log.acquire(trio.current_time()) is not None:
            logger.warning("accept_paused", error=cause)
        self.listener_context.connection_table.shorten_idle_timeout()
        await trio.sleep(ACCEPT_PAUSE_S)

    def _accept(self, transport: TransportStream) -> None:
        client = transport.peer_address()
        table = self.listener_context.connection_table
        if client is None:
            transport.close()
        elif not self.rules.permits_client(client):
            self._log_foreign_client()
            transport.close()
        elif self._has_waited_too_long(transport):
            self._reject(WAITED_TOO_LONG, transport, client)
        elif not (table.has_share_left(client) or self.rules.is_proxy(client)) or (
            table.is_full and not table.make_room()
        ):
            self._reject(TOO_MANY_CONNECTIONS, transport, client)
        else:
            connection = self.open_connection(self.listener_context, transport, client)
            table.add(connection)
            self.connection_nursery.start_soon(connection.run)

    def _has_waited_too_long(self, transport: TransportStream) -> bool:
        """Return whether the client may have sent its request so long ago that it has given it up.
        One that waits for a handshake has not sent it yet."""
        context = self.listener_context
        return (
            context.tls is None
            and transport.seconds_since_arrival() > context.limits.accept_timeout_s
        )

    def _log_foreign_client(self) -> None:
        suppressed = self.foreign_client_log.acquire(trio.current_time())
        if suppressed is not None:
            logger.warning("foreign_client_refused", suppressed=suppressed)

    def _reject(self, problem: Problem, transport: TransportStream, client: str) -> None:
        """Send a 503, or only close the connection where that takes a handshake, or while many are
        being sent."""
        if self.listener_context.tls is None and self.rejections.available_tokens:
            self.rejections.acquire_on_behalf_of_nowait(transport)
            self.connection_nursery.start_soon(self._send_rejection, problem, transport, client)
        else:
            transport.close()

    async def _send_rejection(
        self, problem: Problem, transport: TransportStream, client: str
    ) -> None:
        """Send a 503; the request is not read, so nothing of it was stored (P5)."""
        context = self.listener_context.request_context(client)
        response = self.listener_context.reject(problem, context)
        self.listener_context.metrics.count_response(context, response.status, 0.0)
        data = response_bytes(response, request_id=context.request_id, connection=b"close")
        try:
            with trio.move_on_after(self.listener_context.limits.linger_timeout_s):
                await transport.send_all(data)
                await transport.aclose()
        except trio.BrokenResourceError:
            pass
        finally:
            transport.close()
            self.rejections.release_on_behalf_of(transport)
