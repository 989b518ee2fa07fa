"""Looking names up: which addresses a host has."""

from __future__ import annotations

import socket
from typing import Protocol

import trio

LOOKUPS_MAX = 256
"""Name look-ups under way at a time. They run in threads of their own, as one that hangs holds its
thread for as long as the system's resolver waits, and nobody else's work may queue behind it
(K6)."""


class Resolver(Protocol):
    """Whatever knows the addresses of a host."""

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of this host name, best first, in text; raises OSError when there are
        none."""
        ...


class SystemResolver:
    """The system's resolver (getaddrinfo), with its hosts file and its order of preference (RFC
    6724)."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(LOOKUPS_MAX)

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of this host name, best first. A look-up that nobody waits for any more
        ends by itself; until then it counts against LOOKUPS_MAX."""

        def look_up() -> list[str]:
            found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
            return [str(address[0]) for *_, address in found]

        return await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=self._limiter)
