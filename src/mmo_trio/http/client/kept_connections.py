"""Keeps connections to merchants' receivers for the next callback, where a receiver announces that
it does, too, and connections to operators for the next question.

A callback has one attempt, and a request that meets the close of its connection is lost, as nobody
can tell whether it was read. So a connection is kept only if the receiver announces a time
(`Keep-Alive: timeout=5`), for half of that time at most, and after a delivered request. What is
kept serves busy merchants: nearly all of what a callback costs is its TLS handshake. Callbacks come
in bursts, so a merchant has more connections than it uses on average; were they closed between two
bursts, every seventh callback at 1,000 a second would begin with a handshake."""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

import trio
from attrs import Factory, define

from mmo_sansio.http.response_reader import FinalResponseHead
from mmo_trio.http.client.outside_network import SecuredStream, TlsStream
from mmo_trio.http.streams import TransportStream

# The longest time in seconds for which an idle connection is kept.
IDLE_MAX_S: Final = 5.0

# Seconds that are left at least of the announced time: the request is on its way in between, and
# neither clock is exact.
IDLE_MARGIN_S: Final = 1.5

# Seconds between two searches for idle connections that have waited too long.
SWEEP_INTERVAL_S: Final = 0.5

# Seconds after which a connection is replaced at the latest, so that name, addresses and
# certificate are checked again (K7).
AGE_MAX_S: Final = 10.0

# In how many steps, down to half of `AGE_MAX_S`, the ages of connections differ that were opened
# together: their successors' handshakes come one after the other, and no burst of them makes other
# callbacks wait.
AGE_STEPS: Final = 8

# Idle connections in all; beyond it the one that has waited longest is closed.
KEPT_MAX: Final = 512

# Names whose connection to what it is: brand, scheme, host and port. No connection serves two
# brands.
ReceiverKey: TypeAlias = tuple[str, str, str, int]


@define(eq=False)
class KeptConnection:
    """An idle connection, or one that may become idle."""

    stream: SecuredStream
    transport: TransportStream
    """What the stream is secured on, or itself."""
    opened_at: float
    """Trio's time at which its server had proved itself."""
    idle_until: float = 0.0
    """Trio's time until which it is kept."""


@define(eq=False)
class KeptConnections:
    """Holds the idle connections of a client. A task closes those that have waited too long, and
    ends with the last."""

    _idle: dict[ReceiverKey, deque[KeptConnection]] = Factory(dict)
    """The longest idle first; no queue is empty."""
    _keys: dict[KeptConnection, ReceiverKey] = Factory(dict)
    """The same connections, of all receivers, the longest idle first."""
    _is_swept: bool = False

    def take(self, key: ReceiverKey) -> KeptConnection | None:
        """Return the connection that was used last, if it is open, silent and young; the caller
        owns it."""
        now = trio.current_time()
        while (waiting := self._idle.get(key)) is not None:
            # The latest first: the others may then reach their time and be closed.
            connection = waiting.pop()
            self._forget(connection)
            is_young = now < min(
                connection.idle_until,
                connection.opened_at + age_max_s(connection.transport.descriptor),
            )
            # A close, or a byte that nobody asked for, shows here before a request is lost to it.
            if is_young and connection.transport.is_silent():
                return connection

            connection.transport.close()

        return None

    def keep(self, key: ReceiverKey, connection: KeptConnection, *, for_s: float) -> bool:
        """Take over a connection whose last response was read to its end, for so many seconds.
        Return False when that is no time, or when more than the response came."""
        if for_s <= 0 or (
            isinstance(connection.stream, TlsStream) and connection.stream.has_unread
        ):
            return False

        connection.idle_until = trio.current_time() + for_s
        self._idle.setdefault(key, deque()).append(connection)
        self._keys[connection] = key
        if len(self._keys) > KEPT_MAX:
            self._close(next(iter(self._keys)))

        if not self._is_swept:
            self._is_swept = True
            trio.lowlevel.spawn_system_task(self._sweep)

        return True

    def _forget(self, connection: KeptConnection) -> None:
        """Remove a connection that is no longer in its queue."""
        key = self._keys.pop(connection)
        if not self._idle[key]:
            del self._idle[key]

    def _close(self, connection: KeptConnection) -> None:
        self._idle[self._keys[connection]].remove(connection)
        self._forget(connection)
        connection.transport.close()

    async def _sweep(self) -> None:
        """Close what has waited too long; at the end of the process, all."""
        try:
            while self._keys:
                await trio.sleep(SWEEP_INTERVAL_S)
                now = trio.current_time()
                # A copy, as closing changes the table.
                for connection in [key for key in self._keys if key.idle_until <= now]:
                    self._close(connection)
        finally:
            self._is_swept = False
            for connection in tuple(self._keys):
                self._close(connection)


def age_max_s(descriptor: int) -> float:
    """Return the age in seconds at which the connection with this descriptor is replaced: another
    one for each of `AGE_STEPS` neighbours."""
    return AGE_MAX_S * (1 - descriptor % AGE_STEPS / (2 * AGE_STEPS))


def keep_time_s(head: FinalResponseHead, *, is_question: bool) -> float:
    """Return for how many seconds the connection may be kept after a response with this head, once
    its body has been read; 0 for not at all."""
    announced_s = head.announced_idle_s

    # A server in trouble may close at any moment, whatever it announces.
    if not (head.is_persistent and 200 <= head.status <= 299):
        return 0.0
    if announced_s is None:
        if is_question:
            return IDLE_MAX_S
        return 0.0

    # Half of it, or what the margin leaves: its clock began when it sent the answer.
    return max(0.0, min(announced_s / 2, announced_s - IDLE_MARGIN_S, IDLE_MAX_S))
