"""Passes connections to a server that may move or be away, and loses some of its answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import trio
from attrs import define

BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


@define(eq=False)
class LossyProxy:
    """Says where connections are passed to."""

    port: int
    random: Random
    loss: float
    """The share of the server's answers that are lost, with the connection."""
    server_port: int | None = None
    """None: connections are closed at once."""
    lost: int = 0

    async def serve(self, client: trio.SocketStream) -> None:
        """Pass one connection."""
        if self.server_port is None:
            return
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self.server_port)
            async with server, trio.open_nursery() as nursery:
                nursery.start_soon(self._pass, client, server, nursery.cancel_scope, 0.0)
                nursery.start_soon(self._pass, server, client, nursery.cancel_scope, self.loss)
        except* BROKEN:
            pass

    async def _pass(
        self,
        source: trio.SocketStream,
        sink: trio.SocketStream,
        scope: trio.CancelScope,
        loss: float,
    ) -> None:
        async for octets in source:
            if self.random.random() < loss:
                self.lost += 1
                break
            await sink.send_all(octets)
        scope.cancel()


@asynccontextmanager
async def lossy_proxy(*, loss: float, seed: int) -> AsyncIterator[LossyProxy]:
    """Accept connections during the block."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy = LossyProxy(listener.socket.getsockname()[1], Random(seed), loss)
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
