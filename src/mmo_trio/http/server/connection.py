"""One connection from its first byte to its last: requests in, answers out, one at a time and in
order.

There is one cancel scope for the whole connection, whose deadline moves on from phase to phase:

    handshake ─▶ idle ─▶ head ─▶ (admit) ─▶ body ─▶ (respond) ─▶ write ─▶ idle … ─▶ linger

What happens when a deadline passes depends on the phase alone: late heads and bodies are answered
408, the rest is closed. While the service thinks there is no deadline; its time is its own matter.
A request costs no task, no channel and no scope of its own."""

from __future__ import annotations

import logging
import math
import ssl
from collections.abc import Callable

import trio
from attrs import frozen

from mmo_sansio.api.outgoing.problem_json import problem_response
from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.problems import Problem
from mmo_trio.http.handler import Admitted, HangUp, RequestContext, Service
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.rejections import LATE_BODY, LATE_HEAD, refuse
from mmo_trio.http.request_metrics import Traffic
from mmo_trio.http.responses import CONTINUE, answer_bytes
from mmo_trio.http.server.connection_table import Census
from mmo_trio.http.server.request_reader import Inbox, Opening
from mmo_trio.http.streams import LingeringStream
from mmo_trio.system.fault_report import describe_fault

logger = logging.getLogger(__name__)


@frozen
class House:
    """What all conversations of one listener share."""

    service: Service
    limits: ListenerLimits
    census: Census
    error_docs_url: str
    """Base of the `type` URIs of problems, without a slash at its end (P1)."""
    mint_request_id: Callable[[], str]
    """Gives every request its own id: ASCII letters, digits and hyphens."""
    drain: trio.Event
    """Once it is set, the next answer on a connection is its last."""
    tls: Callable[[], ssl.SSLContext] | None
    """Gives the context of one connection; None for clear HTTP."""
    traffic: Traffic
    """Where requests are counted, and refusals told."""

    def context(self, client: str) -> RequestContext:
        """What is known of a request that begins now."""
        return RequestContext(self.mint_request_id(), client, self.tls is not None)

    def refusal(self, problem: Problem, context: RequestContext) -> HttpResponse:
        """The answer that the problem becomes for this request."""
        return problem_response(problem, self.error_docs_url, context.request_id)


class _ClientLeftError(Exception):
    """The client closed or broke the connection in the middle of its own request."""


class Conversation:
    """One open connection, counted in the census by who accepted it. `run` owns it and sees it
    off."""

    def __init__(self, house: House, transport: LingeringStream, client: str) -> None:
        self.client = client
        self.idle_since = math.inf
        self._house = house
        self._limits = house.limits
        self._transport = transport
        self._stream: trio.abc.Stream = transport
        self._inbox = Inbox(house.limits.head)
        self._scope = trio.CancelScope()
        self._if_late: Problem | None = None
        self._context = RequestContext("", client, house.tls is not None)
        self._began = 0.0

    def leave_by(self, moment: float) -> None:
        """Close at this moment of Trio's time; asked of an idle connection only."""
        self._scope.deadline = min(self._scope.deadline, moment)

    async def run(self) -> None:
        """Hold the conversation to its end; raises nothing but cancellation."""
        try:
            with self._scope:
                await self._converse()
            if self._scope.cancelled_caught and self._if_late is not None:
                await self._refuse_late(self._if_late)
        except (_ClientLeftError, HangUp, trio.BrokenResourceError, ssl.SSLError):
            pass  # nobody is left to tell, or nothing shall be told
        except Exception as error:
            logger.error("a connection failed: %s", describe_fault(error))
        finally:
            self._transport.close()
            self._house.census.leave(self)

    async def _converse(self) -> None:
        if self._house.tls is not None:
            self._allow(self._limits.handshake_timeout_s)
            self._stream = tls = trio.SSLStream(
                self._transport, self._house.tls(), server_side=True
            )
            await tls.do_handshake()
        while await self._another_begins():
            if not await self._exchange():
                break
        self._allow(self._limits.linger_timeout_s)
        await self._stream.aclose()

    async def _another_begins(self) -> bool:
        """Whether a next request begins; False when the client is done, or we are."""
        if not self._inbox.is_empty:
            await trio.lowlevel.checkpoint()  # Who pipelines lets others have their turn.
            return True
        census = self._house.census
        now = trio.current_time()
        if self._house.drain.is_set() and now >= census.idle_until:
            return False
        self.idle_since = now
        self._scope.deadline = min(now + census.idle_timeout_s, census.idle_until)
        data = await self._stream.receive_some()
        self.idle_since = math.inf
        self._inbox.receive(data)
        return bool(data)

    async def _exchange(self) -> bool:
        """Read one request and answer it; whether another one may follow on this connection."""
        self._context = context = self._house.context(self.client)
        self._began = trio.current_time()
        opening: Opening | None = None
        try:
            opening = await self._read_head()
            answer, may_follow = await self._consult(opening, context)
            wire = self._to_wire(answer, opening, may_follow)
        except (_ClientLeftError, HangUp):
            raise
        except Exception as error:
            problem = refuse(error, context, self._house.traffic)
            answer, may_follow = self._house.refusal(problem, context), False
            wire = self._to_wire(answer, opening, may_follow)
        self._if_late = None
        self._house.traffic.answered(context, answer.status, trio.current_time() - self._began)
        await self._send(wire)
        return may_follow

    async def _send(self, wire: bytes) -> None:
        """Send an answer; what the socket takes at once, which is nearly every one, needs no
        deadline."""
        if self._stream is self._transport:
            wire = self._transport.send_now(wire)
        if wire:
            self._allow(self._limits.write_timeout_s)
            await self._stream.send_all(wire)

    async def _consult(
        self, opening: Opening, context: RequestContext
    ) -> tuple[HttpResponse, bool]:
        """The service's answer, and whether another request may follow it."""
        answer = await self._house.service.admit(opening.head, context)
        if isinstance(answer, Admitted):
            body = await self._read_body(opening, answer.body_limit)
            answer, is_read = await answer.respond(body), True
        else:
            is_read = self._inbox.skip_body()
        if isinstance(answer, Problem):
            self._house.traffic.refused(context, answer)
            answer = self._house.refusal(answer, context)
        return answer, is_read and opening.keep_alive and not self._house.drain.is_set()

    async def _read_head(self) -> Opening:
        while (opening := self._inbox.next_head()) is None:
            if self._if_late is None:
                self._if_late = LATE_HEAD
                self._allow(self._limits.head_timeout_s)
            await self._receive()
        await self._lift_deadline()
        return opening

    async def _read_body(self, opening: Opening, limit: int) -> bytes:
        body = self._inbox.next_body(limit)
        if body is None:
            self._if_late = LATE_BODY
            self._allow(self._limits.body_timeout_s)
            if opening.expects_continue and self._inbox.is_empty:
                await self._invite_body()
            while body is None:
                await self._receive()
                body = self._inbox.next_body(limit)
            await self._lift_deadline()
        return body

    async def _invite_body(self) -> None:
        try:
            await self._stream.send_all(CONTINUE)
        except trio.BrokenResourceError as error:
            raise _ClientLeftError from error

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive_some()
        except trio.BrokenResourceError as error:
            raise _ClientLeftError from error
        if not data:
            raise _ClientLeftError
        self._inbox.receive(data)

    async def _refuse_late(self, problem: Problem) -> None:
        traffic, context = self._house.traffic, self._context
        traffic.refused(context, problem)
        traffic.answered(context, problem.status, trio.current_time() - self._began)
        answer = self._house.refusal(problem, context)
        with trio.move_on_after(self._limits.linger_timeout_s):
            await self._stream.send_all(self._to_wire(answer, None, may_follow=False))
            await self._stream.aclose()

    def _to_wire(self, answer: HttpResponse, opening: Opening | None, may_follow: bool) -> bytes:
        connection = b"close"
        if may_follow:
            is_old = opening is not None and opening.version == b"1.0"
            connection = b"keep-alive" if is_old else b""
        return answer_bytes(
            answer,
            request_id=self._context.request_id,
            connection=connection,
            without_body=opening is not None and opening.head.method == "HEAD",
        )

    def _allow(self, seconds: float) -> None:
        """The phase that begins now may take this long in all."""
        self._scope.deadline = trio.current_time() + seconds

    async def _lift_deadline(self) -> None:
        """The request came in time: the service may think. One that came too late stops here, so
        that the service never begins what would be cancelled at once."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._if_late = None
        self._scope.deadline = math.inf
