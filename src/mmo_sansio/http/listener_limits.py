"""Defines every limit of an HTTP listener: times, sizes and numbers of connections."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from mmo_sansio.http.request_head import HeadLimits


@frozen
class ListenerLimits:
    """Limits one listener. Each time is a total for its phase, never a time between reads.

    The handler limits the body of each request (`Admitted.body_limit`)."""

    head: HeadLimits = field(factory=HeadLimits)
    """Sizes of a request head."""
    accept_timeout_s: float = 10.0
    """From the arrival of a connection without TLS, or of its first request, until it is accepted.
    Later the client may have given its request up."""
    handshake_timeout_s: float = 10.0
    """From the accepted connection to the end of the TLS handshake."""
    idle_timeout_s: float = 75.0
    """From a connection's start, or the end of its last response, to a request's first byte."""
    short_idle_timeout_s: float = 5.0
    """The idle timeout while descriptors run short, or 7/8 of the connections are open."""
    head_timeout_s: float = 5.0
    """From the first byte of a request to the end of its head."""
    body_timeout_s: float = 10.0
    """From the end of the head to the end of the body."""
    write_timeout_s: float = 30.0
    """Time to send one response of any size."""
    linger_timeout_s: float = 2.0
    """How long a closing connection waits until the client has read its last response."""
    drain_timeout_s: float = 20.0
    """How long requests in flight may take once the listener drains; then they are cancelled."""
    connections: int = 4096
    """Open connections in all; the next one receives a 503 and is closed."""
    connections_per_address: int = 1024
    """Open connections from one address; IPv6 addresses of one /64 count as one."""
    write_buffer_bytes: int = 32 * 1024 * 1024
    """Bytes of large responses that may wait for slow readers."""


# The defaults; the settings refer to them.
DEFAULT_LISTENER_LIMITS: Final = ListenerLimits()
