"""Serves an ASGI application behind the gateway's own listener (ASGI HTTP specification 2.3).

The listener reads the whole body first, within its limit and deadline, so the application gets it
in one message. A response with a Content-Length is sent with it, any other one in chunks. The
lifespan of the application is not run, and neither WebSocket nor HTTP/2 is spoken."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

import trio
from attrs import define, field, frozen
from hypercorn.typing import (
    ASGIReceiveEvent,
    ASGISendEvent,
    ConnectionState,
    HTTPDisconnectEvent,
    HTTPRequestEvent,
    HTTPScope,
)

from mmo_sansio.http.messages import Headers, RequestHead
from mmo_sansio.resilience.fair_queue import FairQueue
from mmo_sansio.values.problems import UNAVAILABLE, ProblemError
from mmo_trio.http.handler import AdmittedStream, RequestContext
from mmo_trio.http.responses import PieceWriter
from mmo_trio.http.streams import subscriber_network

# Fields that the listener writes itself, whatever the application says.
LISTENER_FIELDS: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"date",
        b"keep-alive",
        b"server",
        b"transfer-encoding",
        b"x-request-id",
    }
)

# Requests that are handled at a time: while one waits for the store, another one goes on. One
# client has half of them at most.
# More would only share the same processor.
PLACES: Final = 4

# Requests that wait for a place.
WAITING_MAX: Final = 4096

# The longest wait of a request for its place: its user has gone elsewhere then.
TURN_TIMEOUT_S: Final = 30.0

# Processor time that may be used at once after a quiet time.
BURST_S: Final = 0.25

# The most that one request counts: what else the process did meanwhile is counted as well.
COST_MAX_S: Final = 0.05

CROWDED: Final = UNAVAILABLE.problem("Too many requests are waiting; send the request again soon.")
_TURNS: Final = "mmo_trio.turns"

# Gives a turn for a piece of work while the block lasts.
TakeTurn: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


def turns_of(scope: Any) -> TakeTurn:
    """Return what gives turns to the pieces of a stream, as a request has its own only until its
    response begins."""
    return scope["extensions"].get(_TURNS) or nullcontext


class IncompleteResponse(Exception):
    """The application has ended without a complete response."""


@define(eq=False)
class Pacer:
    """Limits the share of a process's time that the requests of one application take, so that
    others are served meanwhile.

    The pages and the console share one event loop with the merchants. Few requests are handled at a
    time, clients take turns, and each turn begins once the share is kept. A turn is about processor
    time: bytes that wait for a reader have none (see `WriteBudget`)."""

    share: float
    """Of the time of this process, above 0 and at most 1, which is no limit."""
    used_s: Callable[[], float] = time.thread_time
    """Returns the processor time of this thread."""
    _queue: FairQueue[Turn] = field(
        factory=lambda: FairQueue(waiting_max=WAITING_MAX, slots=PLACES, slots_per_brand=PLACES),
        init=False,
    )
    _even_at: float = field(default=0.0, init=False)
    """The moment of Trio's time until which the share is used up."""

    async def take_turn(
        self,
        client: str,
        *,
        is_wanted: Callable[[], bool] = lambda: True,
        timeout_s: float = math.inf,
    ) -> Turn:
        """Wait for a turn. `client` is the network by which clients take turns; a turn that is not
        wanted any more when it would begin is over at once. Raises ProblemError when too many
        requests wait, or this one has waited for `timeout_s`."""
        # 1. A client who fills the queue is turned away before it costs anything.
        if not self._queue.has_room_for(client):
            raise ProblemError(CROWDED)

        # 2. In line; it may have its place at once.
        turn = Turn(self, client, is_wanted)
        self._queue.add(client, turn)
        self._start_next()

        try:
            # 3. The wait. A turn that has not begun gives its place back, however the wait ends.
            with trio.fail_after(timeout_s):
                await turn.begin()
        except trio.TooSlowError:
            raise ProblemError(CROWDED) from None
        finally:
            if not turn.has_begun:
                turn.give_up()

        return turn

    def pause_s(self) -> float:
        if self.share < 1:
            return max(0.0, self._even_at - trio.current_time())
        return 0.0

    def count(self, used_s: float) -> None:
        # A quiet time saves up for one burst, and for no more.
        quiet_since = trio.current_time() - BURST_S / self.share
        self._even_at = max(self._even_at, quiet_since) + min(used_s, COST_MAX_S) / self.share

    def release(self, client: str) -> None:
        """Give a place to the next request."""
        self._queue.release(client)
        self._start_next()

    def _start_next(self) -> None:
        while (turn := self._queue.next()) is not None:
            if not turn.is_over and turn.is_wanted():
                turn.has_place.set()
                return
            # Nobody wants it any more: its task wakes up and sees that, and the next one has the
            # place.
            turn.is_over = True
            turn.has_place.set()
            self._queue.release(turn.client)


@define(eq=False)
class Turn:
    """One request's turn: it has a place until its end."""

    _pacer: Pacer
    client: str
    is_wanted: Callable[[], bool]
    has_place: trio.Event = field(factory=trio.Event, init=False)
    """Set once it has a place, or is over without one."""
    has_begun: bool = field(default=False, init=False)
    is_over: bool = field(default=False, init=False)
    _began_at_s: float = field(default=0.0, init=False)

    async def begin(self) -> None:
        """Wait for the place, and until the share is kept."""
        await self.has_place.wait()
        if self.is_over:
            return
        await trio.sleep(self._pacer.pause_s())
        if self.is_wanted():
            self.has_begun = True
            self._began_at_s = self._pacer.used_s()

    def give_up(self) -> None:
        """Give the place back, if it has one, as nothing was done; a second call does nothing."""
        if not self.is_over:
            self.is_over = True
            if self.has_place.is_set():
                self._pacer.release(self.client)

    def end(self) -> None:
        """Give the place back; a second call does nothing."""
        if not self.is_over:
            self.is_over = True
            self._pacer.count(self._pacer.used_s() - self._began_at_s)
            self._pacer.release(self.client)


@frozen
class AsgiHost:
    """Handles every request of a listener by an ASGI application."""

    app: Any
    """The application, a callable with `scope`, `receive` and `send`."""
    body_limit: int
    """Bytes that the body of a request may have."""
    pacer: Pacer = field(factory=lambda: Pacer(1.0))
    """Limits the share of this process's time that the application takes."""
    find_client: Callable[[RequestHead, RequestContext], str] = lambda _, context: context.client
    """Returns the address by which clients take turns."""

    async def admit(self, head: RequestHead, context: RequestContext) -> AdmittedStream:
        """Admit every request; the application routes and authenticates it."""

        async def respond(body: bytes, writer: PieceWriter) -> None:
            # 1. Wait in line by the client's network: one client's many requests wait for each
            # other.
            network = subscriber_network(self.find_client(head, context))
            turn = await self.pacer.take_turn(
                network, is_wanted=writer.is_wanted, timeout_s=TURN_TIMEOUT_S
            )
            if turn.is_over:
                return  # Nobody reads the response.

            # 2. Let the application answer.
            exchange = _Exchange(writer, body, turn)
            try:
                scope = _scope(head, context, partial(self._turn, network))
                await self.app(scope, exchange.receive, exchange.send)
            finally:
                turn.end()

            # 3. An application that stops half way would leave its client waiting.
            if not (exchange.is_finished or exchange.is_client_gone):
                raise IncompleteResponse

        return AdmittedStream(self.body_limit, respond)

    @asynccontextmanager
    async def _turn(self, network: str) -> AsyncIterator[None]:
        turn = await self.pacer.take_turn(network)
        try:
            yield
        finally:
            turn.end()


@define(eq=False)
class _Exchange:
    """Translates one exchange between the application's messages and the listener."""

    writer: PieceWriter
    body: bytes
    turn: Turn
    is_read: bool = False
    is_finished: bool = False
    is_client_gone: bool = False

    async def receive(self) -> ASGIReceiveEvent:
        """Return the request with its whole body, and afterwards wait for the client to
        disconnect."""
        # The whole body is here before the application is called, so it is one message.
        if not self.is_read:
            self.is_read = True
            return HTTPRequestEvent(type="http.request", body=self.body, more_body=False)
        await self.writer.wait_disconnected()
        self.is_client_gone = True
        return HTTPDisconnectEvent(type="http.disconnect")

    async def send(self, event: ASGISendEvent) -> None:
        """Write a message of the application to the client."""
        if event["type"] == "http.response.start":
            fields = tuple((name.lower(), value) for name, value in event["headers"])
            # The framing is the listener's alone: a second length would be a smuggled response.
            kept = tuple((name, value) for name, value in fields if name not in LISTENER_FIELDS)
            length = _content_length(fields)
            await self.writer.begin(event["status"], kept, length=length)
            if length is None:  # A stream may last, and takes hardly any time.
                self.turn.end()
        elif event["type"] == "http.response.body" and not self.is_finished:
            # The bytes may wait for their reader, and so may a head without a body.
            self.turn.end()
            await self.writer.write(event.get("body", b""))
            if not event.get("more_body"):
                await self.writer.finish()
                self.is_finished = True

        await trio.lowlevel.checkpoint_if_cancelled()


def _content_length(fields: Headers) -> int | None:
    lengths = [value for name, value in fields if name == b"content-length"]
    if lengths:
        return int(lengths[0])
    return None


def _scope(head: RequestHead, context: RequestContext, take_turn: TakeTurn) -> HTTPScope:
    # ASGI wants the path decoded, and the raw one for whoever cares about encoded slashes.
    raw_path, _, query = head.target.partition(b"?")
    return HTTPScope(
        type="http",
        asgi={"spec_version": "2.3", "version": "3.0"},
        http_version="1.1",
        method=head.method,
        scheme="https" if context.is_secure else "http",
        path=unquote_to_bytes(raw_path).decode("utf-8", "replace"),
        raw_path=raw_path,
        query_string=query,
        root_path="",
        headers=list(head.headers),
        client=(context.client, 0),
        server=None,
        state=ConnectionState({}),
        extensions={_TURNS: take_turn},  # type: ignore[dict-item]  # One of our own.
    )
