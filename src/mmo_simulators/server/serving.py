"""Serves a simulator on a socket and sends its callbacks when they are due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import trio
from attrs import Factory, define, frozen

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.values.clock import SECOND, Instant
from mmo_simulators.common.controls import handle_control_request
from mmo_simulators.common.faults import DroppedConnection
from mmo_simulators.common.simulator import Simulator
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.http.server.connection import ListenerContext, ServerConnection
from mmo_trio.http.server.connection_table import ConnectionTable
from mmo_trio.http.server.deadline_timer import DeadlineTimer
from mmo_trio.http.streams import ConnectionListener, TransportStream, accepted_stream
from mmo_trio.system.ids import request_id_generator

BODY_BYTES_MAX: Final = 1024 * 1024
"""Largest request body in bytes."""

DOCS_URL: Final = "about:blank"
"""Base of the type URIs of the problems that the listener itself reports."""

UNSENT_RESPONSE: Final = HttpResponse(503)
"""Stands for the response to a dropped connection, which no longer takes any."""

SendCallback: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a callback; raises ExchangeFailed when there is no usable response."""


async def serve_simulator(
    simulator: Simulator,
    listeners: Sequence[ConnectionListener],
    *,
    send_callback: SendCallback,
    now: Callable[[], Instant],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve plain HTTP until cancelled, and send the callbacks."""
    server = _SimulatorServer(simulator, send_callback, now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.deadline_timer.run)
        await nursery.start(trio.serve_listeners, server.serve_connection, listeners)
        task_status.started()
        await server.send_due_callbacks()


@define(eq=False)
class _SimulatorServer:
    """Gives requests to a simulator, and sends its callbacks."""

    simulator: Simulator
    send_callback: SendCallback
    now: Callable[[], Instant]
    deadline_timer: DeadlineTimer = Factory(DeadlineTimer)
    _limits: ListenerLimits = Factory(ListenerLimits)
    _connections: ConnectionTable = Factory(lambda self: ConnectionTable(self._limits), True)
    _mint_request_id: Callable[[], str] = Factory(request_id_generator)
    _metrics: HttpMetrics = Factory(lambda: HttpMetrics(log_rejections=False))
    _changed: trio.Event = Factory(trio.Event)
    """Set whenever `next_due_at` may have changed; replaced then."""

    async def serve_connection(self, accepted: trio.SocketStream | TransportStream) -> None:
        """Serve one connection, which its handler may close in the middle of a request."""
        stream = accepted_stream(accepted)
        client = stream.peer_address()
        if client is None:
            stream.close()
            return
        context = ListenerContext(
            _ConnectionHandler(self, stream),
            self._limits,
            DOCS_URL,
            self._mint_request_id,
            self._metrics,
            self._connections,
            self.deadline_timer,
            drain=trio.Event(),
            tls=None,
        )
        connection = ServerConnection(context, stream, client)
        self._connections.add(connection)
        await connection.run()

    def handle_request(self, request: HttpRequest) -> HttpResponse | DroppedConnection:
        """Return the reaction of the simulator, or of its controls."""
        response = handle_control_request(self.simulator, request)
        reaction = response or self.simulator.handle_request(request, now=self.now())
        self._changed.set()
        return reaction

    async def send_due_callbacks(self) -> None:
        """Send each callback when it is due, for ever; a slow one delays no other."""
        async with trio.open_nursery() as telling:
            while True:
                self._changed = trio.Event()
                for request in self.simulator.take_due_callbacks(now=self.now()):
                    telling.start_soon(self._send, request)
                next_due = self.simulator.next_due_at()
                if next_due is None:
                    await self._changed.wait()
                    continue
                with trio.move_on_after(max(0.0, (next_due - self.now()) / SECOND)):
                    await self._changed.wait()

    async def _send(self, request: HttpRequest) -> None:
        answer: HttpResponse | None
        try:
            answer = await self.send_callback(request)
        except ExchangeFailed:
            answer = None
        self.simulator.on_callback_response(request, answer, now=self.now())
        self._changed.set()


@frozen
class _ConnectionHandler:
    """Handles the requests of one connection."""

    server: _SimulatorServer
    stream: TransportStream

    async def admit(self, head: RequestHead, context: RequestContext) -> Admitted:
        """Admit every body: the simulator itself judges requests."""
        return Admitted(BODY_BYTES_MAX, partial(self._respond, head))

    async def _respond(self, head: RequestHead, body: bytes) -> HttpResponse:
        reaction = self.server.handle_request(HttpRequest(head.method, head.target, head.headers, body))
        if isinstance(reaction, HttpResponse):
            return reaction
        await trio.sleep(reaction.close_after / SECOND)
        self.stream.close()
        return UNSENT_RESPONSE
