"""How a call to somebody else's server ended, and what a delivery is recorded as (K2, K3, K4)."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import TypeAlias, assert_never

from attrs import field, frozen

from mmo_sansio.http.messages import Headers

DELIVERY_TIMEOUT_S = 15.0
"""Seconds for a whole delivery: name look-up, connect, TLS, send, answer head (K2)."""
RESPONSE_BODY_BYTES_MAX = 1024 * 1024
"""Bytes of an answer's body that are kept (K4)."""


class DeliveryOutcome(StrEnum):
    """What the one attempt of a delivery came to (K2, K5, K7)."""

    DELIVERED = "delivered"
    """A 2xx head came in time, whatever its body did afterwards."""
    NON_2XX = "non_2xx"
    """Another final status came in time; a redirect is one and isn't followed."""
    TIMEOUT = "timeout"
    """No whole head came before the deadline."""
    TRANSPORT_ERROR = "transport_error"
    """No connection, no trustworthy certificate, or an answer that isn't HTTP."""
    EGRESS_REFUSED = "egress_refused"
    """The URL leads where merchants' URLs may not; nothing was connected. No matter of the
    breaker's."""
    BREAKER_OPEN = "breaker_open"
    """The merchant's breaker was open; nothing was connected."""


@frozen
class DeliveryAttempt:
    """One attempt, as it is recorded."""

    outcome: DeliveryOutcome
    url: str
    status: int | None = None
    """The HTTP status of the answer, when there was one."""
    duration_ms: int = 0
    """From the look-up to the end of the body, or to what went wrong."""
    detail: str = ""
    """What happened, in one sentence, for the person who looks into it; holds no secret."""
    body: bytes = field(default=b"", repr=False)
    """The first MiB of the answer's body (K4); never parsed, never decompressed."""


def breaker_open_attempt(url: str) -> DeliveryAttempt:
    """The record of a callback while the breaker is open or its probe is out (K5)."""
    detail = "The breaker of this merchant was open, so nothing was sent."
    return DeliveryAttempt(DeliveryOutcome.BREAKER_OPEN, url, detail=detail)


@frozen
class ResponseReceived:
    """A whole answer head came before the deadline."""

    status: int
    headers: Headers
    body: bytes
    """What came of the body within the deadline and the limit, its transfer coding undone."""
    is_complete: bool
    """Whether the body came to its end."""
    duration_ms: int


class ExchangeFailure(Enum):
    """Why no answer came."""

    FORBIDDEN = "refused"
    """The egress rules forbid the URL, or an address behind its name."""
    TIMEOUT = "timeout"
    TRANSPORT = "transport"


@frozen
class NoResponseReceived:
    """No whole answer head came before the deadline."""

    failure: ExchangeFailure
    detail: str
    """What happened, in one sentence."""
    may_have_arrived: bool
    """False only when it is certain that no byte of the request left (S6)."""
    duration_ms: int


ExchangeResult: TypeAlias = ResponseReceived | NoResponseReceived
"""How one request to somebody else's server ended."""


def to_attempt(result: ExchangeResult, *, url: str) -> DeliveryAttempt:
    """The record of a delivery to this URL: any 2xx in time is delivered, all else failed (K2)."""
    match result:
        case ResponseReceived(status=status, duration_ms=duration_ms, body=body):
            delivered = 200 <= status <= 299
            outcome = DeliveryOutcome.DELIVERED if delivered else DeliveryOutcome.NON_2XX
            detail = f"The receiver answered {status}."
            return DeliveryAttempt(outcome, url, status, duration_ms, detail, body)
        case NoResponseReceived(failure=failure, duration_ms=duration_ms, detail=detail):
            return DeliveryAttempt(_failure_outcome(failure), url, None, duration_ms, detail)
        case _:
            assert_never(result)


def _failure_outcome(failure: ExchangeFailure) -> DeliveryOutcome:
    match failure:
        case ExchangeFailure.FORBIDDEN:
            return DeliveryOutcome.EGRESS_REFUSED
        case ExchangeFailure.TIMEOUT:
            return DeliveryOutcome.TIMEOUT
        case ExchangeFailure.TRANSPORT:
            return DeliveryOutcome.TRANSPORT_ERROR
        case _:
            assert_never(failure)
