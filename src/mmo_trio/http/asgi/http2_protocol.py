"""What HTTP/2 uses of Hypercorn beyond its documentation. No other module may: each minor release
of Hypercorn may change it, so only known ones are used."""

from __future__ import annotations

from mmo_trio.system.known_releases import HYPERCORN

if (fault := HYPERCORN.fault()) is not None:  # Before anything is imported from it.
    raise ImportError(fault)

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import h2.errors
import h2.events
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import events
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import EventWrapper, WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState

__all__ = ["Closed", "Event", "RawData", "TaskGroup", "Updated", "open_protocol"]

STREAMS_MAX: Final = 8
"""Requests that one connection may have open; the client waits with further ones."""


class _End(EventWrapper):
    """Tells Hypercorn whether a connection ends with the requests that it has, as no connection may
    wait any more."""

    def __init__(self, is_ending: Callable[[], bool]) -> None:
        super().__init__()
        self._is_ending = is_ending

    def is_set(self) -> bool:
        return self._is_ending()


class _Protocol(H2Protocol):
    """Keeps a connection, and the other requests on it, where Hypercorn would break it off."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sent = trio.Event()

    async def _send_data(self, stream_id: int) -> None:
        await super()._send_data(stream_id)
        if stream_id not in self.stream_buffers:
            self._sent.set()
            self._sent = trio.Event()

    async def _handle_events(self, received: list[h2.events.Event]) -> None:
        for event in received:
            if isinstance(event, h2.events.RequestReceived) and self.context.terminated.is_set():
                # The client knows by this code that it may send the request again (RFC 9113 section
                # 8.7).
                self.connection.reset_stream(event.stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            elif isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                # It belongs to a request that has its answer already.
                self.connection.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id
                )
            else:
                await super()._handle_events([event])
        await self._flush()

    async def stream_send(self, event: events.Event) -> None:
        """Send what the app has answered; a drained connection ends with the last frame of it."""
        if isinstance(event, events.StreamClosed):
            while (
                buffer := self.stream_buffers.get(event.stream_id)
            ) is not None and buffer.complete:
                await self._sent.wait()
        await super().stream_send(event)


def open_protocol(
    app: ASGIFramework,
    tasks: TaskGroup,
    handle_event: Callable[[Event], Awaitable[None]],
    *,
    client: str,
    has_tls: bool,
    head_bytes_max: int,
    is_ending: Callable[[], bool],
) -> H2Protocol:
    """Return Hypercorn's protocol for one connection: it takes what the client has sent, runs the
    app for each request, and passes on what is to be sent."""
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.h2_max_header_list_size = head_bytes_max
    config.h2_max_concurrent_streams = STREAMS_MAX
    # Beyond it Hypercorn drops the answers that are still to come.
    config.keep_alive_max_requests = sys.maxsize

    worker = WorkerContext(None)
    worker.terminated = _End(is_ending)
    network = (has_tls, (client, 0), None)
    return _Protocol(
        ASGIWrapper(app), config, worker, tasks, ConnectionState({}), *network, handle_event
    )
