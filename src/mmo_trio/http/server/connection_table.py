"""Who is connected to a listener: the caps, the idle ones, and what is asked of all when it gets
crowded."""

from __future__ import annotations

import math
from collections import Counter
from typing import Protocol

from mmo_sansio.http.listener_limits import ListenerLimits


class TrackedConnection(Protocol):
    """One open connection, as far as the census cares."""

    client: str
    """The address it came from; empty for a Unix socket, which has none to count by."""
    idle_since: float
    """Trio's time since when it waits for a request; infinity while it is busy."""

    def close_at(self, deadline: float) -> None:
        """Be gone at this moment of Trio's time unless a request begins before it."""
        ...


class ConnectionTable:
    """The open connections of one listener."""

    def __init__(self, limits: ListenerLimits) -> None:
        self._limits = limits
        self._connections: set[TrackedConnection] = set()
        self._per_address: Counter[str] = Counter()
        self.idle_timeout_s = limits.idle_timeout_s
        """What a connection is granted now that begins to wait for a request."""
        self.idle_deadline = math.inf
        """From this moment of Trio's time on none waits for a request."""

    def __len__(self) -> int:
        return len(self._connections)

    def has_room_for(self, client: str) -> bool:
        """Whether one more connection from this address keeps within the limits."""
        return len(self._connections) < self._limits.connections and (
            self._per_address[client] < self._limits.connections_per_address or not client
        )

    def add(self, connection: TrackedConnection) -> None:
        """Count one connection, until `leave`."""
        self._connections.add(connection)
        self._per_address[connection.client] += 1
        if len(self._connections) >= self._limits.short_idle_threshold:
            self.shorten_idle_timeout()
        else:
            self.idle_timeout_s = self._limits.idle_timeout_s

    def remove(self, connection: TrackedConnection) -> None:
        """The connection is closed."""
        self._connections.discard(connection)
        self._per_address[connection.client] -= 1
        if not self._per_address[connection.client]:
            del self._per_address[connection.client]

    def shorten_idle_timeout(self) -> None:
        """Connections or descriptors run short: idle ones get the short idle time, now and from now
        on, until a connection enters that finds room again."""
        if self.idle_timeout_s != self._limits.short_idle_timeout_s:
            self.idle_timeout_s = self._limits.short_idle_timeout_s
            self._close_idle_after(self.idle_timeout_s)

    def close_idle_at(self, deadline: float) -> None:
        """From this moment of Trio's time on nobody needs to wait for a request any longer."""
        self.idle_deadline = deadline
        for resident in self._connections:
            if resident.idle_since < math.inf:
                resident.close_at(deadline)

    def _close_idle_after(self, after_s: float) -> None:
        for resident in self._connections:
            if resident.idle_since < math.inf:
                resident.close_at(resident.idle_since + after_s)
