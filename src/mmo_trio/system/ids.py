"""What is minted at the edge: gatewayReferences, page tokens and request ids (law 6)."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

from ulid import ULID

from mmo_sansio.values.clock import MILLISECOND, Instant

PAGE_TOKEN_BYTES = 24
"""192 random bits: a page token can't be guessed (W3)."""

_RANDOM_BITS = 80


class ReferenceGenerator:
    """Mints ULIDs that rise within this process, also within one millisecond and when the clock steps back."""

    def __init__(self, now: Callable[[], Instant]) -> None:
        self._now = now
        self._last = 0

    def next(self) -> str:
        """A fresh ULID: the time in milliseconds, then 80 random bits; the one after the last when those tie."""
        milliseconds = self._now() // MILLISECOND
        fresh = milliseconds << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        self._last = fresh if fresh > self._last else self._last + 1
        return str(ULID.from_int(self._last))


def generate_page_token() -> str:
    """A fresh unguessable token, safe in a URL."""
    return secrets.token_urlsafe(PAGE_TOKEN_BYTES)


def request_id_generator() -> Callable[[], str]:
    """Mints ids for requests, to find their log lines by: 40 random bits for whoever mints, then a count, all
    of one length."""
    minted_by = secrets.token_hex(5)
    counts = itertools.count(1)
    return lambda: f"{minted_by}-{next(counts):08x}"
