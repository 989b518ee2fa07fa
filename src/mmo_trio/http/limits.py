"""How much, how long and how many: every limit of the listener, by name."""

from __future__ import annotations

from attrs import field, frozen

from mmo_sansio.http.request_head import HeadLimits


@frozen
class ListenerLimits:
    """What one listener grants. Each time is a total for its phase, never a time between two reads.

    How large a body may be is the service's to say, request by request (`Admitted.body_limit`)."""

    head: HeadLimits = field(factory=HeadLimits)
    """Sizes of a request head."""
    handshake_timeout_s: float = 10.0
    """From the accepted connection to the end of the TLS handshake."""
    idle_timeout_s: float = 30.0
    """From a connection's start, or the end of its last answer, to the first byte of a request."""
    short_idle_timeout_s: float = 5.0
    """The same while descriptors or connections run short."""
    head_timeout_s: float = 5.0
    """From the first byte of a request to the end of its head."""
    body_timeout_s: float = 10.0
    """From the end of the head to the end of the body."""
    write_timeout_s: float = 30.0
    """To send one answer, however large."""
    linger_timeout_s: float = 2.0
    """How long a closing connection waits for the client to have read its last answer."""
    drain_timeout_s: float = 20.0
    """How long requests in flight may take once the listener drains; then it stops hard."""
    connections: int = 4096
    """Open connections in all; the next one is answered 503 and closed."""
    connections_per_address: int = 1024
    """Open connections from one address."""

    @property
    def short_idle_threshold(self) -> int:
        """The number of connections from which idle ones are granted the short idle time only."""
        return self.connections * 7 // 8
