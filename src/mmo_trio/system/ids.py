"""Generates gatewayReferences, page tokens and request ids, which the core is given (law 6)."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

from ulid import ULID

from mmo_sansio.values.clock import MILLISECOND, Instant

PAGE_TOKEN_BYTES = 24
"""192 random bits, so that page tokens cannot be guessed (W3)."""

_RANDOM_BITS = 80


class ReferenceGenerator:
    """Generates ULIDs that increase within this process, even within a millisecond and when the clock steps back."""

    def __init__(self, now: Callable[[], Instant]) -> None:
        self._now = now
        self._last = 0

    def next(self) -> str:
        """Return a new ULID: the time in milliseconds and 80 random bits, or the last ULID plus one if that is
        greater."""
        milliseconds = self._now() // MILLISECOND
        candidate = milliseconds << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        self._last = candidate if candidate > self._last else self._last + 1
        return str(ULID.from_int(self._last))


def generate_page_token() -> str:
    """Return a new unguessable token that is safe in a URL."""
    return secrets.token_urlsafe(PAGE_TOKEN_BYTES)


def request_id_generator() -> Callable[[], str]:
    """Return a function that generates request ids of equal length: 40 random bits of the generator, then a count."""
    prefix = secrets.token_hex(5)
    counts = itertools.count(1)
    return lambda: f"{prefix}-{next(counts):08x}"
