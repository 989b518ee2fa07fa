"""Serves one connection from its first byte to its last: one request at a time, in order.

There is one cancel scope and one deadline for the whole connection, which moves on from phase to phase:

    handshake ─▶ idle ─▶ head ─▶ (admit) ─▶ body ─▶ (respond) ─▶ write ─▶ idle … ─▶ linger

What happens when a deadline passes depends on the phase alone: late heads and bodies are answered 408, every other
connection is closed. There is no deadline while the handler works; it limits its own time. A request costs no task, no
channel and no scope of its own."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import structlog
import trio
from attrs import Factory, field, frozen

from mmo_sansio.http.ip_rules import subscriber_network
from mmo_sansio.http.messages import Headers, HttpResponse
from mmo_sansio.values.problems import Problem
from mmo_trio.http.handler import Admitted, AdmittedStream, RequestContext
from mmo_trio.http.rejections import BODY_TIMEOUT, HEAD_TIMEOUT, HandlerContext
from mmo_trio.http.responses import CONTINUE_RESPONSE, response_bytes
from mmo_trio.http.server.connection_table import ConnectionTable
from mmo_trio.http.server.deadline_timer import DeadlineTimer
from mmo_trio.http.server.request_reader import ParsedHead, RequestReader
from mmo_trio.http.server.response_writer import PieceWriter
from mmo_trio.http.server.write_budget import SMALL_RESPONSE_BYTES, WriteBudget
from mmo_trio.http.streams import SendBuffer, TransportStream
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

LARGE_BODY_BYTES: Final = 64 * 1024
"""A larger body is sent as it is, neither copied behind its head nor encrypted in one piece; one that is received
counts against the budget while it is incomplete."""


@frozen
class ListenerContext(HandlerContext):
    """Holds what all connections of one listener share."""

    connection_table: ConnectionTable
    deadline_timer: DeadlineTimer
    drain: trio.Event
    """Once it is set, the next response on a connection is its last."""
    tls: Callable[[], ssl.SSLContext] | None
    """Gives the context of one connection; None for clear HTTP."""
    extra_fields: Headers = ()
    """Fields that every response has besides its own."""
    clock: trio.abc.Clock = Factory(trio.lowlevel.current_clock)
    """Trio's clock, which `trio.current_time` asks through two more calls."""
    write_budget: WriteBudget = field(
        default=Factory(lambda self: WriteBudget(self.limits.write_buffer_bytes), takes_self=True)
    )

    def request_context(self, client: str) -> RequestContext:
        """Return the context of a request that begins now."""
        return RequestContext(self.mint_request_id(), client, self.tls is not None)


class _ClientDisconnected(Exception):
    """The client closed or broke the connection in the middle of its own request."""


class ServerConnection:
    """Serves one open connection, which its acceptor has added to the connection table."""

    def __init__(self, listener_context: ListenerContext, transport: TransportStream, client: str) -> None:
        self.client = client
        self.idle_since = math.inf
        self.waiting_since = listener_context.clock.current_time()
        self._listener_context = listener_context
        self._limits = listener_context.limits
        self._clock = listener_context.clock
        self._transport = transport
        self._stream: trio.abc.Stream = transport
        self._reader = RequestReader(listener_context.limits.head)
        self._cancel_scope = trio.CancelScope()
        self._deadline = listener_context.deadline_timer.new_deadline(self._expire)
        self._timeout_problem: Problem | None = None
        self._request_context = RequestContext("", client, listener_context.tls is not None)
        self._started_at = 0.0
        self._extra_fields = b"".join(b"%s: %s\r\n" % each for each in listener_context.extra_fields)

    def close_at(self, deadline: float) -> None:
        """Close an idle connection at this moment of Trio's time."""
        self._deadline.move(min(self._deadline.at, deadline))

    def break_off(self) -> None:
        """Close without a word."""
        self._timeout_problem = None
        self._cancel_scope.cancel()

    def _expire(self) -> None:
        """Act on the deadline, which has passed."""
        self._cancel_scope.cancel()

    async def run(self) -> None:
        """Serve the connection to its end and close it; raises nothing but cancellation."""
        try:
            with self._cancel_scope:
                await self._serve()
            if self._cancel_scope.cancelled_caught and self._timeout_problem is not None:
                await self._send_timeout_problem(self._timeout_problem)
        except (_ClientDisconnected, trio.BrokenResourceError, ssl.SSLError):
            pass  # The connection is lost: no response can reach the client.
        except Exception as error:
            logger.error("connection_failed", fault=describe_fault(error))
        finally:
            self._deadline.close()
            self._transport.close()
            self._listener_context.connection_table.remove(self)

    async def _serve(self) -> None:
        if self._listener_context.tls is not None:
            self._set_deadline(self._limits.handshake_timeout_s)
            self._stream = tls = trio.SSLStream(self._transport, self._listener_context.tls(), server_side=True)
            await tls.do_handshake()
        await self._serve_requests()
        self._set_deadline(self._limits.linger_timeout_s)
        await self._stream.aclose()

    async def _serve_requests(self) -> None:
        while await self._wait_for_request():
            if not await self._handle_request():
                break

    async def _wait_for_request(self) -> bool:
        """Wait for the next request; False when the client is done, or this listener is."""
        if not self._reader.is_empty:
            await trio.lowlevel.checkpoint()  # A client that pipelines must not starve others.
            return True
        now = self._clock.current_time()
        if self._listener_context.drain.is_set() and now >= self._listener_context.connection_table.idle_deadline:
            return False
        self._begin_idling(now)
        data = await self._stream.receive_some()
        self.idle_since = math.inf
        self._reader.receive(data)
        return bool(data)

    def _begin_idling(self, now: float) -> None:
        table = self._listener_context.connection_table
        self.idle_since = self.waiting_since = now
        self._deadline.move(min(now + table.idle_timeout_s, table.idle_deadline))

    async def _handle_request(self) -> bool:
        """Read one request and answer it; return whether another one may follow."""
        self._request_context = context = self._listener_context.request_context(self.client)
        self._started_at = self._clock.current_time()
        parsed_head: ParsedHead | None = None
        try:
            parsed_head = self._reader.next_head() or await self._receive_head()
            self.waiting_since = math.inf
            if self._deadline.has_passed or self._listener_context.drain.is_set():
                await trio.lowlevel.checkpoint_if_cancelled()  # It arrived too late.
            self._clear_deadline()
            admitted = await self._listener_context.handler.admit(parsed_head.head, context)
            if isinstance(admitted, (Admitted, AdmittedStream)):
                body = self._reader.next_body(admitted.body_limit)
                if body is None:
                    body = await self._receive_body(parsed_head, admitted.body_limit)
                if isinstance(admitted, AdmittedStream):
                    return await self._stream_response(parsed_head, admitted, body)
                response, is_read = await admitted.respond(body), True
            else:
                response, is_read = admitted, self._reader.skip_body()
            if isinstance(response, Problem):
                response = self._listener_context.reject(response, context)
            may_follow = is_read and parsed_head.keep_alive and not self._listener_context.drain.is_set()
            data = self._response_bytes(response, parsed_head, may_follow)
        except _ClientDisconnected:
            raise
        except Exception as error:
            response = self._listener_context.error_response(error, context)
            may_follow = False
            data = self._response_bytes(response, parsed_head, may_follow)
        self._timeout_problem = None
        duration_s = self._clock.current_time() - self._started_at
        self._listener_context.metrics.count_response(context, response.status, duration_s)
        large_body = b"" if len(response.body) <= LARGE_BODY_BYTES or _is_head_request(parsed_head) else response.body
        data = self._send_at_once(data)
        if data or large_body:
            await self._send_rest(data, large_body)
        return may_follow

    def _send_at_once(self, data: SendBuffer) -> SendBuffer:
        """Send as much as the socket takes at once, which is nothing over TLS, and return the remainder."""
        return self._transport.try_send(data) if self._stream is self._transport else data

    async def _send_rest(self, data: bytes, large_body: bytes) -> None:
        """Send what the socket has not taken at once: it has a deadline, and counts against the budget unless it is
        small."""
        rest: bytes | memoryview = large_body
        if rest and not data:
            rest = self._send_at_once(memoryview(large_body))
            if not rest:
                return
        self._set_deadline(self._limits.write_timeout_s)
        size_bytes = len(data) + len(large_body)
        if size_bytes <= SMALL_RESPONSE_BYTES:
            await self._stream.send_all(data)
            return
        network = subscriber_network(self.client)
        with self._listener_context.write_budget.hold(size_bytes, network, self._cancel_scope.cancel):
            await self._stream.send_all(data)
            for start in range(0, len(rest), LARGE_BODY_BYTES):
                await self._stream.send_all(memoryview(rest)[start : start + LARGE_BODY_BYTES])

    async def _stream_response(self, parsed_head: ParsedHead, admitted: AdmittedStream, body: bytes) -> bool:
        """Let the handler write its response in pieces; return whether another request may follow it."""

        def connection(may_follow: bool) -> bytes:
            may_follow = may_follow and parsed_head.keep_alive and not self._listener_context.drain.is_set()
            return _connection_field(parsed_head, may_follow)

        writer = PieceWriter(
            self._send_piece,
            self._stream.receive_some,
            self._request_context.request_id,
            connection,
            self._extra_fields,
            parsed_head.head.method == "HEAD",
            parsed_head.version == b"1.0",
        )
        try:
            await admitted.respond(body, writer)
        except Exception as error:
            if writer.status is None:
                raise
            if not writer.is_lost:
                logger.error("connection_failed", fault=describe_fault(error))
            return False
        finally:
            if writer.status is not None:
                duration_s = self._clock.current_time() - self._started_at
                self._listener_context.metrics.count_response(self._request_context, writer.status, duration_s)
        return writer.is_complete and connection(True) != b"close"

    async def _send_piece(self, head: bytes, piece: bytes, is_stream: bool) -> None:
        """Send a piece of a response. Each piece of a stream has a deadline of its own; other responses have one."""
        deadline = self._deadline.at
        is_large = len(piece) > LARGE_BODY_BYTES
        rest = self._send_at_once(head if is_large else head + piece)
        if rest or is_large:
            await self._send_rest(rest, piece if is_large else b"")
        self._deadline.move(math.inf if is_stream else min(deadline, self._deadline.at))

    async def _receive_head(self) -> ParsedHead:
        """Return the head once the rest of it has arrived."""
        self._timeout_problem = HEAD_TIMEOUT
        self.waiting_since = min(self.waiting_since, self._started_at)
        self._set_deadline(self._limits.head_timeout_s)
        while True:
            await self._receive_data()
            parsed_head = self._reader.next_head()
            if parsed_head is not None:
                return parsed_head

    async def _receive_body(self, parsed_head: ParsedHead, limit: int) -> bytes:
        """Return the body once the rest of it has arrived."""
        self._timeout_problem = BODY_TIMEOUT
        self._set_deadline(self._limits.body_timeout_s)
        if parsed_head.expects_continue and self._reader.is_empty:
            await self._send_continue()
        body = await self._receive_rest(limit)
        await trio.lowlevel.checkpoint_if_cancelled()
        self._clear_deadline()
        return body

    async def _receive_rest(self, limit: int) -> bytes:
        """Receive until the body is complete, and return it; a large one counts against the budget meanwhile."""
        with ExitStack() as held:
            is_held = False
            while True:
                await self._receive_data()
                body = self._reader.next_body(limit)
                if body is not None:
                    return body
                if self._reader.body_bytes > LARGE_BODY_BYTES and not is_held:
                    is_held = True
                    network = subscriber_network(self.client)
                    budget = self._listener_context.write_budget
                    held.enter_context(budget.hold(limit, network, self._cancel_scope.cancel))

    async def _send_continue(self) -> None:
        try:
            await self._stream.send_all(CONTINUE_RESPONSE)
        except trio.BrokenResourceError as error:
            raise _ClientDisconnected from error

    async def _receive_data(self) -> None:
        try:
            data = await self._stream.receive_some()
        except trio.BrokenResourceError as error:
            raise _ClientDisconnected from error
        if not data:
            raise _ClientDisconnected
        self._reader.receive(data)

    async def _send_timeout_problem(self, problem: Problem) -> None:
        context = self._request_context
        response = self._listener_context.reject(problem, context)
        duration_s = self._clock.current_time() - self._started_at
        self._listener_context.metrics.count_response(context, problem.status, duration_s)
        with trio.move_on_after(self._limits.linger_timeout_s):
            await self._stream.send_all(self._response_bytes(response, None, keep_alive=False))
            await self._stream.aclose()

    def _response_bytes(self, response: HttpResponse, parsed_head: ParsedHead | None, keep_alive: bool) -> bytes:
        return response_bytes(
            response,
            request_id=self._request_context.request_id,
            connection=_connection_field(parsed_head, keep_alive),
            extra=self._extra_fields,
            without_body=len(response.body) > LARGE_BODY_BYTES or _is_head_request(parsed_head),
        )

    def _set_deadline(self, timeout_s: float) -> None:
        self._deadline.move(self._clock.current_time() + timeout_s)

    def _clear_deadline(self) -> None:
        """Let the handler work without a deadline. Before that a request that arrived too late is stopped, so that the
        handler never begins what would be cancelled at once."""
        self._timeout_problem = None
        self._deadline.move(math.inf)


def _is_head_request(parsed_head: ParsedHead | None) -> bool:
    return parsed_head is not None and parsed_head.head.method == "HEAD"


def _connection_field(parsed_head: ParsedHead | None, keep_alive: bool) -> bytes:
    """Return the value of `Connection`; empty where the version of HTTP implies it (RFC 9112 section 9.3)."""
    if not keep_alive:
        return b"close"
    return b"keep-alive" if parsed_head is not None and parsed_head.version == b"1.0" else b""
