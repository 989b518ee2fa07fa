"""How a call to somebody else's server ended, and what a delivery is recorded as (K2, K3, K4)."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import TypeAlias, assert_never

from attrs import frozen

from mmo_sansio.clock import Span
from mmo_sansio.http import Headers

DEADLINE_S = 15.0
"""Seconds for a whole delivery: name look-up, connect, TLS, send, answer head (K2)."""
BODY_BYTES_MAX = 1024 * 1024
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
class Attempt:
    """The one attempt of a delivery, as its record keeps it."""

    outcome: DeliveryOutcome
    status: int | None
    """The answer's status, when one came."""
    detail: str
    """What happened, in one sentence, for the person who looks into it; holds no secret."""
    body: bytes = b""
    """The answer's body, as far as it was read; never parsed, never decompressed."""
    took: Span = 0
    """From the look-up to the end of the body, or to what went wrong."""


STOPPED_BY_BREAKER = Attempt(
    DeliveryOutcome.BREAKER_OPEN,
    None,
    "The breaker of this merchant was open, so nothing was sent.",
)
"""The record of a callback while the breaker is open or its probe is out (K5)."""


@frozen
class Answered:
    """A whole answer head came before the deadline."""

    status: int
    headers: Headers
    body: bytes
    """What came of the body within the deadline and the limit, its transfer coding undone."""
    complete: bool
    """Whether the body came to its end."""
    took: Span
    """From the look-up to the end of the body, in microseconds."""


class Failure(Enum):
    """Why no answer came."""

    REFUSED = "refused"
    """The egress rules forbid the URL, or an address behind its name."""
    TIMEOUT = "timeout"
    TRANSPORT = "transport"


@frozen
class Unanswered:
    """No whole answer head came before the deadline."""

    failure: Failure
    detail: str
    """What happened, in one sentence."""
    sent: bool
    """Whether the other side may have received the request (S6)."""
    took: Span
    """From the look-up to what went wrong, in microseconds."""


Exchange: TypeAlias = Answered | Unanswered
"""How one request to somebody else's server ended."""


def classify(exchange: Exchange) -> Attempt:
    """The record of a delivery that ended so: any 2xx in time is delivered, all else has failed
    (K2)."""
    match exchange:
        case Answered(status=status):
            outcome = DeliveryOutcome.DELIVERED if 200 <= status <= 299 else DeliveryOutcome.NON_2XX
            detail = f"The receiver answered {status}."
            return Attempt(outcome, status, detail, exchange.body, exchange.took)
        case Unanswered(failure=failure):
            return Attempt(_outcome(failure), None, exchange.detail, took=exchange.took)
        case _:
            assert_never(exchange)


def _outcome(failure: Failure) -> DeliveryOutcome:
    match failure:
        case Failure.REFUSED:
            return DeliveryOutcome.EGRESS_REFUSED
        case Failure.TIMEOUT:
            return DeliveryOutcome.TIMEOUT
        case Failure.TRANSPORT:
            return DeliveryOutcome.TRANSPORT_ERROR
        case _:
            assert_never(failure)
