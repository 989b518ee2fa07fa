"""Keeps connections to merchants' receivers for the next callback, where a receiver announces that it does, too.

A callback has one attempt, and a request that meets the close of its connection is lost, as nobody can tell whether it
was read. So a connection is kept only if the receiver announces a time (`Keep-Alive: timeout=5`), for a fraction of
that time, and after a delivered request. What is kept serves busy merchants: nearly all of what a callback costs is its
TLS handshake.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

import trio
from attrs import Factory, define

from mmo_sansio.http.response_head import FinalResponseHead
from mmo_trio.http.client.outside_network import SecuredStream
from mmo_trio.http.client.tls import TlsStream
from mmo_trio.http.streams import TransportStream

IDLE_S: Final = 0.5
"""Seconds for which an idle connection is kept. A merchant with several callbacks a second needs no more."""
ANNOUNCED_IDLE_MIN_S: Final = 2
"""The shortest time that a receiver may announce for its connection to be kept: the request is on its way in between,
and neither clock is exact."""
AGE_MAX_S: Final = 10.0
"""Seconds after which a connection is replaced, so that name, addresses and certificate are checked again (K7)."""
KEPT_MAX: Final = 512
"""Idle connections in all; beyond it the one that has waited longest is closed."""

ReceiverKey: TypeAlias = tuple[str, str, str, int]
"""Names whose connection to what it is: brand, scheme, host and port. No connection serves two brands."""


@define(eq=False)
class KeptConnection:
    """An idle connection, or one that may become idle."""

    stream: SecuredStream
    transport: TransportStream
    """What the stream is secured on, or itself."""
    opened_at: float
    """Trio's time at which its server had proved itself."""
    idle_since: float = 0.0


@define(eq=False)
class KeptConnections:
    """Holds the idle connections of a client. A task closes those that have waited too long, and ends with the last."""

    _idle: dict[ReceiverKey, deque[KeptConnection]] = Factory(dict)
    """The longest idle first; no queue is empty."""
    _count: int = 0
    _is_swept: bool = False

    def take(self, key: ReceiverKey) -> KeptConnection | None:
        """Return the connection that was used last, if it is open, silent and young; the caller owns it."""
        now = trio.current_time()
        while (waiting := self._idle.get(key)) is not None:
            connection = self._remove(key, waiting.pop())
            is_young = now < min(connection.idle_since + IDLE_S, connection.opened_at + AGE_MAX_S)
            if is_young and connection.transport.is_silent():
                return connection
            connection.transport.close()
        return None

    def keep(self, key: ReceiverKey, connection: KeptConnection) -> bool:
        """Take over a connection whose last response was read to its end, or return False when more than that came."""
        if isinstance(connection.stream, TlsStream) and connection.stream.has_unread:
            return False
        connection.idle_since = trio.current_time()
        self._idle.setdefault(key, deque()).append(connection)
        self._count += 1
        if self._count > KEPT_MAX:
            self._close_first(min(self._idle, key=lambda each: self._idle[each][0].idle_since))
        if not self._is_swept:
            self._is_swept = True
            trio.lowlevel.spawn_system_task(self._sweep)
        return True

    def _remove(self, key: ReceiverKey, taken: KeptConnection) -> KeptConnection:
        self._count -= 1
        if not self._idle[key]:
            del self._idle[key]
        return taken

    def _close_first(self, key: ReceiverKey) -> None:
        self._remove(key, self._idle[key].popleft()).transport.close()

    async def _sweep(self) -> None:
        """Close what has waited too long; at the end of the process, all."""
        try:
            while self._idle:
                await trio.sleep(IDLE_S)
                oldest = trio.current_time() - IDLE_S
                for key in tuple(self._idle):
                    while key in self._idle and self._idle[key][0].idle_since <= oldest:
                        self._close_first(key)
        finally:
            self._is_swept = False
            for key in tuple(self._idle):
                while key in self._idle:
                    self._close_first(key)


def may_keep(head: FinalResponseHead) -> bool:
    """Tell whether the connection may be kept after a response with this head, once its body has been read."""
    idle_s = head.announced_idle_s
    return idle_s is not None and idle_s >= ANNOUNCED_IDLE_MIN_S and 200 <= head.status <= 299
