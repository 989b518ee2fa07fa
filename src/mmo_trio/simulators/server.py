"""A simulator on a socket: requests in, answers or none out, and callbacks sent when their time comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import trio
from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.values.clock import SECOND, Instant
from mmo_trio.http.handler import Admitted, CloseWithoutResponse, RequestContext
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.server.listener import serve_http
from mmo_trio.simulators.base import DroppedConnection, Simulator, handle_control_request
from mmo_trio.system.ids import request_id_generator

BODY_BYTES_MAX: Final = 1024 * 1024
"""Bytes that a request to a simulator may have."""

DOCS_URL: Final = "about:blank"
"""Base of the type URIs of problems that the listener finds by itself."""

SendCallback: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a callback; raises ExchangeFailed when there is no usable answer."""


async def serve_simulator(
    simulator: Simulator,
    listeners: Sequence[trio.SocketListener],
    *,
    send_callback: SendCallback,
    now: Callable[[], Instant],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve in clear HTTP until cancelled, and send the callbacks."""
    theatre = _SimulatorHandler(simulator, send_callback, now)
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                serve_http,
                theatre,
                listeners,
                limits=ListenerLimits(),
                error_docs_url=DOCS_URL,
                mint_request_id=request_id_generator(),
                drain=trio.Event(),
            )
        )
        task_status.started()
        await theatre.send_due_callbacks()


@define(eq=False)
class _SimulatorHandler:
    """The service, and the teller of callbacks."""

    simulator: Simulator
    send_callback: SendCallback
    now: Callable[[], Instant]
    _changed: trio.Event = Factory(trio.Event)
    """Set whenever `next_due_at` may have changed; replaced then."""

    async def admit(self, head: RequestHead, context: RequestContext) -> Admitted:
        """Everything is read; what to think of it is the simulator's business."""
        return Admitted(BODY_BYTES_MAX, partial(self._respond, head))

    async def _respond(self, head: RequestHead, body: bytes) -> HttpResponse:
        request = HttpRequest(head.method, head.target, head.headers, body)
        answer = handle_control_request(self.simulator, request)
        reaction = answer or self.simulator.handle_request(request, now=self.now())
        self._changed.set()
        if isinstance(reaction, DroppedConnection):
            await trio.sleep(reaction.close_after / SECOND)
            raise CloseWithoutResponse
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
