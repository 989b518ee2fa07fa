"""Looks up the addresses of a host name."""

from __future__ import annotations

import socket
from typing import Protocol

import trio

LOOKUPS_MAX = 256
"""Name look-ups that run at a time. They run in threads of their own, as one that hangs keeps its
thread for as long as the system's resolver waits, and no other work may queue behind it (K6)."""


class Resolver(Protocol):
    """Looks up the addresses of hosts."""

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return the addresses of this host name, best first, as text; raises OSError when there
        are none."""
        ...


class SystemResolver:
    """Calls the system's resolver (getaddrinfo), with its hosts file and its order of preference
    (RFC 6724)."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(LOOKUPS_MAX)

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return the addresses of this host name, best first. A cancelled look-up ends by itself;
        until then it counts against LOOKUPS_MAX."""

        def look_up() -> list[str]:
            addresses = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
            return [str(address[0]) for *_, address in addresses]

        return await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=self._limiter)
