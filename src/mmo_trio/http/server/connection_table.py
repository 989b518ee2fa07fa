"""Counts the connections of a listener, applies their limits and closes idle ones under load."""

from __future__ import annotations

import math
from collections import Counter
from typing import Protocol

from mmo_sansio.http.ip_rules import subscriber_network
from mmo_sansio.http.listener_limits import ListenerLimits


class TrackedConnection(Protocol):
    """One open connection, as far as the table needs to know it."""

    client: str
    """The address of the client; empty for a Unix socket, which has none to count by."""
    idle_since: float
    """Trio's time when it began to wait for a request; infinity while it is busy."""

    def close_at(self, deadline: float) -> None:
        """Close at this moment of Trio's time unless a request begins before it."""
        ...


class ConnectionTable:
    """Tracks the open connections of one listener."""

    def __init__(self, limits: ListenerLimits) -> None:
        self._limits = limits
        self._connections: dict[TrackedConnection, str] = {}
        self._per_network: Counter[str] = Counter()
        self.idle_timeout_s = limits.idle_timeout_s
        """The idle timeout of a connection that begins to wait now."""
        self.idle_deadline = math.inf
        """The moment of Trio's time after which no connection waits for a request."""

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def is_full(self) -> bool:
        """Whether the limit of connections in all is reached."""
        return len(self._connections) >= self._limits.connections

    def has_room_for(self, client: str) -> bool:
        """Return whether the limits allow one more connection from this address."""
        return not self.is_full and (
            self._per_network[subscriber_network(client)] < self._limits.connections_per_address or not client
        )

    def add(self, connection: TrackedConnection) -> None:
        """Count one connection until it is removed."""
        self._connections[connection] = network = subscriber_network(connection.client)
        self._per_network[network] += 1
        if len(self._connections) >= self._limits.short_idle_threshold:
            self.shorten_idle_timeout()
        else:
            self.idle_timeout_s = self._limits.idle_timeout_s

    def remove(self, connection: TrackedConnection) -> None:
        """Remove a closed connection."""
        network = self._connections.pop(connection)
        self._per_network[network] -= 1
        if not self._per_network[network]:
            del self._per_network[network]

    def shorten_idle_timeout(self) -> None:
        """Apply the short idle timeout, as connections or descriptors run short, until a connection is added that finds
        enough room again."""
        if self.idle_timeout_s != self._limits.short_idle_timeout_s:
            self.idle_timeout_s = self._limits.short_idle_timeout_s
            for connection in self._connections:
                if connection.idle_since < math.inf:
                    connection.close_at(connection.idle_since + self.idle_timeout_s)

    def close_idle_at(self, deadline: float) -> None:
        """Close every connection that waits for a request at this moment of Trio's time."""
        self.idle_deadline = deadline
        for connection in self._connections:
            if connection.idle_since < math.inf:
                connection.close_at(deadline)
