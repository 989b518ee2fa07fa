"""Signs requests and verifies webhooks, both by `Wave-Signature: t=UNIX,v1=HEX`: HMAC-SHA256 over
the time, followed at once by the body.

While secrets rotate a header may have several `v1`, of which one has to be right.

Source: https://docs.wave.com/webhook, https://docs.wave.com/balance-api (request signing)"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from typing import Final

from mmo_sansio import MINUTE, SECOND, Instant
from mmo_sansio.providers import HttpRequest, Span

HEADER: Final = b"wave-signature"

# How old a webhook may be, and how far it may be ahead of our clock.
LIFETIME: Final[Span] = Span(5 * MINUTE)

# While secrets rotate there are two; more than some are nobody's.
_SIGNATURES_MAX: Final = 8
_HEADER: Final = re.compile(
    rf"t=(?P<t>[0-9]{{1,12}})(?P<signatures>(?:,v1=[0-9a-f]{{64}}){{1,{_SIGNATURES_MAX}}})",
    re.ASCII,
)


class SignatureFault(ValueError):
    """Raised for a webhook that Wave has not signed, in words without secrets."""


def sign(secret: str, body: bytes, *, now: Instant) -> bytes:
    """Return the header's value for a body that is sent now, in wall time."""
    time = b"%d" % (now // SECOND)
    return b"t=%b,v1=%b" % (time, _digest(secret, time, body))


def verify(request: HttpRequest, secrets: Sequence[str]) -> Instant:
    """Return when Wave has signed a webhook with one of these secrets. Raises SignatureFault."""
    value = request.value(HEADER)
    if value is None:
        raise SignatureFault("It is not signed.")

    match = _HEADER.fullmatch(value.replace(b" ", b"").decode("latin-1"))
    if match is None:
        raise SignatureFault("Its signature is of no known form.")

    time = match["t"].encode()
    signatures = [signature.encode() for signature in match["signatures"].split(",v1=")[1:]]
    expected = [_digest(secret, time, request.body) for secret in secrets]

    # Each with each, in constant time.
    matches = [hmac.compare_digest(ours, theirs) for ours in expected for theirs in signatures]
    if not any(matches):
        raise SignatureFault("Its signature is wrong.")

    return Instant(int(time) * SECOND)


def check_age(signed_at: Instant, *, now: Instant) -> None:
    """Raise SignatureFault unless a webhook of this time was signed just now, in wall time."""
    if abs(now - signed_at) > LIFETIME:
        raise SignatureFault("It was signed too long ago, or later than now.")


def _digest(secret: str, time: bytes, body: bytes) -> bytes:
    return hmac.digest(secret.encode(), time + body, "sha256").hex().encode()
