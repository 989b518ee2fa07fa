"""Helps `mmo listen` and `mmo simulate` to serve on a port of this machine until a signal."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import click
import trio

from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.cli.support.options import Command

# Loopback alone: what these commands serve trusts everybody who reaches it.
HOST = "127.0.0.1"


def port_option(default: int) -> Callable[[Command], Command]:
    return click.option(
        "--port",
        type=click.IntRange(0, 65_535),
        default=default,
        show_default=True,
        help="0 picks a free one.",
    )


async def open_local_listeners(port: int) -> tuple[Sequence[trio.SocketListener], int]:
    """Listen on the port; return the listeners and the bound port. Raises UsageProblem."""
    try:
        listeners = await trio.open_tcp_listeners(port, host=HOST)
    except OSError as error:
        raise UsageProblem(f"--port {port}: {error.strerror}. --port 0 picks a free one.") from None
    # The bound port, as 0 picks a free one.
    return listeners, listeners[0].socket.getsockname()[1]


@asynccontextmanager
async def serving_until_stopped() -> AsyncIterator[trio.Nursery]:
    """Open a nursery for servers; the end of the block waits for SIGINT or SIGTERM, and then
    cancels them.

    The signals are received from the beginning of the block: a caller that has read the address can
    stop the server."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            yield nursery
            await anext(signals)
            nursery.cancel_scope.cancel()
