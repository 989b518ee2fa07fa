"""Serves a simulator by plain HTTP, and sends its callbacks when they are due."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import trio
from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.values.clock import SECOND, Instant
from mmo_simulators.common.controls import handle_control_request
from mmo_simulators.common.faults import DroppedConnection
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.server.callbacks import SendCallback, call_back, system_streams
from mmo_simulators.server.connection import SimulatorConnection

StreamT = TypeVar("StreamT", bound=trio.abc.Stream)


def system_now() -> Instant:
    """Return the time by the system's clock."""
    return Instant(time.time_ns() // 1_000)


@asynccontextmanager
async def serve(
    simulator: Simulator,
    *,
    port: int = 0,
    now: Callable[[], Instant] = system_now,
    send_callback: SendCallback | None = None,
) -> AsyncIterator[str]:
    """Serve a simulator on this machine during the block; gives its origin, such as
    `http://127.0.0.1:8090`.

    Port 0 is any free one. `now` is the operator's clock. `send_callback` None: over the
    system's network. Raises OSError when the port is in use."""
    # This machine only: it has no TLS, and its controls no password.
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(serve_on_listeners, simulator, listeners, now=now, send_callback=send_callback)
        )
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def serve_on_listeners(
    simulator: Simulator,
    listeners: Sequence[trio.abc.Listener[StreamT]],
    *,
    now: Callable[[], Instant] = system_now,
    send_callback: SendCallback | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a simulator on these listeners until cancelled, and send its callbacks; the rest is as
    in `serve`."""
    server = _SimulatorServer(
        simulator, now, send_callback or partial(call_back, open_stream=system_streams())
    )
    async with trio.open_nursery() as nursery:
        # Started once the port accepts: a test may connect at once.
        await nursery.start(trio.serve_listeners, server.serve_connection, listeners)
        task_status.started()
        await server.send_due_callbacks()


@define(eq=False)
class _SimulatorServer:
    """Gives requests to a simulator, and sends its callbacks."""

    _simulator: Simulator
    _now: Callable[[], Instant]
    _send_callback: SendCallback
    _changed: trio.Event = Factory(trio.Event)
    """Set whenever `next_due_at` may have changed; replaced then."""

    async def serve_connection(self, stream: trio.abc.Stream) -> None:
        """Serve one connection."""
        await SimulatorConnection(stream, self._respond, self._now).serve()

    async def send_due_callbacks(self) -> None:
        """Send each callback when it is due, for ever; a slow one delays no other."""
        async with trio.open_nursery() as telling:
            while True:
                # Made before it looks, so that what is scheduled meanwhile wakes it.
                self._changed = trio.Event()
                for request in self._simulator.take_due_callbacks(now=self._now()):
                    telling.start_soon(self._tell, request)
                next_due = self._simulator.next_due_at()
                if next_due is None:
                    await self._changed.wait()
                    continue
                with trio.move_on_after(max(0.0, (next_due - self._now()) / SECOND)):
                    await self._changed.wait()

    def _respond(self, request: HttpRequest) -> HttpResponse | DroppedConnection:
        response = handle_control_request(self._simulator, request)
        # A request may have scheduled a callback, also where its answer is lost.
        reaction = response or self._simulator.handle_request(request, now=self._now())
        self._changed.set()
        return reaction

    async def _tell(self, request: HttpRequest) -> None:
        response: HttpResponse | None
        try:
            response = await self._send_callback(request)
        except ExchangeFailed:
            # No answer is one too: most operators send such a callback again.
            response = None
        self._simulator.on_callback_response(request, response, now=self._now())
        self._changed.set()
