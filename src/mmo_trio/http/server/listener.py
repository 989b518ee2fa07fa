"""Accepts the connections of one listener, serves each in its own task, and drains.

The listener survives a lack of descriptors, applies the limits on connections, and ends in one of
two ways: cancelled, it breaks all connections off; drained, it answers what it has begun."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import chain, islice
from typing import Final

import structlog
import trio
from attrs import field, frozen

from mmo_sansio.values.problems import UNAVAILABLE, Problem
from mmo_trio.http.responses import response_bytes
from mmo_trio.http.server.connection import ListenerContext
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


async def serve_http(
    context: ListenerContext,
    listeners: Sequence[ConnectionListener],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until the context's `drain` is set and the requests in flight are answered, or
    `limits.drain_timeout_s` is over.

    Owns the listeners: they are closed when accepting ends, so that another process with the same
    sockets gets all new connections."""
    async with trio.open_nursery() as timing:
        timing.start_soon(context.deadline_timer.run)
        # Three nurseries, as three things end one after the other: accepting, requests, the timer.
        async with trio.open_nursery() as serving:
            acceptor = _Acceptor(context, serving)
            async with trio.open_nursery() as accepting:
                for listener in listeners:
                    accepting.start_soon(acceptor.accept_from, listener)
                task_status.started()
                await context.drain.wait()
                accepting.cancel_scope.cancel()

            # Idle connections go now or after a grace; those in use have until the drain's own
            # deadline.
            now = trio.current_time()
            context.connection_table.close_idle_at(now + context.idle_grace_s())
            serving.cancel_scope.deadline = now + context.limits.drain_timeout_s

        timing.cancel_scope.cancel()


@frozen
class _Acceptor:
    listener_context: ListenerContext
    connection_nursery: trio.Nursery
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
                # They are connected, and their requests may have come: closing the socket would
                # reset them.
                for transport in accept_waiting(listener):
                    self._accept(transport)

    async def _accept_for_ever(self, listener: ConnectionListener) -> None:
        while True:
            try:
                transport = accepted_stream(await listener.accept())
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                # The connection stays in the kernel's queue; without a pause this loop would spin.
                await self._pause(errno.errorcode[error.errno])
                continue
            for stream in chain(
                [transport], islice(accept_waiting(listener), ACCEPTED_AT_ONCE_MAX)
            ):
                if self.listener_context.accept_rules.has_descriptor(stream.descriptor):
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
        listener = self.listener_context
        table, rules = listener.connection_table, listener.accept_rules

        # In the order of their cost: nothing is sent to whoever may not connect at all.
        if client is None:
            transport.close()
        elif not rules.permits_client(client):
            self._log_foreign_client()
            transport.close()
        elif self._has_waited_too_long(transport):
            self._reject(WAITED_TOO_LONG, transport, client)
        elif not (table.has_share_left(client) or rules.is_proxy(client)) or (
            table.is_full and not table.make_room()
        ):
            self._reject(TOO_MANY_CONNECTIONS, transport, client)
        else:
            connection = listener.open_connection(listener, transport, client)
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
