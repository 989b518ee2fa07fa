"""Derives the X-Reference-Id of a payment from its gatewayReference, so that it never changes."""

from __future__ import annotations

import hashlib

_NAMESPACE = b"mmo-gateway/mtn_momo/"


def reference_id(gateway_reference: str) -> str:
    """Return the UUID under which the operator knows this payment, the same for each repetition of a submission.

    The operator accepts version 4 only (RFC 9562 section 5.4), which leaves 122 bits that should be random; here they
    are those of a SHA-256.
    """
    octets = bytearray(hashlib.sha256(_NAMESPACE + gateway_reference.encode()).digest()[:16])
    octets[6] = octets[6] & 0x0F | 0x40
    octets[8] = octets[8] & 0x3F | 0x80
    digits = octets.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
