"""Signs webhooks and checks the signatures of requests as Wave documents: `Wave-Signature:
t=UNIX,v1=HEX`, HMAC-SHA256 over the time, followed at once by the body."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Span

HEADER: Final = b"wave-signature"
# How old a signature may be (assumed, from docs.wave.com/webhook).
LIFETIME: Final = Span(5 * MINUTE)


def sign(body: bytes, secrets: Sequence[str], *, now: Instant) -> bytes:
    """Return the header's value with a signature by each secret."""
    time = b"%d" % (now // SECOND)
    return b",".join([b"t=" + time, *(b"v1=" + _digest(secret, time, body) for secret in secrets)])


def check_signature(request: HttpRequest, secret: str, *, now: Instant) -> None:
    """Raise ValueError unless a request was signed with this secret within five minutes."""
    value = request.value(HEADER)
    if value is None:
        raise ValueError("Your request should include a Wave-Signature header.")
    time, _, signature = value.removeprefix(b"t=").partition(b",v1=")
    if not time.isdigit() or abs(now - int(time) * SECOND) > LIFETIME:
        raise ValueError("The timestamp of the signature is not of the last five minutes.")
    if not hmac.compare_digest(signature, _digest(secret, time, request.body)):
        raise ValueError("The signature does not match.")


def _digest(secret: str, time: bytes, body: bytes) -> bytes:
    return hmac.new(secret.encode(), time + body, hashlib.sha256).hexdigest().encode()
