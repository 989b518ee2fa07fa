"""What became of a message to a merchant's own server."""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen


class DeliveryOutcome(StrEnum):
    """How an attempt to deliver a callback ended (K2, K5, K7)."""

    DELIVERED = "delivered"
    NON_2XX = "non_2xx"
    TIMEOUT = "timeout"
    TRANSPORT_ERROR = "transport_error"
    EGRESS_REFUSED = "egress_refused"
    BREAKER_OPEN = "breaker_open"


@frozen
class Attempt:
    """One attempt, as it is recorded."""

    outcome: DeliveryOutcome
    url: str
    status: int | None = None
    """The HTTP status of the answer, when there was one."""
    duration_ms: int = 0
    detail: str = ""
    """What went wrong, in words."""
    body: bytes = field(default=b"", repr=False)
    """The first MiB of the answer's body (K4)."""
