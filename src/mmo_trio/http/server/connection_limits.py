"""Bounds what the connections of a listener take: how many there are, how long they may wait, and
how many bytes they hold."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from ipaddress import ip_address
from typing import Final, Protocol

import structlog
import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.streams import subscriber_network
from mmo_trio.system.logs import LogRateLimit

logger = structlog.get_logger(__name__)

# Outdated entries that the timer keeps, besides as many as it has others, before it drops all of
# them.
# To rebuild the heap costs as much as it has entries, so it happens only once it has as many
# outdated ones.
OUTDATED_MAX: Final = 1024

# Connections that a full listener chooses at a time to make room.
DISPENSABLE_MAX: Final = 32

# Responses up to this size are neither counted nor broken off; the number of connections bounds
# them.
SMALL_RESPONSE_BYTES: Final = 16 * 1024

# Log lines about responses that were broken off.
LINES_PER_SECOND: Final = 1.0


@frozen
class AcceptRules:
    """Says whose connections a listener takes, and while how many descriptors are open."""

    is_proxy: Callable[[str], bool] = lambda _: False
    """Tells whether an address is that of a trusted proxy, whose connections are limited only in
    all."""
    only_from_proxies: bool = False
    """Whether only this machine and trusted proxies may connect: over clear HTTP nobody else can
    keep a secret."""
    descriptors_max: int | None = None
    """The number of open descriptors from which no connection is accepted; None where only the
    system limits them."""

    def permits_client(self, client: str) -> bool:
        """Return whether a client with this address may connect; the empty one is that of a Unix
        socket."""
        if not self.only_from_proxies or not client or self.is_proxy(client):
            return True
        return ip_address(client).is_loopback

    def has_descriptor(self, descriptor: int) -> bool:
        """Return whether a connection with this descriptor leaves enough for others.

        The system gives out the lowest free number, so all lower ones are in use."""
        return self.descriptors_max is None or descriptor < self.descriptors_max


class TrackedConnection(Protocol):
    """One open connection, as far as the table needs to know it."""

    client: str
    """The address of the client; empty for a Unix socket, which has none to count by."""
    idle_since: float
    """Trio's time when it began to wait for a request; infinity while it is busy."""
    waiting_since: float
    """The same, but it waits until the head of the request is whole; before the first one also for
    TLS."""

    def close_at(self, deadline: float) -> None:
        """Close at this moment of Trio's time unless a request begins before it."""

    def break_off(self) -> None:
        """Close without a word."""


class ConnectionTable:
    """Counts the open connections of one listener, applies their limits and closes idle ones under
    load: a full listener makes room."""

    def __init__(self, limits: ListenerLimits) -> None:
        self._limits = limits
        self._connections: dict[TrackedConnection, str] = {}
        self._per_network: Counter[str] = Counter()
        self._dispensable: deque[tuple[TrackedConnection, float]] = deque()

        # The idle timeout of a connection that begins to wait now.
        self.idle_timeout_s = limits.idle_timeout_s

        # The moment of Trio's time after which no connection waits for a request.
        self.idle_deadline = math.inf

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def is_full(self) -> bool:
        """Whether the limit of connections in all is reached."""
        return len(self._connections) >= self._limits.connections

    def has_share_left(self, client: str) -> bool:
        """Return whether the network of this address has fewer connections than one may have."""
        return (
            self._per_network[subscriber_network(client)] < self._limits.connections_per_address
            or not client
        )

    def make_room(self) -> bool:
        """Break off the connection that has waited longest for a request, of the network that holds
        most; return whether there is one, as none of those that have sent theirs is ended."""
        while True:
            while self._dispensable:
                # It may have sent its request, or be gone, since it was chosen.
                connection, waiting_since = self._dispensable.popleft()
                still_waits = connection.waiting_since == waiting_since
                if still_waits and connection in self._connections:
                    connection.break_off()
                    self.remove(connection)
                    return True

            self._dispensable.extend(self._choose_dispensable())
            if not self._dispensable:
                return False

    def _choose_dispensable(self) -> Iterator[tuple[TrackedConnection, float]]:
        """Yield connections that would make room, the first one first, each with the time since
        which it waits. There are several, as a full listener is asked often, and looking through
        all of its connections takes half a millisecond."""
        # 1. Those that wait, by network, the longest waiting at the end of each list.
        waiting: dict[str, list[TrackedConnection]] = {}
        for connection, network in self._connections.items():
            if connection.waiting_since < math.inf:
                waiting.setdefault(network, []).append(connection)

        by_count: list[tuple[int, float, str]] = []
        for network, connections in waiting.items():
            connections.sort(key=lambda connection: connection.waiting_since, reverse=True)
            by_count.append((-self._per_network[network], connections[-1].waiting_since, network))

        # 2. One after the other of the network that holds most: a flood pays for itself.
        heapify(by_count)

        for _ in range(DISPENSABLE_MAX):
            if not by_count:
                return

            count, waiting_since, network = heappop(by_count)
            connections = waiting[network]
            yield connections.pop(), waiting_since
            if connections:
                heappush(by_count, (count + 1, connections[-1].waiting_since, network))

    def add(self, connection: TrackedConnection) -> None:
        """Count one connection until it is removed."""
        self._connections[connection] = network = subscriber_network(connection.client)
        self._per_network[network] += 1
        # Before it is full: making room one by one costs more.
        if len(self._connections) >= self._limits.connections * 7 // 8:
            self.shorten_idle_timeout()
        else:
            self.idle_timeout_s = self._limits.idle_timeout_s
            # With enough room the choice is outdated when the next one is needed.
            self._dispensable.clear()

    def remove(self, connection: TrackedConnection) -> None:
        """Remove a closed connection; a second call does nothing."""
        network = self._connections.pop(connection, None)
        if network is None:
            return
        self._per_network[network] -= 1
        if not self._per_network[network]:
            del self._per_network[network]

    def shorten_idle_timeout(self) -> None:
        """Apply the short idle timeout, as connections or descriptors run short, until a connection
        is added that finds enough room again."""
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


@define(eq=False)
class DeadlineTimer:
    """Watches the deadlines of all connections of a listener while `run` runs.

    Every request moves its connection's deadline on several times, and hardly any deadline ever
    passes. Trio sorts a cancel scope again each time, for about 3 us; here moving a deadline on
    costs a comparison, and the timer learns of it when it next looks at the connection."""

    _entries: list[tuple[float, int, MovableDeadline]] = Factory(list)
    """A heap of moments at which to look at a deadline; the number keeps the order of equal
    ones."""
    _entered: int = 0
    _outdated: int = 0
    """Entries that are no longer those of their deadlines."""
    _pause: trio.CancelScope = Factory(trio.CancelScope)

    @property
    def entries(self) -> int:
        """Return how many entries it holds, with outdated ones."""
        return len(self._entries)

    async def run(self) -> None:
        """Look at each deadline when it may have passed, until cancelled."""
        while True:
            with trio.CancelScope(
                deadline=self._entries[0][0] if self._entries else math.inf
            ) as self._pause:
                await trio.sleep_forever()

            now = trio.current_time()
            while self._entries and self._entries[0][0] <= now:
                at, _, deadline = heappop(self._entries)
                # Equal numbers, as each entry has the very float of its deadline.
                if at == deadline.entry_at:
                    deadline.pass_if_due(now)
                else:
                    self._outdated -= 1

    def enter(self, deadline: MovableDeadline) -> None:
        """Look at this deadline when it passes as it is now, instead of at another moment."""
        self.forget(deadline)
        self._entered += 1
        deadline.entry_at = deadline.at
        heappush(self._entries, (deadline.at, self._entered, deadline))
        # `run` may be asleep until a later one.
        self._pause.deadline = self._entries[0][0]

    def forget(self, deadline: MovableDeadline) -> None:
        """Look at this deadline no more."""
        if deadline.entry_at == math.inf:
            return
        deadline.entry_at = math.inf
        self._outdated += 1
        if self._outdated > OUTDATED_MAX + len(self._entries) // 2:
            self._entries = [entry for entry in self._entries if entry[0] == entry[2].entry_at]
            heapify(self._entries)
            self._outdated = 0


@define(eq=False)
class MovableDeadline:
    """The deadline of one connection, which it keeps for its whole life. It never passes until it
    is moved."""

    _timer: DeadlineTimer
    _expire: Callable[[], None]
    """Called once it has passed."""
    at: float = math.inf
    """Trio's time at which it passes; infinity for never."""
    entry_at: float = field(default=math.inf, init=False)
    """The moment of its one valid entry in the timer; infinity without one."""
    has_passed: bool = field(default=False, init=False)

    def move(self, at: float) -> None:
        """Let it pass at another moment."""
        self.at = at
        # Later ones are found when the entry comes up: nearly every deadline moves on before that.
        if at < self.entry_at:
            self._timer.enter(self)

    def close(self) -> None:
        """Let it never pass. Nothing leads from here to its connection any more: the timer may keep
        an outdated entry for a while, and what the connection holds goes with it."""
        self.at = math.inf
        self._expire = _do_nothing
        self._timer.forget(self)

    def pass_if_due(self, now: float) -> None:
        """Expire if it has passed by now, which happens once; else have the timer look again when
        it will have."""
        self.entry_at = math.inf
        if self.at <= now:
            self.at, self.has_passed = math.inf, True
            self._expire()
        elif self.at < math.inf:
            self._timer.enter(self)


def _do_nothing() -> None:
    """Stand for the expiry of a connection that is closed."""


@define(eq=False)
class WriteBudget:
    """Bounds the bytes of responses that wait for clients who do not read, and of large bodies that
    arrive slowly.

    Each listener has a budget of its own, so that slow readers of the pages take nothing from the
    merchants. Nobody waits for room: beyond the budget the merchant or network that holds most of
    it loses the response or request that it has held longest."""

    limit_bytes: int
    waiting_bytes: int = field(default=0, init=False)
    _log: LogRateLimit = field(factory=lambda: LogRateLimit(LINES_PER_SECOND, 1), init=False)
    _waiting: dict[str, dict[_WaitingResponse, None]] = field(factory=dict, init=False)
    """The responses of each holder, the oldest first."""

    @contextmanager
    def hold(self, size_bytes: int, holder: str, break_off: Callable[[], None]) -> Iterator[None]:
        """Count so many bytes while the block writes them.

        `holder` is the merchant, or else the network of the client (`subscriber_network`).
        `break_off` is called at most once, when this response has to make room for others; it must
        end the block soon. A response that is larger than the whole budget is broken off at once
        only if others wait as well."""
        waiting = _WaitingResponse(size_bytes, holder, break_off)

        # Counted first, so that it can be the one that has to go.
        self._waiting.setdefault(holder, {})[waiting] = None
        self.waiting_bytes += size_bytes
        try:
            # Alone it may be larger than the budget: a page of records may be, and nobody else
            # loses by it.
            while self.waiting_bytes > self.limit_bytes and self.waiting_bytes > size_bytes:
                self._break_one_off()
            yield
        finally:
            self._release(waiting)

    def _break_one_off(self) -> None:
        # Whoever holds most pays, not who came last: slow readers cannot push others out.
        largest = max(
            self._waiting.values(),
            key=lambda responses: sum(response.size_bytes for response in responses),
        )
        oldest = next(iter(largest))

        # Released here, as its block ends only in its own task's next turn.
        self._release(oldest)
        if (suppressed := self._log.acquire(trio.current_time())) is not None:
            logger.warning(
                "response_broken_off", waiting_bytes=self.waiting_bytes, suppressed=suppressed
            )

        oldest.break_off()

    def _release(self, waiting: _WaitingResponse) -> None:
        """Stop counting a response; a second call does nothing."""
        responses = self._waiting.get(waiting.holder, {})
        if waiting in responses:
            del responses[waiting]
            self.waiting_bytes -= waiting.size_bytes
            if not responses:
                del self._waiting[waiting.holder]


@define(eq=False)
class _WaitingResponse:
    """A response of which the client has not read everything."""

    size_bytes: int
    holder: str
    break_off: Callable[[], None]
