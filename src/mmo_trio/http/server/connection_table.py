"""Counts the connections of a listener, applies their limits and closes idle ones under load: a full listener makes
room."""

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
    waiting_since: float
    """The same, but it waits until the head of the request is whole; before the first one also for TLS."""

    def close_at(self, deadline: float) -> None:
        """Close at this moment of Trio's time unless a request begins before it."""
        ...

    def break_off(self) -> None:
        """Close without a word."""
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

    def has_share_left(self, client: str) -> bool:
        """Return whether the network of this address has fewer connections than one may have."""
        return self._per_network[subscriber_network(client)] < self._limits.connections_per_address or not client

    def make_room(self) -> bool:
        """Break off the connection that has waited longest for a request, of the network that holds most; return
        whether there is one, as none of those that have sent theirs is ended."""
        waiting = ((each, network) for each, network in self._connections.items() if each.waiting_since < math.inf)
        longest = max(waiting, key=lambda each: (self._per_network[each[1]], -each[0].waiting_since), default=None)
        if longest is None:
            return False
        longest[0].break_off()
        self.remove(longest[0])
        return True

    def add(self, connection: TrackedConnection) -> None:
        """Count one connection until it is removed."""
        self._connections[connection] = network = subscriber_network(connection.client)
        self._per_network[network] += 1
        if len(self._connections) >= self._limits.short_idle_threshold:
            self.shorten_idle_timeout()
        else:
            self.idle_timeout_s = self._limits.idle_timeout_s

    def remove(self, connection: TrackedConnection) -> None:
        """Remove a closed connection; a second call does nothing."""
        network = self._connections.pop(connection, None)
        if network is None:
            return
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
