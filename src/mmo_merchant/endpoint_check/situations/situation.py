"""Describes a situation that is played at a merchant's endpoint: the requests, and what should
follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from types import MappingProxyType

from attrs import field, frozen

from mmo_merchant.endpoint_check.situations.played_payments import PlayedPayments
from mmo_sansio.http.exchange import DELIVERY_TIMEOUT_S


class KeyVariant(Enum):
    """Says which X-API-KEY a request carries."""

    RIGHT = "right"
    MISSING = "missing"
    WRONG = "wrong"
    EMPTY = "empty"
    BEGINNING = "beginning"
    """The key without its last character."""
    LONGER = "longer"
    """The key with one more character."""
    OTHER_CASE = "other_case"
    """The key with all its letters in the other case; WRONG for a key without letters."""
    NOT_ASCII = "not_ascii"
    """Bytes that are no UTF-8 either."""
    TWICE = "twice"
    """Two fields: a wrong key, then the right one."""


class SendingPace(Enum):
    """Says how the bytes of a request leave."""

    AT_ONCE = "at_once"
    HEAD_FIRST = "head_first"
    """The body a moment after the head."""
    SLOW_HEAD = "slow_head"
    """The head in many pieces."""
    SLOW_BODY = "slow_body"
    """The body in many pieces."""
    BROKEN_OFF = "broken_off"
    """Half of the body, then the connection is closed; no answer is read."""


class ConnectionUse(Enum):
    """Says on which connections the requests of a situation travel."""

    OF_THEIR_OWN = "of_their_own"
    """Each request has its own connection, as with the gateway where an endpoint announces no
    `Keep-Alive`."""
    KEPT = "kept"
    """The next request is sent on the same connection, unless the endpoint has closed it."""
    WITH_SILENT = "with_silent"
    """Connections on which nothing is ever sent are open meanwhile."""


class TlsVersion(StrEnum):
    """Is a version of TLS that the gateway speaks."""

    TLS_1_2 = "TLS 1.2"
    TLS_1_3 = "TLS 1.3"


class Expectation(Enum):
    """Says which answer is right."""

    ACCEPT = "accept"
    """Any 2xx (K2)."""
    REJECT = "reject"
    """Any 4xx."""
    NO_FAULT = "no_fault"
    """Any answer but a 5xx: the gateway never sends such a request."""
    DECLINE = "decline"
    """Any answer but a 2xx."""
    NOTHING = "nothing"
    """No answer is awaited."""


@frozen
class PlayedRequest:
    """Is one request to the endpoint."""

    body: bytes = field(repr=False)
    expectation: Expectation = Expectation.ACCEPT
    key: KeyVariant = KeyVariant.RIGHT
    method: str = "POST"
    pace: SendingPace = SendingPace.AT_ONCE
    tls: TlsVersion | None = None
    """The only version that is offered; None: both."""
    within_s: float = DELIVERY_TIMEOUT_S
    """Seconds within which the answer is expected (K2)."""


@frozen
class Handling:
    """Says how a merchant has dealt with the result of one payment."""

    times: int
    """How often the result was handled: 1 is right, 0 means that it is not known."""
    status: str | None = None
    """The status that was booked: `success` or `failed`; None where it is not known."""
    amount: str | None = None
    """The amount that was booked, as a decimal; None where it is not known."""


# How the standard payment of 150.00 must have been dealt with once it has succeeded.
PAID = Handling(1, "success", "150.00")


@frozen
class Script:
    """Says what is sent in a situation, and what must have been handled after it."""

    rounds: tuple[tuple[PlayedRequest, ...], ...]
    """The requests of one round are sent at the same time, the next round after all answers to
    them."""
    handled: Mapping[str, Handling] = MappingProxyType({})
    """What the merchant must have handled, by gatewayReference."""
    connection: ConnectionUse = ConnectionUse.OF_THEIR_OWN


@frozen
class Situation:
    """Is one situation, and what an endpoint should do in it."""

    name: str
    """The name in reports, such as `key-missing`."""
    title: str
    """What happens, for people."""
    duty: str
    """What the endpoint should do and why, in sentences."""
    clauses: tuple[str, ...]
    """The clauses of the specification from which that follows."""
    write: Callable[[PlayedPayments], Script] = field(repr=False)
    """Writes the requests, about payments of their own."""
    is_required: bool = True
    """Whether an endpoint that answers otherwise fails; else the answer is advised. What is handled
    always counts, and so does a key in an answer."""
    question: str | None = None
    """What the merchant has to ask himself, where nobody can tell from outside; None when
    everything shows."""
    needs_tls: bool = False
    """Whether it cannot be played over plain HTTP."""


def accepted(body: bytes, reference: str, handling: Handling) -> Script:
    """Write one request that must be accepted, after which its result has been handled so."""
    return Script(((PlayedRequest(body),),), {reference: handling})


def key_fields(variant: KeyVariant, key: bytes) -> tuple[bytes, ...]:
    """Return the values of the fields X-API-KEY of a request."""
    # As no merchant's key is; long enough that only its text can be the reason for a rejection.
    wrong = b"not-the-key-of-this-merchant"
    match variant:
        case KeyVariant.RIGHT:
            return (key,)
        case KeyVariant.MISSING:
            return ()
        case KeyVariant.WRONG:
            return (wrong,)
        case KeyVariant.EMPTY:
            return (b"",)
        case KeyVariant.BEGINNING:
            return (key[:-1],)
        case KeyVariant.LONGER:
            return (key + b"0",)
        case KeyVariant.OTHER_CASE:
            # A key of digits has no other case.
            other_case = key.swapcase()
            if other_case == key:
                return (wrong,)
            return (other_case,)
        case KeyVariant.NOT_ASCII:
            return (b"\xff\xfe" + key,)
        case KeyVariant.TWICE:
            return wrong, key
