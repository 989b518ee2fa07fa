"""Describes how a call to another server ended, and how a delivery is recorded (K2, K3, K4)."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import TypeAlias, assert_never

from attrs import field, frozen

from mmo_sansio.http.messages import Headers
from mmo_sansio.http.response_reader import FinalResponseHead

# Seconds for a whole delivery: name look-up, connection, TLS, request, response head (K2).
# The specification's own number.
DELIVERY_TIMEOUT_S = 15.0

# Bytes of a response's body that are read (K4).
RESPONSE_BODY_BYTES_MAX = 1024 * 1024


class DeliveryOutcome(StrEnum):
    """The outcome of the one attempt of a delivery is one of these (K2, K5, K7)."""

    DELIVERED = "delivered"
    """A 2xx head arrived in time, whatever its body did afterwards."""
    NON_2XX = "non_2xx"
    """Another final status arrived in time; a redirect is one and is not followed."""
    TIMEOUT = "timeout"
    """No whole head arrived before the deadline."""
    TRANSPORT_ERROR = "transport_error"
    """No connection, no trusted certificate, or a response that is not HTTP."""
    EGRESS_REFUSED = "egress_refused"
    """The rules forbid the URL's target; nothing was connected. The breaker does not count it."""
    BREAKER_OPEN = "breaker_open"
    """The merchant's breaker was open; nothing was connected."""
    KEY_REVOKED = "key_revoked"
    """The API key that made the payment was retired as leaked, or removed, or was retired and no
    other key has used the host; nothing was connected (A4). The breaker does not count it."""


@frozen
class DeliveryAttempt:
    """Records one attempt."""

    outcome: DeliveryOutcome
    url: str
    status: int | None = None
    """The HTTP status of the response, when there was one."""
    duration_ms: int = 0
    """From the look-up to the end of the body, or to the failure."""
    detail: str = ""
    """What happened, in one sentence, for a person who investigates; holds no secret."""
    body: bytes = field(default=b"", repr=False)
    """The first MiB of the response's body (K4); never parsed, never decompressed."""


def breaker_open_attempt(url: str) -> DeliveryAttempt:
    """Return the record of a callback while the breaker is open or its probe runs (K5)."""
    detail = "The callbacks to this merchant were stopped, so nothing was sent."
    return DeliveryAttempt(DeliveryOutcome.BREAKER_OPEN, url, detail=detail)


@frozen
class ResponseReceived:
    """A whole response head has arrived before the deadline."""

    head: FinalResponseHead
    body: bytes
    """The part of the body that arrived within the deadline and the limit, its transfer coding
    decoded."""
    is_complete: bool
    """Whether the body arrived to its end."""
    duration_ms: int

    @property
    def status(self) -> int:
        """Return the status, 200 to 599."""
        return self.head.status

    @property
    def headers(self) -> Headers:
        """Return the fields of the head; each use parses them, and a delivery needs none."""
        return self.head.headers


class ExchangeFailure(Enum):
    """Says why no response arrived; the value is the outcome of a delivery that ends so."""

    FORBIDDEN = DeliveryOutcome.EGRESS_REFUSED
    """The egress rules forbid the URL, or an address behind its name."""
    TIMEOUT = DeliveryOutcome.TIMEOUT
    TRANSPORT = DeliveryOutcome.TRANSPORT_ERROR


@frozen
class NoResponseReceived:
    """No whole response head has arrived before the deadline."""

    failure: ExchangeFailure
    detail: str
    """What happened, in one sentence."""
    may_have_arrived: bool
    """False only when it is certain that no byte of the request left (S6)."""
    duration_ms: int


# How one request to another server ended.
ExchangeResult: TypeAlias = ResponseReceived | NoResponseReceived


def to_attempt(result: ExchangeResult, *, url: str) -> DeliveryAttempt:
    """Return the record of a delivery to this URL: any 2xx in time is delivered, all else failed
    (K2)."""
    match result:
        # A body that breaks off changes nothing: the merchant has answered.
        case ResponseReceived(status=status, duration_ms=duration_ms, body=body):
            delivered = 200 <= status <= 299
            outcome = DeliveryOutcome.DELIVERED if delivered else DeliveryOutcome.NON_2XX
            detail = f"The receiver answered {status}."
            return DeliveryAttempt(outcome, url, status, duration_ms, detail, body)
        case NoResponseReceived(failure=failure, duration_ms=duration_ms, detail=detail):
            return DeliveryAttempt(failure.value, url, None, duration_ms, detail)
        case _:
            assert_never(result)
