"""Serves one connection by HTTP/2: several requests at a time, each in its own task.

`Http2Protocol` knows the rules; here bytes are moved, handlers are called and times are kept. One
task reads, one writes, so that a client that doesn't read is still heard when it opens a window.
What a handler has begun goes on, whatever becomes of its stream or its connection."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, assert_never

import structlog
import trio
from attrs import define, field
from h2.errors import ErrorCodes

from mmo_sansio.http.http2_requests import http1_head
from mmo_sansio.http.messages import Headers, HttpResponse, RequestHead
from mmo_sansio.values.problems import MALFORMED, Problem, ProblemError
from mmo_trio.http.asgi.http2_protocol import (
    STREAMS_MAX,
    BodyReceived,
    Event,
    Http2Protocol,
    RequestReceived,
    StreamLost,
    TrailersReceived,
)
from mmo_trio.http.handler import Admitted, AdmittedStream, RequestContext
from mmo_trio.http.responses import BODYLESS_STATUSES, response_fields
from mmo_trio.http.server.connection import (
    BODY_TIMEOUT,
    LARGE_BODY_BYTES,
    ClientDisconnected,
    ListenerContext,
    ServerConnection,
    body_too_large,
    parse_any_head,
)
from mmo_trio.http.server.connection_limits import SMALL_RESPONSE_BYTES
from mmo_trio.http.streams import TransportStream, subscriber_network
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

# Frames that are handled before other connections have their turn.
FRAMES_PER_TURN: Final = 64

# Bytes that are given to the socket at a time.
SEND_BYTES: Final = 64 * 1024

# One connection may hold one part in so many of the bytes that wait to be read.
CONNECTION_SHARE: Final = 4

# A larger body counts against the budget while it is incomplete: together, the bodies of one
# connection that don't are no larger than that of one of HTTP/1.1.
UNCOUNTED_BODY_BYTES: Final = LARGE_BODY_BYTES // STREAMS_MAX

CONNECTION_LOST: Final = (trio.BrokenResourceError, trio.ClosedResourceError)

LENGTH_DIFFERS: Final = MALFORMED.problem(
    "The body is not as long as Content-Length says; send its length in bytes, or none."
)
HAS_TRAILERS: Final = MALFORMED.problem(
    "Header fields came behind the body; send all of them before it."
)


class Http2Connection(ServerConnection):
    """Serves one open connection: by HTTP/2, or by HTTP/1.1 if it agrees on that under TLS.

    In the clear a client has to begin HTTP/2 at once, by prior knowledge (RFC 9113 section 3.3)."""

    def __init__(
        self, listener_context: ListenerContext, transport: TransportStream, client: str
    ) -> None:
        super().__init__(listener_context, transport, client)
        self._is_http2 = False

        # Whether nothing that is sent can reach the client any more.
        self._is_lost = False

        # Whether the writer ends once everything is sent.
        self._is_over = False
        self._protocol = Http2Protocol(head_bytes_max=self._limits.head.head_bytes)

        # Requests without a whole answer, by their streams.
        self._exchanges: dict[int, _Exchange] = {}
        self._receiving = trio.CancelScope()
        self._more_to_send = trio.Event()
        self._waiting_bytes = 0

    def break_off(self) -> None:
        """Close without a word."""
        if not self._is_http2:
            super().break_off()
            return

        # Requests that are whole go on: what a handler has begun, such as a payment, is not undone.
        self._is_lost = True
        self._transport.close()
        self._receiving.cancel()
        for exchange in list(self._exchanges.values()):
            exchange.lose()

        self.wake_writer()

    def has_client_left(self) -> bool:
        """Tell whether the client is known to have closed the connection, or its side of it. Any
        thread may call this."""
        return self._transport.has_ended()

    def _stop(self) -> None:
        if self._is_http2:
            self._receiving.cancel()
        else:
            super()._stop()

    async def _serve_requests(self) -> None:
        # The client chose HTTP/1.1 in its handshake.
        if (
            isinstance(self._stream, trio.SSLStream)
            and self._stream.selected_alpn_protocol() != "h2"
        ):
            await super()._serve_requests()
            return

        self._is_http2 = True

        # The writer outlives the reader and the answers: what they have left is still sent.
        async with trio.open_nursery() as writing:
            writing.start_soon(self._send_everything)
            async with trio.open_nursery() as answering:
                await self._receive_everything(answering)

            # GOAWAY, behind the last answer.
            self._protocol.end()
            self._is_over = True
            self.wake_writer()

        with trio.move_on_after(self._limits.linger_timeout_s), suppress(*CONNECTION_LOST):
            await self._stream.aclose()

        self.break_off()
        self._is_http2 = False

    # Reading

    async def _receive_everything(self, answering: trio.Nursery) -> None:
        """Begin what the client asks for, until it is done or the connection has to end. Requests
        whose bodies are still to come are over then."""
        # 1. Read until the client is done, gone, at fault or idle for too long.
        has_left = False
        try:
            with self._receiving:
                self._begin_idling(self._clock.current_time())
                while not self._is_done() and not has_left:
                    data = await self._receive()
                    self._protocol.receive(data)
                    await self._handle_frames(answering)
                    has_left = not data
        except Exception as error:  # The requests of others must not end with it.
            logger.error("connection_failed", fault=describe_fault(error))
            self._protocol.fault = ErrorCodes.INTERNAL_ERROR

        # 2. Whole requests are answered; others can never become whole.
        self._begin_work()
        for exchange in list(self._exchanges.values()):
            if not exchange.is_whole:
                exchange.lose()

        if has_left and not self._exchanges:
            self.break_off()

    async def _receive(self) -> bytes:
        """Return what the client has sent; nothing once it is gone."""
        try:
            return bytes(await self._stream.receive_some())
        except CONNECTION_LOST:
            self.break_off()
            return b""

    async def _handle_frames(self, answering: trio.Nursery) -> None:
        """Handle what has come, a limited number of frames in each turn of the loop."""
        table = self._listener_context.connection_table
        while True:
            now = self._clock.current_time()
            # While the listener drains, what comes too late is refused, and may be sent to another
            # process.
            self._protocol.refuses_requests = now >= table.idle_deadline
            for event in self._protocol.next_events(frames_max=FRAMES_PER_TURN, now=now):
                self._handle(event, answering)

            self.wake_writer()
            if not self._protocol.has_frames or self._protocol.fault is not None:
                return

            # One client's frames must not hold up the others.
            await trio.lowlevel.checkpoint()

    def _handle(self, event: Event, answering: trio.Nursery) -> None:
        exchange = self._exchanges.get(event.stream_id)
        match event:
            case RequestReceived():
                self._begin_work()
                exchange = _Exchange(
                    self, self._listener_context, self._protocol, event, is_whole=event.ends
                )
                self._exchanges[event.stream_id] = exchange
                answering.start_soon(exchange.run)
            case BodyReceived():
                if exchange is None:  # It has its answer already.
                    self._protocol.acknowledge(event, is_wanted=False)
                else:
                    exchange.receive(event)
            case TrailersReceived():
                if exchange is not None:
                    exchange.end_with_trailers()
            case StreamLost():
                if exchange is not None:
                    exchange.lose()
            case _:
                assert_never(event)

    def _begin_work(self) -> None:
        """Have no deadline: a request that has come must not be met by the end."""
        self.idle_since = self.waiting_since = math.inf
        self._deadline.move(math.inf)

    def forget(self, stream_id: int) -> None:
        """End a request: with the last one the connection idles, or ends if its client wants it
        to."""
        del self._exchanges[stream_id]
        if self._exchanges:
            return
        self._begin_idling(self._clock.current_time())
        if self._is_done():
            self._receiving.cancel()

    def give_up(self, stream_id: int) -> None:
        """End an answer that its client doesn't read. Others on the connection may have faster
        readers; without others it ends."""
        self._protocol.reset(stream_id, ErrorCodes.CANCEL)
        self.wake_writer()
        if len(self._exchanges) == 1:
            self._receiving.cancel()

    def _is_done(self) -> bool:
        """Return whether nothing that may still come is wanted."""
        is_left = self._protocol.is_client_leaving and not self._exchanges
        return is_left or self._protocol.fault is not None

    # Writing

    def wake_writer(self) -> None:
        """Send what there is to be sent."""
        self._more_to_send.set()

    async def _send_everything(self) -> None:
        """Send whatever there is, until the connection is over."""
        while not self._is_lost:
            # Before the look: what is added after it must wake this task.
            self._more_to_send = trio.Event()
            data = self._protocol.data_to_send(SEND_BYTES)
            if data:
                await self._send(data)

            for stream_id in self._protocol.take_sent():
                if exchange := self._exchanges.get(stream_id):
                    exchange.all_sent.set()

            if not data:
                if self._is_over:
                    return
                await self._more_to_send.wait()

    async def _send(self, data: bytes) -> None:
        """Send all of it, and break the connection off if that takes too long."""
        try:
            rest = self._send_at_once(data)
            if not rest:
                await trio.lowlevel.checkpoint()
                return
            with trio.fail_after(self._limits.write_timeout_s):
                await self._stream.send_all(rest)
        except (*CONNECTION_LOST, trio.TooSlowError):
            self.break_off()

    @contextmanager
    def hold_response(
        self, size_bytes: int, holder: str, break_off: Callable[[], None]
    ) -> Iterator[None]:
        """Count a response that its client has not read. It is broken off when the connection holds
        more than its share, unless this is all that it holds, or when it has to make room for
        others in the listener's budget."""
        budget = self._listener_context.write_budget
        is_too_much = self._waiting_bytes + size_bytes > budget.limit_bytes // CONNECTION_SHARE

        # Broken off before it is counted: its block ends at once.
        if self._waiting_bytes and is_too_much:
            break_off()

        self._waiting_bytes += size_bytes
        try:
            with budget.hold(size_bytes, holder, break_off):
                yield
        finally:
            self._waiting_bytes -= size_bytes


@define(eq=False)
class _Exchange:
    """Has the listener's handler answer one request, within the limits of head and body."""

    connection: Http2Connection
    listener_context: ListenerContext
    protocol: Http2Protocol
    received: RequestReceived
    is_whole: bool
    """Whether nothing more of the request can come."""
    is_lost: bool = field(default=False, init=False)
    """Whether nobody will read the answer."""
    all_sent: trio.Event = field(factory=trio.Event, init=False)
    """Set once all of the answer's body was sent, or can't be."""
    _context: RequestContext = field(init=False)
    """Made when the request begins."""
    _is_head_request: bool = field(default=False, init=False)
    _is_cut_off: bool = field(default=False, init=False)
    """Whether a part of the request is missing for ever."""
    _has_trailers: bool = field(default=False, init=False)
    _body: bytearray = field(factory=bytearray, init=False)
    _unacknowledged: list[BodyReceived] = field(factory=list, init=False)
    """What came before the body was admitted: the client's windows bound it."""
    _is_reading: bool = field(default=False, init=False)
    _is_discarding: bool = field(default=False, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)

    # What comes

    def receive(self, piece: BodyReceived) -> None:
        """Take a piece of the body."""
        self.is_whole = self.is_whole or piece.ends
        # Before the handler has admitted the body, its bytes stay unacknowledged: the windows hold
        # the client back (A1).
        if self._is_reading:
            self._take(piece)
        else:
            self._unacknowledged.append(piece)
        self._changed.set()

    def end_with_trailers(self) -> None:
        """End the request, which had fields behind its body."""
        self.is_whole = self._has_trailers = True
        self._changed.set()

    def lose(self) -> None:
        """Answer this request no more, as nobody would read it. A whole one is handled all the
        same."""
        # Set before `is_whole`, which says from here on that nothing more is awaited.
        self._is_cut_off = self._is_cut_off or not self.is_whole
        self.is_whole = self.is_lost = True
        self._changed.set()
        self.all_sent.set()

    def _has_client_left(self) -> bool:
        return self.is_lost or self.connection.has_client_left()

    def refuse(self) -> None:
        """Make room for others: nothing of this request was done, so it may be sent again."""
        self.protocol.reset(self.received.stream_id, ErrorCodes.REFUSED_STREAM)
        self.connection.wake_writer()
        self.lose()

    def give_up(self) -> None:
        """Send no more of an answer that its client doesn't read."""
        self.connection.give_up(self.received.stream_id)
        self.lose()

    def _take(self, piece: BodyReceived) -> None:
        if not self._is_discarding:
            self._body += piece.data
        self.protocol.acknowledge(piece, is_wanted=not self._is_discarding)

    def _begin_reading(self) -> None:
        self._is_reading = True
        for piece in self._unacknowledged:
            self._take(piece)
        self._unacknowledged.clear()
        self.connection.wake_writer()

    @property
    def _holder(self) -> str:
        """Return by whom bytes are counted: the merchant, where one has signed in, as many of them
        may come through one proxy."""
        return self._context.brand or subscriber_network(self.connection.client)

    async def _wait_for_more(self) -> None:
        self._changed = trio.Event()
        await self._changed.wait()

    # What is answered

    async def run(self) -> None:
        """Answer the request; a client that has disconnected receives nothing."""
        try:
            await self._answer()
        finally:
            # Whatever is left unread must be acknowledged, or the connection's window stays smaller
            # for ever.
            self._is_discarding = True
            self._begin_reading()
            self.connection.forget(self.received.stream_id)
            del self._context  # It knows this exchange, which would outlive its connection.

    async def _answer(self) -> None:
        self._context = context = self.listener_context.request_context(
            self.connection.client, self._has_client_left
        )
        started_at = trio.current_time()
        try:
            response = await self._call_handler(context)
            fields = response_fields(response, request_id=context.request_id)
        except ClientDisconnected:
            return
        except Exception as error:
            response = self.listener_context.error_response(error, context)
            fields = response_fields(response, request_id=context.request_id)

        self.listener_context.metrics.count_response(
            context, response.status, trio.current_time() - started_at
        )

        status = (b":status", b"%d" % response.status)
        await self._send((status, *fields, *self.listener_context.extra_fields), response)

    async def _call_handler(self, context: RequestContext) -> HttpResponse:
        """Return the handler's response; raises ProblemError for a request that may not be read."""
        fields = self.received.fields
        self._is_head_request = (b":method", b"HEAD") in fields
        head = parse_any_head(http1_head(fields), self.listener_context.limits.head).head
        response = await self.listener_context.handler.admit(head, context)
        assert not isinstance(response, AdmittedStream)  # The merchant API streams nothing.
        if isinstance(response, Admitted):
            response = await response.respond(await self._read_body(head, response.body_limit))

        if isinstance(response, Problem):
            return self.listener_context.reject(response, context)

        return response

    async def _read_body(self, head: RequestHead, limit: int) -> bytes:
        """Read the whole body in time and within its limit; a Content-Length is checked first."""
        # 1. What the head says already.
        length = head.value(b"content-length")
        if length is not None and int(length) > limit:
            raise body_too_large(limit)

        if not (self.is_whole or self._unacknowledged) and _expects_continue(head):
            self.protocol.invite_body(self.received.stream_id)

        # 2. The body itself.
        self._begin_reading()
        if not self.is_whole:
            await self._receive_rest(limit if length is None else int(length), limit)

        # 3. What shows only at its end, the worst first.
        if self._is_cut_off:
            raise ClientDisconnected
        if len(self._body) > limit:
            raise body_too_large(limit)
        if self._has_trailers:
            raise ProblemError(HAS_TRAILERS)
        if length is not None and int(length) != len(self._body):
            raise ProblemError(LENGTH_DIFFERS)

        return bytes(self._body)

    async def _receive_rest(self, size_bytes: int, limit: int) -> None:
        """Wait for the rest of the body, or for more than may be; a large one counts against the
        budget meanwhile."""
        budget = self.listener_context.write_budget
        with ExitStack() as held, trio.move_on_after(self.listener_context.limits.body_timeout_s):
            is_held = False
            while not self.is_whole and len(self._body) <= limit:
                if len(self._body) > UNCOUNTED_BODY_BYTES and not is_held:
                    is_held = True
                    held.enter_context(budget.hold(size_bytes, self._holder, self.refuse))
                    continue
                await self._wait_for_more()

            return

        raise ProblemError(BODY_TIMEOUT)

    async def _send(self, fields: Headers, response: HttpResponse) -> None:
        """Send the response in time, while the remainder of the request is read and discarded.

        Unread it would fill the connection's window; and a response that ends before the request
        may be followed by a reset, which may overtake it (RFC 9112 section 9.6)."""
        self._is_discarding = True
        self._begin_reading()
        if self.is_lost:
            return

        stream_id, limits = self.received.stream_id, self.listener_context.limits
        is_bodyless = self._is_head_request or response.status in BODYLESS_STATUSES
        body = b"" if is_bodyless else response.body
        with ExitStack() as held:
            if len(body) > SMALL_RESPONSE_BYTES:
                held.enter_context(
                    self.connection.hold_response(len(body), self._holder, self.give_up)
                )

            self.protocol.respond(stream_id, fields, body, ends=self.is_whole)
            self.connection.wake_writer()
            with trio.move_on_after(limits.write_timeout_s) as writing:
                await self.all_sent.wait()

        # A client that does not read holds bytes that others need.
        if writing.cancelled_caught:
            self.give_up()

        with trio.move_on_after(limits.linger_timeout_s):
            while not self.is_whole:
                await self._wait_for_more()

        self.protocol.finish(stream_id)
        self.connection.wake_writer()


def _expects_continue(head: RequestHead) -> bool:
    return (head.value(b"expect") or b"").lower() == b"100-continue"
