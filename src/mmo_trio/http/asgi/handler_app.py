"""Lets a handler answer the requests of a Quart-Trio app.

They reach the handler as they came, past Quart's routing, which would decode the path: a reference may hold an encoded
slash (L3)."""

from __future__ import annotations

from typing import cast

import trio
from attrs import define
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGISendCallable,
    HTTPResponseBodyEvent,
    HTTPResponseStartEvent,
    HTTPScope,
    Scope,
)
from quart_trio import QuartTrio

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import Headers, HttpResponse, RequestHead
from mmo_sansio.http.request_head import check_head, to_origin_form
from mmo_sansio.values.problems import Problem, ProblemError
from mmo_trio.http.handler import Admitted, AdmittedStream, RequestContext
from mmo_trio.http.rejections import BODY_TIMEOUT, body_too_large
from mmo_trio.http.responses import response_fields
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.streams import unmap_ipv4


class HandlerApp(QuartTrio):
    """Answers every HTTP request by the listener's handler, within the limits of head and body."""

    def __init__(self, listener_context: ListenerContext) -> None:
        super().__init__(__name__)
        self._listener_context = listener_context

    async def asgi_app(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http":
            await _AsgiExchange(self._listener_context, scope, receive, send).run()
        else:
            await super().asgi_app(scope, receive, send)


class _AsgiClientDisconnected(Exception):
    """The client closed or broke the connection in the middle of its own request."""


@define
class _AsgiExchange:
    """Handles one request and its response."""

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
        except _AsgiClientDisconnected:
            return
        except Exception as error:
            response = self.listener_context.error_response(error, context)
            fields = response_fields(response, request_id=context.request_id)
        self.listener_context.metrics.count_response(context, response.status, trio.current_time() - started)
        await self._send_response(response, [*fields, *self.listener_context.extra_fields])

    async def _call_handler(self, context: RequestContext) -> HttpResponse:
        """Return the handler's response; raises ProblemError for a request that may not be read."""
        head = _request_head(self.scope)
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
            raise _AsgiClientDisconnected
        self.is_body_read = not event["more_body"]
        return event["body"]

    async def _send_response(self, response: HttpResponse, fields: list[tuple[bytes, bytes]]) -> None:
        """Send the response while the remainder of the body is read and discarded.

        Unread it would block Hypercorn, which stops reading then; and a response that ends before the request is
        followed by a reset, which may overtake it (RFC 9112 section 9.6)."""
        body = b"" if self.scope["method"] == "HEAD" else response.body
        async with trio.open_nursery() as nursery:
            all_read = trio.Event()
            nursery.start_soon(self._discard_body, all_read)
            await self.send(HTTPResponseStartEvent(type="http.response.start", status=response.status, headers=fields))
            await self.send(_body_event(body, more=True))
            with trio.move_on_after(self.listener_context.limits.linger_timeout_s):
                await all_read.wait()
            await self.send(_body_event(b"", more=False))
            nursery.cancel_scope.cancel()

    async def _discard_body(self, body_read: trio.Event) -> None:
        try:
            while not self.is_body_read:
                await self._receive()
        except _AsgiClientDisconnected:
            pass
        body_read.set()


def _request_head(scope: HTTPScope) -> RequestHead:
    """Return the head; its target is as it was sent, neither decoded nor rebuilt."""
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    return RequestHead(scope["method"], target, tuple(cast(Headers, scope["headers"])))


def _check_head(head: RequestHead, limits: ListenerLimits) -> None:
    """Raise ProblemError by the rules for a head of HTTP/1.1, as far as the head that Hypercorn passes on still shows
    the breach (C9)."""
    lines = [b"%s %s HTTP/1.1" % (head.method.encode("ascii"), head.target)]
    lines += [b"%s: %s" % each for each in head.headers]
    problem = check_head(b"\r\n".join([*lines, b"", b""]), limits.head)
    if problem is not None:
        raise ProblemError(problem)


def _body_event(body: bytes, *, more: bool) -> HTTPResponseBodyEvent:
    return HTTPResponseBodyEvent(type="http.response.body", body=body, more_body=more)
