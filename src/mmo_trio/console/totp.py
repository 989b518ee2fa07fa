"""Makes and checks time-based one-time codes (TOTP, RFC 6238) and recovery codes."""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from collections.abc import Sequence
from hashlib import sha256

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from mmo_sansio.values.clock import SECOND, Instant

SECRET_BYTES = 20
"""The length that RFC 4226, section 4, recommends."""
STEP_S = 30
DIGITS = 6
STEPS_TOLERATED = 1
"""Steps by which a device's clock may be early or late (RFC 6238, section 5.2)."""

RECOVERY_CODES = 10
_RECOVERY_CODE_BYTES = 10


def generate_secret() -> bytes:
    """Return a new secret."""
    return os.urandom(SECRET_BYTES)


def matching_step(secret: bytes, code: str, now: Instant) -> int | None:
    """Return the step of time whose code this is; None when it is of no step that is close enough to now."""
    digits = code.replace(" ", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) == DIGITS):
        return None
    current = now // SECOND // STEP_S
    found = None
    for step in range(current - STEPS_TOLERATED, current + STEPS_TOLERATED + 1):
        if hmac.compare_digest(code_at(secret, Instant(step * STEP_S * SECOND)), digits):
            found = step
    return found


def code_at(secret: bytes, at: Instant) -> str:
    """Return the code that a device with this secret shows."""
    return _device(secret).generate(at // SECOND).decode()


def provisioning_uri(secret: bytes, *, user: str, issuer: str) -> str:
    """Return the `otpauth:` URI that an authenticator app reads from a QR code."""
    return _device(secret).get_provisioning_uri(user, issuer)


def format_secret(secret: bytes) -> str:
    """Return the secret in groups of four letters, to be typed into an app."""
    text = base64.b32encode(secret).decode()
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def generate_recovery_codes() -> Sequence[str]:
    """Return new recovery codes of 80 bits each, for the user to keep on paper."""
    codes = [
        base64.b32encode(secrets.token_bytes(_RECOVERY_CODE_BYTES)).decode().lower() for _ in range(RECOVERY_CODES)
    ]
    return ["-".join(code[at : at + 4] for at in range(0, len(code), 4)) for code in codes]


def recovery_code_digest(user: str, code: str) -> bytes:
    """Return the digest by which the store knows a recovery code, in whatever case and grouping it was typed.

    The codes are random and long, so that a slow hash would add nothing.
    """
    text = "".join(each for each in code.lower() if each.isalnum())
    return sha256(f"recovery code of {user}: {text}".encode("utf-8", "replace")).digest()


def _device(secret: bytes) -> TOTP:
    return TOTP(secret, DIGITS, SHA1(), STEP_S)
