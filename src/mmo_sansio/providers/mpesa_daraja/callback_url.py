"""Where Daraja shall tell what: the last segment of each callback's URL says what it is about, and is sealed.

Daraja signs nothing. But an address that was given to nobody else comes back only from there, so whoever posts to
it knows at least that address. It names the payment, its amount and the question that is answered, so that a callback
can be read without looking anything up. It is hexadecimal, as Daraja refuses addresses in which certain words stand.
"""

from __future__ import annotations

import hmac
from enum import StrEnum
from hashlib import sha256
from typing import Final

from attrs import frozen

from mmo_sansio.values.clock import Instant

_MAC_BYTES: Final = 16


class MpesaCallbackKind(StrEnum):
    """What is told there."""

    PUSH = "p"
    """How a push ended."""
    RESULT = "r"
    """How a pay-out or a tax payout ended."""
    QUEUE_TIMEOUT = "q"
    """That a request waited for too long in Daraja's queue."""
    POLL_RESULT = "a"
    """What became of a pay-out or a tax payout, as we have asked."""
    CONFIRMATION = "c"
    """That somebody paid by himself."""
    VALIDATION = "v"
    """That somebody is about to, and whether he may."""


@frozen
class CallbackContext:
    """What a callback is about."""

    kind: MpesaCallbackKind
    reference: str = ""
    """The gatewayReference; empty for deposits."""
    minor: int = 0
    """The requested amount in cents."""
    submitted_at: Instant = Instant(0)
    """When the submission began that is asked about."""
    not_found_is_final: bool = False
    """Whether "not found" as the answer says that it was never received."""
    reported_code: str = ""
    """The result code that a callback told before we asked."""

    def to_segment(self, key: bytes) -> str:
        """It as the last segment of a URL, sealed with this key."""
        parts = (
            self.kind,
            self.reference,
            self.minor,
            self.submitted_at,
            int(self.not_found_is_final),
            self.reported_code,
        )
        plain = "|".join(map(str, parts)).encode()
        return (plain + _mac(key, plain)).hex()


def parse_callback_url(target: bytes, key: bytes) -> CallbackContext | None:
    """The address at the end of a request's target; None when it was not sealed with this key."""
    path = target.partition(b"?")[0]
    try:
        octets = bytes.fromhex(path.rpartition(b"/")[2].decode("ascii"))
    except ValueError:
        return None
    plain, seal = octets[:-_MAC_BYTES], octets[-_MAC_BYTES:]
    if not hmac.compare_digest(seal, _mac(key, plain)):
        return None
    kind, reference, minor, submitted_at, is_final, told_code = plain.decode().split("|")
    return CallbackContext(
        MpesaCallbackKind(kind),
        reference,
        int(minor),
        Instant(int(submitted_at)),
        is_final == "1",
        told_code,
    )


def _mac(key: bytes, plain: bytes) -> bytes:
    return hmac.new(key, b"return address\0" + plain, sha256).digest()[:_MAC_BYTES]
