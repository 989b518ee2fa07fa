"""Keeps one end of a simulated connection, as a kernel does: what has arrived, what is on its way,
and how it ended."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import outcome
import trio
from attrs import Factory, define, field

from mmo_trio.system.waiting import ParkingSpot
from tests.simulation.clocks.virtual_clock import VirtualClock
from tests.simulation.network.conditions import ConnectionFault, FaultAt, Path
from tests.simulation.network.identities import ServerIdentity

GIVE_UP_S: Final = 924.0
"""How long a sender goes on without being acknowledged (Linux, `tcp_retries2`)."""


class Powered(Protocol):
    """Is what a connection needs to know of the machine at its end."""

    is_on: bool


@define(eq=False)
class ConnectionEnd:
    """Is one end of a connection."""

    clock: VirtualClock
    machine: Powered
    address: str
    """Its own address, which the peer sees."""
    path: Path
    """The way to the peer."""
    is_client: bool
    fault: FaultAt | None
    drips: bool
    window_bytes: int
    """How much may be on its way to the peer, or unread there."""
    report_fault: Callable[[str], None]
    peer: ConnectionEnd | None = field(default=None, init=False)
    """None until the connection is established."""
    received: bytearray = field(factory=bytearray, init=False)
    has_received_end: bool = field(default=False, init=False)
    has_sent_end: bool = field(default=False, init=False)
    error: OSError | None = field(default=None, init=False)
    is_closed: bool = field(default=False, init=False)
    on_close: Callable[[ConnectionEnd], None] = field(default=lambda _: None, init=False)
    when_running: Callable[[Callable[[], None]], None] = field(
        default=lambda call: call(), init=False
    )
    """Calls what needs its process to run."""
    identity: ServerIdentity | None = field(default=None, init=False)
    """What the server shows in a TLS handshake."""
    reader: ParkingSpot[None] = field(factory=ParkingSpot, init=False)
    writer: ParkingSpot[None] = field(factory=ParkingSpot, init=False)
    _received_at: float = field(
        default=Factory(lambda self: self.clock.current_time(), takes_self=True), init=False
    )
    """When bytes last arrived, or the end was made."""
    _sent_bytes: int = field(default=0, init=False)
    _unarrived_bytes: int = field(default=0, init=False)
    _last_arrival_at: float = field(default=0.0, init=False)
    _stalled: list[Callable[[], None]] = field(factory=list, init=False)
    """Segments that are to be sent again, in order."""
    _is_lost: bool = field(default=False, init=False)
    """Whether what it sends is lost for ever, and it does not know."""

    @property
    def seconds_since_arrival(self) -> float:
        """How long ago bytes last arrived, or the end was made."""
        return self.clock.current_time() - self._received_at

    @property
    def is_readable(self) -> bool:
        """Whether a read ends at once."""
        return bool(self.received or self.has_received_end or self.error or self.is_closed)

    @property
    def room_bytes(self) -> int:
        """How much it takes at once."""
        unread = len(self.peer.received) if self.peer is not None else 0
        return max(0, self.window_bytes - self._unarrived_bytes - unread)

    def send(self, data: bytes) -> int:
        """Send as much as there is room for; return how many bytes. Raises OSError once the
        connection is broken."""
        if self.error is not None:
            raise OSError(*self.error.args)
        if self.is_closed or self.has_sent_end:
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        data = data[: self.room_bytes]
        if not data:
            return 0
        fault = self.fault
        if (
            fault is not None
            and fault.by_client == self.is_client
            and fault.byte < self._sent_bytes + len(data)
        ):
            self._send_data(data[: max(0, fault.byte - self._sent_bytes)])
            self._sent_bytes += len(data)
            self._suffer(fault.fault)
        else:
            self._sent_bytes += len(data)
            self._send_data(data)
        return len(data)

    def send_end(self) -> None:
        """Say that nothing more is sent."""
        if not (self.has_sent_end or self.is_closed or self.error) and self.peer is not None:
            self.has_sent_end = True
            self.transmit(self.peer.receive_end)

    def close(self) -> None:
        """Close it, as a kernel does also for a process that was killed: what was sent still
        arrives."""
        if self.is_closed:
            return
        if self.received and self.error is None and self.peer is not None:
            self.transmit(partial(self.peer.receive_error, errno.ECONNRESET))
        else:
            self.send_end()
        self.forget()
        closed = outcome.Error(trio.ClosedResourceError("closed here"))
        self.reader.unpark(closed)
        self.writer.unpark(closed)

    def forget(self) -> None:
        """Drop it without a word, as a machine does that loses its power."""
        self.is_closed = True
        self.received.clear()
        self.on_close(self)

    def read(self, max_bytes: int) -> bytes:
        """Take what has arrived, b"" at the end. Raises OSError once the connection is broken and
        all is read."""
        if self.received:
            data = bytes(self.received[:max_bytes])
            del self.received[:max_bytes]
            if self.peer is not None:
                self.peer.writer.unpark(outcome.Value(None))
            return data
        if self.error is not None:
            raise OSError(*self.error.args)
        return b""

    def receive_data(self, data: bytes) -> None:
        """Take bytes that arrive; one who has closed answers with a reset (RFC 9293 section
        3.10.7)."""
        assert self.peer is not None
        self.peer._unarrived_bytes -= len(data)
        if self.is_closed:
            self.transmit(partial(self.peer.receive_error, errno.ECONNRESET))
        elif self.error is None:
            self.received += data
            self._received_at = self.clock.current_time()
            self.reader.unpark(outcome.Value(None))

    def receive_end(self) -> None:
        """Learn that the peer sends nothing more."""
        self.has_received_end = True
        self.reader.unpark(outcome.Value(None))

    def receive_error(self, code: int) -> None:
        """Learn that the connection is broken."""
        if self.error is None and not self.is_closed:
            self.error = OSError(code, os.strerror(code))
            self.reader.unpark(outcome.Value(None))
            self.writer.unpark(outcome.Value(None))

    def transmit(self, arrive: Callable[[], None], *, pause_s: float = 0.0) -> None:
        """Let this happen at the peer, after everything sent before and as late as the path
        decides."""
        if self._is_lost:
            self.clock.call_after(GIVE_UP_S, partial(self.receive_error, errno.ETIMEDOUT))
            return
        at = (
            max(self._last_arrival_at, self.clock.current_time() + self.path.draw_delay()) + pause_s
        )
        self._last_arrival_at = at
        self.clock.call_at(at, partial(self._pass, arrive))

    def send_again(self) -> None:
        """Send what was stalled, unless the path is cut again."""
        if self.path.is_cut or not self._is_peer_there():
            return
        self.path.stalled.pop(self, None)
        stalled, self._stalled = self._stalled, []
        for arrive in stalled:
            arrive()

    def _send_data(self, data: bytes) -> None:
        assert self.peer is not None
        self._unarrived_bytes += len(data)
        if self.drips:
            for pause_s, piece in self.path.draw_pieces(data):
                self.transmit(partial(self.peer.receive_data, piece), pause_s=pause_s)
        elif data:
            self.transmit(partial(self.peer.receive_data, data))

    def _suffer(self, fault: ConnectionFault) -> None:
        assert self.peer is not None
        self.report_fault(fault.value)
        if fault is ConnectionFault.RESET:
            self.transmit(partial(self.peer.receive_error, errno.ECONNRESET))
            self.peer.transmit(partial(self.receive_error, errno.ECONNRESET))
        else:
            self._is_lost = self.peer._is_lost = True
            self.clock.call_after(GIVE_UP_S, partial(self.receive_error, errno.ETIMEDOUT))

    def _is_peer_there(self) -> bool:
        return self.peer is not None and self.peer.machine.is_on

    def _pass(self, arrive: Callable[[], None]) -> None:
        """Let a segment arrive, unless it can't now."""
        if self._stalled:
            self._stalled.append(arrive)
        elif self.path.is_cut or not self._is_peer_there():
            self.path.stalled[self] = self.clock.current_time()
            self._stalled.append(arrive)
            self.clock.call_after(GIVE_UP_S, partial(self._give_up, self._stalled))
        else:
            arrive()

    def _give_up(self, stalled: list[Callable[[], None]]) -> None:
        if self._stalled is stalled and stalled:
            self.path.stalled.pop(self, None)
            self._stalled = []
            self._is_lost = True
            self.receive_error(errno.ETIMEDOUT)
