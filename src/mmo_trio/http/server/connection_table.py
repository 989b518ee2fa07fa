"""Who is connected to a listener: the caps, the idle ones, and what is asked of all when it gets
crowded."""

from __future__ import annotations

import math
from collections import Counter
from typing import Protocol

from mmo_trio.http.limits import ListenerLimits


class Resident(Protocol):
    """One open connection, as far as the census cares."""

    client: str
    """The address it came from; empty for a Unix socket, which has none to count by."""
    idle_since: float
    """Trio's time since when it waits for a request; infinity while it is busy."""

    def leave_by(self, moment: float) -> None:
        """Be gone at this moment of Trio's time unless a request begins before it."""
        ...


class Census:
    """The open connections of one listener."""

    def __init__(self, limits: ListenerLimits) -> None:
        self._limits = limits
        self._residents: set[Resident] = set()
        self._of_address: Counter[str] = Counter()
        self.idle_timeout_s = limits.idle_timeout_s
        """What a connection is granted now that begins to wait for a request."""
        self.idle_until = math.inf
        """From this moment of Trio's time on none waits for a request."""

    def __len__(self) -> int:
        return len(self._residents)

    def has_room_for(self, client: str) -> bool:
        """Whether one more connection from this address keeps within the limits."""
        return len(self._residents) < self._limits.connections and (
            self._of_address[client] < self._limits.connections_per_address or not client
        )

    def enter(self, resident: Resident) -> None:
        """Count one connection, until `leave`."""
        self._residents.add(resident)
        self._of_address[resident.client] += 1
        if len(self._residents) >= self._limits.crowded_at:
            self.run_short()
        else:
            self.idle_timeout_s = self._limits.idle_timeout_s

    def leave(self, resident: Resident) -> None:
        """The connection is closed."""
        self._residents.discard(resident)
        self._of_address[resident.client] -= 1
        if not self._of_address[resident.client]:
            del self._of_address[resident.client]

    def run_short(self) -> None:
        """Connections or descriptors run short: idle ones get the short idle time, now and from now
        on, until a connection enters that finds room again."""
        if self.idle_timeout_s != self._limits.short_idle_timeout_s:
            self.idle_timeout_s = self._limits.short_idle_timeout_s
            self._ask_idle_to_leave(self.idle_timeout_s)

    def send_idle_away(self, by: float) -> None:
        """From this moment of Trio's time on nobody needs to wait for a request any longer."""
        self.idle_until = by
        for resident in self._residents:
            if resident.idle_since < math.inf:
                resident.leave_by(by)

    def _ask_idle_to_leave(self, after_s: float) -> None:
        for resident in self._residents:
            if resident.idle_since < math.inf:
                resident.leave_by(resident.idle_since + after_s)
