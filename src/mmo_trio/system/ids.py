"""Generates gatewayReferences, page tokens and request ids, which the core is given (law 6)."""

from __future__ import annotations

import itertools
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final

from attrs import define
from ulid import ULID

from mmo_sansio.values.clock import MILLISECOND, SECOND, Instant

# Base64 makes 32 characters of it, without padding.
PAGE_TOKEN_BYTES: Final = 24

# The first 24 bits of a page token, before 168 random ones that no other has: it cannot be guessed
# (W3).
_PAGE_TOKEN_SHARED_BITS: Final = 0xFFFFFF << 168

# A ULID: 48 bits of milliseconds, then these.
_RANDOM_BITS: Final = 80

# The first four of the last 12 characters of a ULID, which some operators repeat and by which there
# is an index.
_SUFFIX_SHARED_BITS: Final = 0xFFFFF << 40

# Values that share bits at most: about as many as a page of an index holds.
NEIGHBOURS_MAX: Final = 64


@define(eq=False)
class NeighbouringBits:
    """Lets random values that are drawn in the same second share some of their bits, so that they
    are neighbours in an index of a store.

    Each entry at a place of its own would make every payment of a commit change one more page of
    the index, all of which are written to the log. What is shared tells of a value no more than
    about when it was drawn."""

    shared_mask: int
    _shared: int = 0
    _began_at: Instant = Instant(0)
    _neighbours: int = NEIGHBOURS_MAX

    def apply(self, drawn: int, now: Instant) -> int:
        """Return the value that was drawn now, with the bits that it shares with those before
        it."""
        if self._neighbours < NEIGHBOURS_MAX and 0 <= now - self._began_at < SECOND:
            self._neighbours += 1
            return drawn & ~self.shared_mask | self._shared
        self._shared, self._began_at, self._neighbours = drawn & self.shared_mask, now, 1
        return drawn


class ReferenceGenerator:
    """Generates ULIDs that increase within this process, even within a millisecond and when the
    clock steps back."""

    def __init__(self, wall_time: Callable[[], Instant]) -> None:
        self._wall_time = wall_time
        self._neighbouring = NeighbouringBits(_SUFFIX_SHARED_BITS)
        self._last = 0

    def next(self) -> str:
        """Return a new ULID: the time in milliseconds and 80 random bits, 20 of which are those of
        its neighbours, or the last ULID plus one if that is greater."""
        now = self._wall_time()
        drawn = self._neighbouring.apply(secrets.randbits(_RANDOM_BITS), now)
        candidate = now // MILLISECOND << _RANDOM_BITS | drawn

        # The clock may step back, and a look-up relies on the order.
        if candidate > self._last:
            self._last = candidate
        else:
            self._last = self._last + 1
        return str(ULID.from_int(self._last))


class PageTokenGenerator:
    """Generates unguessable tokens that are safe in a URL."""

    def __init__(self, wall_time: Callable[[], Instant]) -> None:
        self._wall_time = wall_time
        self._neighbouring = NeighbouringBits(_PAGE_TOKEN_SHARED_BITS)

    def next(self) -> str:
        """Return a new token of 32 characters."""
        drawn = int.from_bytes(secrets.token_bytes(PAGE_TOKEN_BYTES))
        token = self._neighbouring.apply(drawn, self._wall_time()).to_bytes(PAGE_TOKEN_BYTES)
        return urlsafe_b64encode(token).decode("ascii")


def request_id_generator() -> Callable[[], str]:
    """Return a function that generates request ids of equal length: 40 random bits of the
    generator, then a count."""
    prefix = secrets.token_hex(5)
    counts = itertools.count(1)
    return lambda: f"{prefix}-{next(counts):08x}"
