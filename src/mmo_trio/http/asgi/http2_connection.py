"""Serves connections by HTTP/2 with Hypercorn, and adds what Hypercorn lacks: limits of frames that
only make work and of bytes that nobody reads, a deadline for every write, and a drain that loses no
answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, cast

import trio
from attrs import define
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    HTTPResponseBodyEvent,
    HTTPResponseStartEvent,
    HTTPScope,
    Scope,
    WebsocketCloseEvent,
)

from mmo_sansio.http.http2_frames import FrameCounter
from mmo_sansio.http.ip_rules import subscriber_network
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import Headers, HttpResponse, RequestHead
from mmo_sansio.http.request_head import check_head, to_origin_form
from mmo_sansio.values.problems import Problem, ProblemError
from mmo_trio.http.asgi.http2_protocol import (
    Closed,
    Event,
    RawData,
    TaskGroup,
    Updated,
    open_protocol,
)
from mmo_trio.http.handler import Admitted, AdmittedStream, RequestContext
from mmo_trio.http.responses import response_fields
from mmo_trio.http.server.connection import (
    BODY_TIMEOUT,
    ClientDisconnected,
    ListenerContext,
    ServerConnection,
    body_too_large,
)
from mmo_trio.http.server.connection_limits import SMALL_RESPONSE_BYTES
from mmo_trio.http.streams import TransportStream, unmap_ipv4

COPIES: Final = 2
"""Times that a body is in memory while it waits: the app's, and Hypercorn's."""
CONNECTION_SHARE: Final = 4
"""One connection may hold one part in so many of the bytes that wait to be read."""
CONNECTION_LOST: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class Http2Connection(ServerConnection):
    """Serves one open connection: by HTTP/2, several requests at a time, or by HTTP/1.1 if it
    agrees on that under TLS.

    In the clear a client has to begin HTTP/2 at once, by prior knowledge (RFC 9113 section 3.3)."""

    def __init__(
        self, listener_context: ListenerContext, transport: TransportStream, client: str
    ) -> None:
        super().__init__(listener_context, transport, client)
        self._is_http2 = False
        self._has_ended = False
        """Whether nothing that is sent by HTTP/2 can reach the client any more."""
        self._receiving = trio.CancelScope()
        self._frames = FrameCounter()
        self._send_lock = trio.Lock()
        self._sends: set[trio.CancelScope] = set()
        self._waiting_bytes = 0

    def break_off(self) -> None:
        """Close without a word, and end the sends that would wait for the client's windows. What a
        handler has begun goes on."""
        if not self._is_http2:
            super().break_off()
            return
        self._transport.close()
        for sending in self._sends:
            sending.cancel()

    def _expire(self) -> None:
        if self._is_http2:
            self._receiving.cancel()
        else:
            super()._expire()

    async def _serve_requests(self) -> None:
        if (
            isinstance(self._stream, trio.SSLStream)
            and self._stream.selected_alpn_protocol() != "h2"
        ):
            await super()._serve_requests()
            return
        self._is_http2 = True
        async with TaskGroup() as tasks:
            await self._serve_streams(tasks)
        self._is_http2 = False

    async def _serve_streams(self, tasks: TaskGroup) -> None:
        table = self._listener_context.connection_table
        protocol = open_protocol(
            self._run_app,
            tasks,
            self._handle_event,
            client=self.client,
            has_tls=self._listener_context.tls is not None,
            head_bytes_max=self._limits.head.head_bytes,
            is_ending=lambda: trio.current_time() >= table.idle_deadline,
        )
        with self._receiving:
            await protocol.initiate()
            self._begin_idling(self._clock.current_time())
            while data := await self._receive():
                idle_until = self._deadline.at
                self._deadline.move(math.inf)  # A request that has come must not be met by the end.
                await protocol.handle(RawData(data))
                if self.idle_since < math.inf:
                    self.close_at(idle_until)
        if self._receiving.cancelled_caught:
            protocol.connection.close_connection()
            await self._handle_event(RawData(protocol.connection.data_to_send()))
        await protocol.handle(Closed())
        self._has_ended = True
        with trio.move_on_after(self._limits.linger_timeout_s), suppress(*CONNECTION_LOST):
            await self._stream.aclose()
        self.break_off()

    async def _receive(self) -> bytes:
        """Return what the client has sent; nothing once it is gone, or has sent too many frames
        that only make work."""
        try:
            data = bytes(await self._stream.receive_some())
        except CONNECTION_LOST:
            return b""
        return data if self._frames.receive(data, now=self._clock.current_time()) else b""

    async def _handle_event(self, event: Event) -> None:
        if isinstance(event, RawData):
            try:
                async with self._send_lock:
                    with trio.fail_after(self._limits.write_timeout_s):
                        await self._stream.send_all(event.data)
            except (*CONNECTION_LOST, trio.TooSlowError):
                self.break_off()
        elif isinstance(event, Closed):
            self._receiving.cancel()
        elif isinstance(event, Updated):
            if event.idle:
                self._begin_idling(self._clock.current_time())
            else:
                self.idle_since = self.waiting_since = math.inf
                self._deadline.move(math.inf)

    async def _run_app(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Run the app with a `send` that ends in time, though a client opens no window, and counts
        large pieces: Hypercorn keeps all of a body until the client has opened its window."""
        with ExitStack() as held:

            async def send_event(event: ASGISendEvent) -> None:
                with trio.move_on_after(
                    0 if self._has_ended else self._limits.write_timeout_s
                ) as sending:
                    self._sends.add(sending)
                    try:
                        if (
                            event["type"] == "http.response.body"
                            and len(event["body"]) > SMALL_RESPONSE_BYTES
                        ):
                            held.enter_context(self._hold(COPIES * len(event["body"])))
                        await send(event)
                    finally:
                        self._sends.discard(sending)
                if sending.cancelled_caught:
                    self.break_off()
                    raise trio.BrokenResourceError("the client did not read in time")

            if scope["type"] == "http":
                await _AsgiExchange(self._listener_context, scope, receive, send_event).run()
            else:
                await send_event(
                    WebsocketCloseEvent(type="websocket.close", code=1000, reason=None)
                )

    @contextmanager
    def _hold(self, size_bytes: int) -> Iterator[None]:
        """Count a piece until the response has ended. The connection is closed when it holds more
        than its share, unless this is all that it holds, or when the budget of the listener is used
        up."""
        budget = self._listener_context.write_budget
        is_too_much = self._waiting_bytes + size_bytes > budget.limit_bytes // CONNECTION_SHARE
        if self._waiting_bytes and is_too_much:
            self.break_off()
        self._waiting_bytes += size_bytes
        try:
            with budget.hold(size_bytes, subscriber_network(self.client), self.break_off):
                yield
        finally:
            self._waiting_bytes -= size_bytes


@define
class _AsgiExchange:
    """Has the listener's handler answer one request, within the limits of head and body.

    The request reaches it as it came: a decoded path would not show that a reference holds an
    encoded slash (L3)."""

    listener_context: ListenerContext
    scope: HTTPScope
    receive: ASGIReceiveCallable
    send: ASGISendCallable
    is_body_read: bool = False

    async def run(self) -> None:
        """Answer the request; a client that has disconnected receives nothing."""
        client = unmap_ipv4(self.scope["client"][0]) if self.scope["client"] else ""
        context = self.listener_context.request_context(client)
        started = trio.current_time()
        try:
            response = await self._call_handler(context)
            fields = response_fields(response, request_id=context.request_id)
        except ClientDisconnected:
            return
        except Exception as error:
            response = self.listener_context.error_response(error, context)
            fields = response_fields(response, request_id=context.request_id)
        self.listener_context.metrics.count_response(
            context, response.status, trio.current_time() - started
        )
        await self._send_response(response, [*fields, *self.listener_context.extra_fields])

    async def _call_handler(self, context: RequestContext) -> HttpResponse:
        """Return the handler's response; raises ProblemError for a request that may not be read."""
        query = self.scope["query_string"]
        # The target is as it was sent, neither decoded nor rebuilt.
        target = self.scope["raw_path"] + (b"?" + query if query else b"")
        head = RequestHead(
            self.scope["method"], target, tuple(cast(Headers, self.scope["headers"]))
        )
        _check_head(head, self.listener_context.limits)
        response = await self.listener_context.handler.admit(to_origin_form(head), context)
        assert not isinstance(response, AdmittedStream)  # The merchant API streams nothing.
        if isinstance(response, Admitted):
            response = await response.respond(await self._read_body(head, response.body_limit))
        if isinstance(response, Problem):
            return self.listener_context.reject(response, context)
        return response

    async def _read_body(self, head: RequestHead, limit: int) -> bytes:
        """Read the whole body in time and within its limit; a Content-Length is checked first."""
        if int(head.value(b"content-length") or b"0") > limit:
            raise body_too_large(limit)
        body = bytearray()
        with trio.move_on_after(self.listener_context.limits.body_timeout_s):
            while not self.is_body_read:
                body += await self._receive()
                if len(body) > limit:
                    raise body_too_large(limit)
        if not self.is_body_read:
            raise ProblemError(BODY_TIMEOUT)
        return bytes(body)

    async def _receive(self) -> bytes:
        event = await self.receive()
        if event["type"] != "http.request":
            raise ClientDisconnected
        self.is_body_read = not event["more_body"]
        return event["body"]

    async def _send_response(
        self, response: HttpResponse, fields: list[tuple[bytes, bytes]]
    ) -> None:
        """Send the response while the remainder of the body is read and discarded.

        Unread it would block Hypercorn, which stops reading then; and a response that ends before
        the request is followed by a reset, which may overtake it (RFC 9112 section 9.6)."""
        body = b"" if self.scope["method"] == "HEAD" else response.body
        async with trio.open_nursery() as nursery:
            all_read = trio.Event()
            nursery.start_soon(self._discard_body, all_read)
            await self.send(
                HTTPResponseStartEvent(
                    type="http.response.start", status=response.status, headers=fields
                )
            )
            await self.send(_body_event(body, more=True))
            with trio.move_on_after(self.listener_context.limits.linger_timeout_s):
                await all_read.wait()
            await self.send(_body_event(b"", more=False))
            nursery.cancel_scope.cancel()

    async def _discard_body(self, body_read: trio.Event) -> None:
        try:
            while not self.is_body_read:
                await self._receive()
        except ClientDisconnected:
            pass
        body_read.set()


def _check_head(head: RequestHead, limits: ListenerLimits) -> None:
    """Raise ProblemError by the rules for a head of HTTP/1.1, as far as the head that Hypercorn
    passes on still shows the breach (C9)."""
    lines = [b"%s %s HTTP/1.1" % (head.method.encode("ascii"), head.target)]
    lines += [b"%s: %s" % each for each in head.headers]
    problem = check_head(b"\r\n".join([*lines, b"", b""]), limits.head)
    if problem is not None:
        raise ProblemError(problem)


def _body_event(body: bytes, *, more: bool) -> HTTPResponseBodyEvent:
    return HTTPResponseBodyEvent(type="http.response.body", body=body, more_body=more)
