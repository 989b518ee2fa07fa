"""Serves one connection from its first byte to its last: one request at a time, in order.

There is one cancel scope and one deadline for the whole connection, which moves on from phase to
phase:

    handshake ─▶ idle ─▶ head ─▶ (admit) ─▶ body ─▶ (respond) ─▶ write ─▶ idle … ─▶ linger

What happens when a deadline passes depends on the phase alone: late heads and bodies are answered
408, every other connection is closed. There is no deadline while the handler works; it limits its
own time. A request costs no task, no channel and no scope of its own.

A response is sent in two parts: its head with a small body, and a body of more than
LARGE_BODY_BYTES, which is never copied behind the head. The socket takes at once what it can;
`_send_rest` sends the remainder, with a deadline.

`ListenerContext` is what the connections of a listener share, `ServerConnection` is one of them,
and `RequestReader` parses what it receives, without a socket."""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from typing import Final, TypeAlias

import structlog
import trio
from attrs import Factory, field, frozen

from mmo_sansio.api.outgoing import problem_response
from mmo_sansio.http.chunked_body import ChunkedBody, ChunkedBodyError
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import Headers, HttpResponse
from mmo_sansio.http.request_head import (
    END_OF_HEAD,
    HeadLimits,
    ParsedHead,
    check_partial_head,
    parse_head,
)
from mmo_sansio.values.problems import (
    BODY_TOO_LARGE,
    INTERNAL,
    MALFORMED,
    REQUEST_TIMEOUT,
    Problem,
    ProblemError,
)
from mmo_trio.http.handler import Admitted, AdmittedStream, Handler, RequestContext
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.http.responses import CONTINUE_RESPONSE, PieceWriter, response_bytes
from mmo_trio.http.server import connection_limits
from mmo_trio.http.streams import SendBuffer, TransportStream, subscriber_network
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

# A larger body is sent as it is, neither copied behind its head nor encrypted in one piece. One
# that is received counts against the budget while it is incomplete.
LARGE_BODY_BYTES: Final = 64 * 1024

# Time to read what lay in the socket when the deadline of an idle connection had passed.
LATE_READ_S: Final = 1.0

HEAD_TIMEOUT: Final = REQUEST_TIMEOUT.problem("The head of the request did not arrive in time.")
BODY_TIMEOUT: Final = REQUEST_TIMEOUT.problem("The body of the request did not arrive in time.")
INTERNAL_ERROR: Final = INTERNAL.problem(
    "Something went wrong here; the request id says where to look."
)


def body_too_large(limit: int) -> ProblemError:
    """Return the error for a body of more than `limit` bytes (G7)."""
    return ProblemError(BODY_TOO_LARGE.problem(f"The body is larger than {limit} bytes."))


# Returns what serves a connection from this client, which is not in the connection table yet.
OpenConnection: TypeAlias = "Callable[[ListenerContext, TransportStream, str], ServerConnection]"


@frozen
class ListenerContext:
    """Holds what one listener is told, and what all its connections share; answers what every
    listener rejects itself."""

    handler: Handler
    limits: ListenerLimits
    error_docs_url: str
    """Base of the `type` URIs of problems, without a slash at its end (P1)."""
    mint_request_id: Callable[[], str]
    """Gives every request its own id: ASCII letters, digits and hyphens."""
    drain: trio.Event
    """Once it is set, the next response on a connection is its last."""
    metrics: HttpMetrics = Factory(lambda: HttpMetrics(log_rejections=False))
    """Counts requests and logs rejections; by default only internal errors are logged."""
    tls: Callable[[], ssl.SSLContext] | None = None
    """Gives the context of one connection, so that a renewed certificate needs no restart; None for
    clear HTTP."""
    extra_fields: Headers = ()
    """Fields that every response has besides its own."""
    accept_rules: connection_limits.AcceptRules = connection_limits.AcceptRules()
    idle_grace_s: Callable[[], float] = lambda: 0.0
    """Asked when the drain begins: idle connections stay open for so many seconds, because a client
    that sends just then would find its connection closed."""
    open_connection: OpenConnection = field(default=Factory(lambda: ServerConnection))
    """Chooses the version of HTTP."""
    clock: trio.abc.Clock = Factory(trio.lowlevel.current_clock)
    """Trio's clock, which `trio.current_time` asks through two more calls."""
    connection_table: connection_limits.ConnectionTable = field(
        default=Factory(
            lambda self: connection_limits.ConnectionTable(self.limits), takes_self=True
        )
    )
    deadline_timer: connection_limits.DeadlineTimer = Factory(connection_limits.DeadlineTimer)
    write_budget: connection_limits.WriteBudget = field(
        default=Factory(
            lambda self: connection_limits.WriteBudget(self.limits.write_buffer_bytes),
            takes_self=True,
        )
    )

    def request_context(
        self, client: str, has_left: Callable[[], bool] = lambda: False
    ) -> RequestContext:
        """Return the context of a request that begins now."""
        return RequestContext(self.mint_request_id(), client, self.tls is not None, has_left)

    def reject(
        self, problem: Problem, context: RequestContext, fault: str | None = None
    ) -> HttpResponse:
        """Count and log the problem, and return the response that it becomes for this request."""
        self.metrics.count_problem(context, problem, fault)
        return problem_response(problem, self.error_docs_url, context.request_id)

    def error_response(self, error: Exception, context: RequestContext) -> HttpResponse:
        """Return the response for a rejection, or for an internal error, and count and log it.

        An internal error is logged without its values, and the client learns only the request id
        (P3)."""
        if isinstance(error, ProblemError):
            return self.reject(error.problem, context)
        return self.reject(INTERNAL_ERROR, context, describe_fault(error))


class ClientDisconnected(Exception):
    """The client closed or broke the connection in the middle of its own request."""


class ServerConnection:
    """Serves one open connection, which its acceptor has added to the connection table."""

    def __init__(
        self, listener_context: ListenerContext, transport: TransportStream, client: str
    ) -> None:
        self.client = client
        # Read by the connection table. Since when it waits for a request, and since when for the
        # whole head of one, before the first also for TLS; infinity while it does not.
        self.idle_since = math.inf
        self.waiting_since = listener_context.clock.current_time()
        self._listener_context = listener_context
        self._limits = listener_context.limits
        self._clock = listener_context.clock
        self._transport = transport
        self._stream: trio.abc.Stream = transport
        self._reader = RequestReader(listener_context.limits.head)
        self._cancel_scope = trio.CancelScope()
        self._deadline = connection_limits.MovableDeadline(
            listener_context.deadline_timer, self._expire
        )

        # Whether this wait's deadline has passed once already, with something unread in the socket:
        # it got LATE_READ_S more for that.
        self._has_grace = False
        # What a client is told whose head or body is late; None in all other phases.
        self._timeout_problem: Problem | None = None
        self._request_context = RequestContext("", client, listener_context.tls is not None)
        self._started_at = 0.0
        self._extra_fields = b"".join(
            b"%s: %s\r\n" % (name, value) for name, value in listener_context.extra_fields
        )

    def close_at(self, deadline: float) -> None:
        """Close an idle connection at this moment of Trio's time."""
        self._deadline.move(min(self._deadline.at, deadline))

    def break_off(self) -> None:
        """Close without a response, though a request may be half here."""
        self._timeout_problem = None
        self._cancel_scope.cancel()

    def _expire(self) -> None:
        is_idle = self.idle_since < math.inf
        if is_idle and not self._has_grace and not self._transport.is_silent():
            # This process was late: what lies in the socket has come in time.
            self._has_grace = True
            self._set_deadline(LATE_READ_S)
            return

        self._stop()

    def _stop(self) -> None:
        """End the connection, as its deadline has passed."""
        self._cancel_scope.cancel()

    async def run(self) -> None:
        """Serve the connection to its end and close it; raises nothing but cancellation."""
        try:
            with self._cancel_scope:
                await self._serve()

            # The deadline passed. Only a client that is late with its request is told.
            if self._cancel_scope.cancelled_caught and self._timeout_problem is not None:
                await self._send_timeout_problem(self._timeout_problem)
        except (ClientDisconnected, trio.BrokenResourceError, ssl.SSLError):
            pass  # The connection is lost: no response can reach the client.
        except Exception as error:
            logger.error("connection_failed", fault=describe_fault(error))
        finally:
            self._deadline.close()
            self._reader.drop()
            self._transport.close()
            self._listener_context.connection_table.remove(self)

    async def _serve(self) -> None:
        if self._listener_context.tls is not None:
            self._set_deadline(self._limits.handshake_timeout_s)
            self._stream = tls = trio.SSLStream(
                self._transport, self._listener_context.tls(), server_side=True
            )
            await tls.do_handshake()

        await self._serve_requests()

        # The last response must arrive before the connection is closed (RFC 9112 section 9.6).
        self._set_deadline(self._limits.linger_timeout_s)
        await self._stream.aclose()

    async def _serve_requests(self) -> None:
        while await self._wait_for_request():
            if not await self._handle_request():
                break

    async def _wait_for_request(self) -> bool:
        """Wait for the next request; False when the client is done, or this listener is."""
        # It may have come with the last request: a client that pipelines must not starve others.
        self._reader.skip_line_ends()
        if not self._reader.is_empty:
            await trio.lowlevel.checkpoint()
            return True

        now = self._clock.current_time()
        is_draining = self._listener_context.drain.is_set()
        if is_draining and now >= self._listener_context.connection_table.idle_deadline:
            return False

        self._begin_idling(now)
        while data := await self._stream.receive_some():
            self._reader.receive(data)
            self._reader.skip_line_ends()
            if not self._reader.is_empty:
                break

        self.idle_since = math.inf
        return bool(data)

    def _begin_idling(self, now: float) -> None:
        table = self._listener_context.connection_table
        self.idle_since = now
        self.waiting_since = now
        self._has_grace = False
        self._deadline.move(min(now + table.idle_timeout_s, table.idle_deadline))

    async def _handle_request(self) -> bool:
        """Read one request and answer it; return whether another one may follow."""
        listener = self._listener_context
        context = listener.request_context(self.client, self._transport.has_ended)
        self._request_context = context
        self._started_at = self._clock.current_time()
        parsed_head: ParsedHead | None = None
        try:
            # The head: it may have come with the last request.
            parsed_head = self._reader.next_head() or await self._receive_head()
            self.waiting_since = math.inf
            # What arrived too late is cancelled already: it ends here, before the handler begins.
            if self._deadline.has_passed or listener.drain.is_set():
                await trio.lowlevel.checkpoint_if_cancelled()

            self._clear_deadline()

            # The handler sees the head alone and may answer; else it says how long a body may be.
            admitted = await listener.handler.admit(parsed_head.head, context)
            if isinstance(admitted, (Admitted, AdmittedStream)):
                body = self._reader.next_body(admitted.body_limit)
                if body is None:
                    body = await self._receive_body(parsed_head, admitted.body_limit)

                if isinstance(admitted, AdmittedStream):
                    return await self._stream_response(parsed_head, admitted, body)

                response = await admitted.respond(body)
                is_read = True
            else:
                response = admitted
                is_read = self._reader.skip_body()

            if isinstance(response, Problem):
                response = listener.reject(response, context)

            # Where a body is left unread, nobody knows where the next request begins.
            may_follow = is_read and parsed_head.keep_alive and not listener.drain.is_set()
            data = self._response_bytes(response, parsed_head, may_follow)
        except ClientDisconnected:
            raise
        except Exception as error:
            response = listener.error_response(error, context)
            may_follow = False
            data = self._response_bytes(response, parsed_head, may_follow)

        # Count, then send what the socket takes at once; the rest has a deadline.
        self._timeout_problem = None
        duration_s = self._clock.current_time() - self._started_at
        listener.metrics.count_response(context, response.status, duration_s)

        large_body = b""
        if len(response.body) > LARGE_BODY_BYTES and not _is_head_request(parsed_head):
            large_body = response.body

        data = self._send_at_once(data)
        if data or large_body:
            await self._send_rest(data, large_body)

        return may_follow

    def _send_at_once(self, data: SendBuffer) -> SendBuffer:
        """Send as much as the socket takes at once, which is nothing over TLS, and return the
        remainder."""
        if self._stream is not self._transport:
            return data
        return self._transport.try_send(data)

    async def _send_rest(self, data: bytes, large_body: bytes) -> None:
        """Send what the socket has not taken at once: it has a deadline, and counts against the
        budget unless it is small."""
        # With the head gone, the socket may take some of the large body at once, too.
        rest: bytes | memoryview = large_body
        if rest and not data:
            rest = self._send_at_once(memoryview(large_body))
            if not rest:
                return

        self._set_deadline(self._limits.write_timeout_s)

        # Small ones, which have no large body, need no budget: the number of connections bounds
        # them.
        size_bytes = len(data) + len(large_body)
        if size_bytes <= connection_limits.SMALL_RESPONSE_BYTES:
            await self._stream.send_all(data)
            return

        # In pieces, so that TLS never encrypts a large body at once.
        with self._listener_context.write_budget.hold(
            size_bytes, self._holder, self._cancel_scope.cancel
        ):
            await self._stream.send_all(data)
            for start in range(0, len(rest), LARGE_BODY_BYTES):
                await self._stream.send_all(memoryview(rest)[start : start + LARGE_BODY_BYTES])

    async def _stream_response(
        self, parsed_head: ParsedHead, admitted: AdmittedStream, body: bytes
    ) -> bool:
        """Let the handler write its response in pieces; return whether another request may follow
        it."""

        def connection(is_complete: bool) -> bytes:
            is_draining = self._listener_context.drain.is_set()
            may_follow = is_complete and parsed_head.keep_alive and not is_draining
            return _connection_field(parsed_head, may_follow)

        writer = PieceWriter(
            send=self._send_piece,
            receive=self._stream.receive_some,
            has_ended=self._transport.has_ended,
            request_id=self._request_context.request_id,
            connection=connection,
            extra=self._extra_fields,
            is_head_request=parsed_head.head.method == "HEAD",
            is_http_1_0=parsed_head.version == b"1.0",
        )
        try:
            await admitted.respond(body, writer)
        except Exception as error:
            if writer.status is None:
                raise  # Nothing is sent yet: the client can still be told.
            if not writer.is_lost:
                logger.error("connection_failed", fault=describe_fault(error))
            return False
        finally:
            if writer.status is not None:
                duration_s = self._clock.current_time() - self._started_at
                self._listener_context.metrics.count_response(
                    self._request_context, writer.status, duration_s
                )

        return writer.is_complete and connection(True) != b"close"

    async def _send_piece(self, head: bytes, piece: bytes, is_stream: bool) -> None:
        """Send a piece of a response. Each piece of a stream has a deadline of its own; other
        responses have one."""
        deadline = self._deadline.at
        if len(piece) > LARGE_BODY_BYTES:
            await self._send_rest(self._send_at_once(head), piece)
        else:
            rest = self._send_at_once(head + piece)
            if rest:
                await self._send_rest(rest, b"")

        # The first deadline of a response that is no stream stays, whatever its later pieces set.
        if is_stream:
            self._deadline.move(math.inf)
        else:
            self._deadline.move(min(deadline, self._deadline.at))

    async def _receive_head(self) -> ParsedHead:
        self._timeout_problem = HEAD_TIMEOUT
        self.waiting_since = min(self.waiting_since, self._started_at)
        self._set_deadline(self._limits.head_timeout_s)
        while True:
            await self._receive_data()
            parsed_head = self._reader.next_head()
            if parsed_head is not None:
                return parsed_head

    async def _receive_body(self, parsed_head: ParsedHead, limit: int) -> bytes:
        self._timeout_problem = BODY_TIMEOUT
        self._set_deadline(self._limits.body_timeout_s)
        # A client that has sent a part already does not wait for it.
        if parsed_head.expects_continue and self._reader.is_empty:
            await self._send_continue()

        body = await self._receive_rest(limit)
        await trio.lowlevel.checkpoint_if_cancelled()
        self._clear_deadline()
        return body

    async def _receive_rest(self, limit: int) -> bytes:
        """Receive until the body is complete, and return it; a large one counts against the budget
        meanwhile."""
        with ExitStack() as held:
            is_held = False
            while True:
                await self._receive_data()
                body = self._reader.next_body(limit)
                if body is not None:
                    return body

                if self._reader.body_bytes > LARGE_BODY_BYTES and not is_held:
                    is_held = True
                    budget = self._listener_context.write_budget
                    held.enter_context(budget.hold(limit, self._holder, self._cancel_scope.cancel))

    @property
    def _holder(self) -> str:
        """Return by whom bytes are counted: the merchant, where one has signed in, as many of them
        may come through one proxy."""
        return self._request_context.brand or subscriber_network(self.client)

    async def _send_continue(self) -> None:
        try:
            await self._stream.send_all(CONTINUE_RESPONSE)
        except trio.BrokenResourceError as error:
            raise ClientDisconnected from error

    async def _receive_data(self) -> None:
        try:
            data = await self._stream.receive_some()
        except trio.BrokenResourceError as error:
            raise ClientDisconnected from error
        if not data:
            raise ClientDisconnected
        self._reader.receive(data)

    async def _send_timeout_problem(self, problem: Problem) -> None:
        context = self._request_context
        response = self._listener_context.reject(problem, context)
        duration_s = self._clock.current_time() - self._started_at
        self._listener_context.metrics.count_response(context, problem.status, duration_s)

        with trio.move_on_after(self._limits.linger_timeout_s):
            await self._stream.send_all(self._response_bytes(response, None, keep_alive=False))
            await self._stream.aclose()

    def _response_bytes(
        self, response: HttpResponse, parsed_head: ParsedHead | None, keep_alive: bool
    ) -> bytes:
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
        """Let the handler work without a deadline. The caller passes a checkpoint first, which
        stops a request that arrived too late: the handler never begins what would be cancelled at
        once."""
        self._timeout_problem = None
        self._deadline.move(math.inf)


def _is_head_request(parsed_head: ParsedHead | None) -> bool:
    return parsed_head is not None and parsed_head.head.method == "HEAD"


def _connection_field(parsed_head: ParsedHead | None, keep_alive: bool) -> bytes:
    """Return the value of `Connection`; empty where the version of HTTP implies it (RFC 9112
    section 9.3)."""
    if not keep_alive:
        return b"close"
    if parsed_head is not None and parsed_head.version == b"1.0":
        return b"keep-alive"
    return b""


# Chunks of one body: 256 KiB in chunks of 256 bytes fit; chunks of one byte would only waste time.
CHUNKS_MAX: Final = 1024

# A client takes one entry for each method and each length of a body.
HEADS_CACHED: Final = 512

# Bytes of the largest head that is cached; larger ones are parsed each time.
# Fields that are parsed take several times their bytes: the cache holds 13 MB at the worst, where
# each head has a hundred tiny fields.
CACHED_HEAD_BYTES_MAX: Final = 2048

_EMPTY_LINES: Final = re.compile(rb"(?:\r\n)++")

# The request line of a usual request, whose target is in origin-form and has no fragment: no field
# is judged by such a target.
_PLAIN_REQUEST: Final = re.compile(rb"(GET|POST|PUT) (/[!-\"$-~]*+) (HTTP/1\.[01])\r\n")


class RequestReader:
    """Parses the bytes of one connection into heads and bodies, without a socket and without
    waiting.

    Give it bytes with `receive`, call `next_head`, then `next_body`; None means that more bytes are
    needed."""

    def __init__(self, limits: HeadLimits) -> None:
        self._limits = limits
        self._buffer = b""
        # The beginning of a body of known length, while the rest is yet to come; the buffer is
        # empty then.
        self._incomplete_body: bytearray | None = None
        # Bytes of the buffer in which no end of a head was found: they are not looked at twice.
        self._scanned_bytes = 0
        # The body that belongs to the last head: its length, or its chunks.
        self._pending_body: int | _ChunkedRequestBody = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether every byte that arrived is used."""
        return not (self._buffer or self._incomplete_body)

    def skip_line_ends(self) -> None:
        """Drop line ends before a request: old clients send one after a body (RFC 9112, 2.2)."""
        if self._buffer.startswith(b"\r\n"):
            self._buffer = _EMPTY_LINES.sub(b"", self._buffer, count=1)

    @property
    def body_bytes(self) -> int:
        """Return how much of an incomplete body has arrived."""
        if self._incomplete_body is not None:
            return len(self._incomplete_body)
        if isinstance(self._pending_body, _ChunkedRequestBody):
            return self._pending_body.size_bytes
        return 0

    def receive(self, data: bytes | bytearray) -> None:
        """Take bytes that have arrived."""
        if self._incomplete_body is None:
            self._buffer += data
        else:
            self._incomplete_body += data

    def drop(self) -> None:
        """Forget what has arrived, as its connection is closed."""
        self._buffer = b""
        self._incomplete_body = None
        self._pending_body = 0

    def next_head(self) -> ParsedHead | None:
        """Return the next request's head once it is complete; raises ProblemError for a malformed
        one."""
        self.skip_line_ends()

        # From where the last look ended: a head in single bytes would cost their square.
        end = self._buffer.find(END_OF_HEAD, max(0, self._scanned_bytes - len(END_OF_HEAD)))
        if end < 0:
            problem = check_partial_head(
                self._buffer, self._limits, checked_bytes=self._scanned_bytes
            )
            self._scanned_bytes = len(self._buffer)
            if problem is not None:
                raise ProblemError(problem)

            return None

        end += len(END_OF_HEAD)
        head = self._buffer[:end]
        self._buffer = self._buffer[end:]
        self._scanned_bytes = 0

        # The body belongs to this head, whatever the handler makes of it.
        parsed_head = parse_any_head(head, self._limits)
        if parsed_head.body_length is None:
            self._pending_body = _ChunkedRequestBody()
        else:
            self._pending_body = parsed_head.body_length

        return parsed_head

    def next_body(self, limit: int) -> bytes | None:
        """Return the body once it is complete. Raises ProblemError for a body larger than `limit`
        bytes, as soon as that shows, or with broken framing."""
        if isinstance(self._pending_body, _ChunkedRequestBody):
            chunked = self._pending_body.receive(self._buffer, limit)
            self._buffer = b"" if chunked is None else self._pending_body.trailing_data
            return chunked

        # A declared length is refused before the first byte of the body is kept.
        if self._pending_body > limit:
            raise body_too_large(limit)

        # A body that comes in pieces is collected in place: joining bytes would copy it each time.
        if self._incomplete_body is not None:
            if self._pending_body > len(self._incomplete_body):
                return None

            self._buffer = bytes(self._incomplete_body)
            self._incomplete_body = None

        if self._pending_body > len(self._buffer):
            self._incomplete_body = bytearray(self._buffer)
            self._buffer = b""
            return None

        body = self._buffer[: self._pending_body]
        self._buffer = self._buffer[self._pending_body :]
        return body

    def skip_body(self) -> bool:
        """Discard the body when all of it is here. Return False when some is yet to come: the start
        of the next request is unknown then unless the body is read after all."""
        if isinstance(self._pending_body, _ChunkedRequestBody):
            return False
        if self._pending_body > len(self._buffer):
            return False
        self._buffer = self._buffer[self._pending_body :]
        return True


def parse_any_head(head: bytes, limits: HeadLimits) -> ParsedHead:
    """Parse a whole head, or take what is known of an equal one. Raises ProblemError for one that
    must be rejected."""
    matched = _PLAIN_REQUEST.match(head)
    if (
        matched is None
        or len(head) > min(CACHED_HEAD_BYTES_MAX, limits.head_bytes)
        or len(matched[2]) > limits.target_bytes
    ):
        return parse_head(head, limits)

    # A client repeats all but the target, so the rest is parsed with another one, and kept.
    known = _parse_fields_cached(matched[1], matched[3], head[matched.end() :], limits)
    return ParsedHead(
        known.head.with_target(matched[2]),
        known.version,
        known.keep_alive,
        known.expects_continue,
        known.body_length,
    )


@lru_cache(maxsize=HEADS_CACHED)
def _parse_fields_cached(
    method: bytes, version: bytes, fields: bytes, limits: HeadLimits
) -> ParsedHead:
    """Parse a head with another target and cache it, as a client repeats all but the target and the
    length of the body; raises ProblemError."""
    return parse_head(b"%s / %s\r\n%s" % (method, version, fields), limits)


class _ChunkedRequestBody:
    def __init__(self) -> None:
        # Trailers are an error: no field of a request of ours may stand there, and a program before
        # or behind this one could read them differently.
        self._decoder = ChunkedBody(has_trailers=False)
        self._body = bytearray()

    @property
    def size_bytes(self) -> int:
        return len(self._body)

    @property
    def trailing_data(self) -> bytes:
        """The bytes after the complete body, which belong to the next request."""
        return self._decoder.trailing_data

    def receive(self, data: bytes, limit: int) -> bytes | None:
        """Decode these bytes; return the whole body once it is complete."""
        try:
            # Both limits at each piece: one chunk may be larger than the whole limit.
            for piece in self._decoder.receive(data):
                self._body += piece
                if len(self._body) > limit:
                    raise body_too_large(limit)
                if self._decoder.chunk_count > CHUNKS_MAX:
                    raise ProblemError(MALFORMED.problem("The body comes in too many chunks."))
        except ChunkedBodyError as error:
            raise ProblemError(MALFORMED.problem(str(error))) from None

        if not self._decoder.is_complete:
            return None

        return bytes(self._body)
