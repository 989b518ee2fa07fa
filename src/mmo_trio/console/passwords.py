"""Passwords are stored as Argon2id hashes (RFC 9106); a check costs as much for an unknown name."""

from __future__ import annotations

import unicodedata
from functools import cache

import argon2
import trio
from argon2 import PasswordHasher

PASSWORD_LENGTH_MIN = 12

# Limits in characters; a longer password would only cost time.
PASSWORD_LENGTH_MAX = 256

# A check needs 64 MiB while it runs.
_CONCURRENT_CHECKS_MAX = 2


class UnusablePassword(ValueError):
    """The password can not be used; the message says which rule it breaks."""


def hash_password(hasher: PasswordHasher, password: str) -> str:
    """Return the hash of a new password, which is slow on purpose. Raises UnusablePassword."""
    if not PASSWORD_LENGTH_MIN <= len(password) <= PASSWORD_LENGTH_MAX:
        raise UnusablePassword(
            f"a password has {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters: take a "
            f"few words"
        )
    return hasher.hash(_normalize(password))


def verify_password(hasher: PasswordHasher, password: str, password_hash: str | None) -> bool:
    """Return whether the password is right; without a hash, False after the same time."""
    try:
        hasher.verify(
            password_hash or _dummy_hash(hasher), _normalize(password[:PASSWORD_LENGTH_MAX])
        )
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False
    return password_hash is not None


class PasswordVerifier:
    """Checks passwords in threads, a few at a time."""

    def __init__(self, hasher: PasswordHasher) -> None:
        self._hasher = hasher
        self._threads = trio.CapacityLimiter(_CONCURRENT_CHECKS_MAX)

    async def __call__(self, password: str, password_hash: str | None) -> bool:
        return await trio.to_thread.run_sync(
            verify_password, self._hasher, password, password_hash, limiter=self._threads
        )


@cache
def _dummy_hash(hasher: PasswordHasher) -> str:
    return hasher.hash("nobody's password")


def _normalize(password: str) -> str:
    """Normalize the input of different keyboards (RFC 8265, section 4.2.1: NFC)."""
    return unicodedata.normalize("NFC", password)
