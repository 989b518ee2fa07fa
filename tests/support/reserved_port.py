"""Reserves ports for servers that must be told theirs, as they can't take any and say which."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def reserved_port(count: int = 1) -> Iterator[int]:
    """Yield a port of loopback that only a server which is told its number gets during the block,
    however often it starts again. `count`: how many, of which this is the first.

    Linux gives a bound port to nobody who asks for any port, and to no connection. A server may
    have it all the same, as servers set SO_REUSEADDR, and this socket sets it too and does not
    listen."""
    with ExitStack() as held:
        while True:
            sockets = [held.enter_context(socket.socket()) for _ in range(count)]
            with suppress(
                OSError, OverflowError
            ):  # One of the ports after it is in use, or none is.
                first = _bind(sockets[0], 0)
                for number, each in enumerate(sockets[1:], first + 1):
                    _bind(each, number)
                break
        yield first


def _bind(to_hold: socket.socket, port: int) -> int:
    """Return the port."""
    to_hold.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    to_hold.bind(("127.0.0.1", port))
    bound: int = to_hold.getsockname()[1]
    return bound
