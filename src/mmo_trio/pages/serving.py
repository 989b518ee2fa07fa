"""Serves a Quart-Trio app under Hypercorn on a socket that is open already, until told to drain."""

from __future__ import annotations

from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, Scope
from quart_trio import QuartTrio

GRACE_S = 5.0
"""How long requests in flight may take once the listener drains."""

HEAD_BYTES_MAX = 16 * 1024
READ_TIMEOUT_S = 10
"""How long a connection may be silent, which Hypercorn counts while we work on the answer as well."""
KEEP_ALIVE_S = 30


async def serve_app(
    app: QuartTrio,
    descriptor: int,
    *,
    drain: trio.Event,
    certificate: tuple[str, str] | None = None,
    read_timeout_s: int | None = READ_TIMEOUT_S,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on the listening socket with this descriptor, ours from now on, until `drain` is set.

    `certificate` names the files of a chain and its key; None serves in the clear. `read_timeout_s` of None gives
    every answer the time that it takes.
    """
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.accesslog = None
    config.errorlog = None
    config.graceful_timeout = GRACE_S
    config.h11_max_incomplete_size = HEAD_BYTES_MAX
    config.keep_alive_timeout = KEEP_ALIVE_S
    config.read_timeout = read_timeout_s
    config.include_server_header = False
    if certificate is not None:
        config.certfile, config.keyfile = certificate
    async with trio.open_nursery() as nursery:
        await nursery.start(
            lambda task_status: serve(
                _Whole(app),
                config,
                shutdown_trigger=drain.wait,
                task_status=task_status,
            )
        )
        task_status.started()


class _Whole:
    """The app with a `send` that always finishes.

    Hypercorn announces the disconnect while it still sends the last piece of a body; Quart-Trio then cancels the task
    that is inside that very `send`, and the socket would never be closed.
    """

    def __init__(self, app: QuartTrio) -> None:
        self._app = app

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        async def send_whole(event: ASGISendEvent) -> None:
            with trio.CancelScope(shield=True):
                await send(event)

        app: Any = self._app
        await app(scope, receive, send_whole)
