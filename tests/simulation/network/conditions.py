"""Says how well the ways between the machines of a simulated network carry, and draws what goes
wrong on them."""

from __future__ import annotations

import enum
import random
from typing import Final, Protocol

from attrs import define, field, frozen

from tests.simulation.clocks.virtual_clock import VirtualClock

RETRANSMISSION_S: Final = 0.2
"""How long a sender waits before it sends a lost segment again; twice as long each further time
(RFC 6298)."""
RETRANSMISSION_MAX_S: Final = 120.0
PIECE_BYTES_MAX: Final = 24
"""Bytes of the largest piece of a connection that drips."""
PIECE_PAUSE_MAX_S: Final = 0.4


WINDOW_BYTES: Final = 128 * 1024
"""Bytes on their way or unread after which a sender has to wait for its reader."""
SMALL_WINDOW_BYTES: Final = 64


class ConnectionFault(enum.Enum):
    """Is what happens to a connection at one of its bytes."""

    RESET = "reset"
    """Both ends learn that it is broken."""
    HALF_OPEN = "half_open"
    """Everything is lost from there on, and neither end learns it before it has waited for long."""


@frozen
class PathConditions:
    """Says how well the way from one machine to another carries; what is between 0 and 1 is a
    probability."""

    latency_s: tuple[float, float] = (0.0002, 0.002)
    """The shortest and the longest time of a segment."""
    loss: float = 0.0
    """Of each segment; its sender sends it again."""
    refusal: float = 0.0
    """Of each connection attempt, as by a firewall that answers."""
    silence: float = 0.0
    """Of each connection attempt that is never answered."""
    reset: float = 0.0
    """Of each connection, at a byte."""
    half_open: float = 0.0
    """Of each connection, from a byte on."""
    fault_bytes_max: int = 2_048
    """The byte at which a connection has a fault is at most this one, in either direction."""
    dripping: float = 0.0
    """Of each connection; its bytes arrive in small pieces with pauses."""
    slow_reading: float = 0.0
    """Of each connection; its ends take little at a time, so that a sender soon has to wait for its
    reader."""
    failed_handshake: float = 0.0
    """Of each TLS handshake."""


class Sender(Protocol):
    """Has segments that did not arrive."""

    clock: VirtualClock

    def send_again(self) -> None:
        """Send them again."""
        ...


@frozen
class FaultAt:
    """Is a fault that a connection has at a byte that its client or its server sends."""

    fault: ConnectionFault
    by_client: bool
    byte: int


@define(eq=False)
class Path:
    """Is the way from one machine to another."""

    generator: random.Random
    conditions: PathConditions
    is_cut: bool = False
    stalled: dict[Sender, float] = field(factory=dict, init=False)
    """Who waits to send again, and since when."""

    def draw_delay(self) -> float:
        """Return how long one segment takes, in seconds."""
        delay_s = self.generator.uniform(*self.conditions.latency_s)
        if self.conditions.loss:
            pause_s = RETRANSMISSION_S
            while self.generator.random() < self.conditions.loss:
                delay_s += pause_s
                pause_s = min(2 * pause_s, RETRANSMISSION_MAX_S)
        return delay_s

    def draw_window(self) -> int:
        """Return how many bytes a new connection takes before they are read."""
        slow_reading = self.conditions.slow_reading
        is_slow = bool(slow_reading) and self.generator.random() < slow_reading
        return SMALL_WINDOW_BYTES if is_slow else WINDOW_BYTES

    def send_again_soon(self) -> None:
        """Let each who waits send again, at the latest after as long again as it has waited."""
        for sender, since in self.stalled.items():
            waited_s = min(sender.clock.current_time() - since, RETRANSMISSION_MAX_S)
            sender.clock.call_after(self.generator.uniform(0, waited_s), sender.send_again)

    def draw_fault(self) -> FaultAt | None:
        """Return the fault that a new connection will have."""
        conditions = self.conditions
        if not (conditions.reset or conditions.half_open):
            return None
        drawn = self.generator.random()
        if drawn >= conditions.reset + conditions.half_open:
            return None
        fault = ConnectionFault.RESET if drawn < conditions.reset else ConnectionFault.HALF_OPEN
        return FaultAt(
            fault,
            self.generator.random() < 0.5,
            self.generator.randrange(self.conditions.fault_bytes_max),
        )

    def draw_pieces(self, data: bytes) -> list[tuple[float, bytes]]:
        """Return the data in small pieces, each with the pause before it in seconds."""
        pieces, start = [], 0
        while start < len(data):
            size = self.generator.randint(1, PIECE_BYTES_MAX)
            pieces.append(
                (self.generator.uniform(0, PIECE_PAUSE_MAX_S), data[start : start + size])
            )
            start += size
        return pieces
