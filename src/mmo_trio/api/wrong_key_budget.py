"""Bounds how many unknown API keys one address may try, so that guessing costs the store nothing (A1).

A token bucket for each address, IPv6 by its /64, in the memory of each process: an attempt with a key that no brand has
takes a token. Without a token an unknown key is answered 429 unseen; a key that this process has seen valid never is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import structlog
from attrs import Factory, define

from mmo_sansio.http.ip_rules import subscriber_network
from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span, earlier, later

logger = structlog.get_logger(__name__)

WRONG_KEYS_BURST: Final = 50
"""Attempts with unknown keys that an address may make at once."""
WRONG_KEY_INTERVAL: Final = Span(SECOND)
"""The time after which an address may make one more."""
ADDRESSES_MAX: Final = 10_000
"""Addresses that are remembered; beyond it the one whose last failure is oldest is forgotten."""


@define(eq=False)
class WrongKeyBudget:
    """Counts attempts with unknown keys by address."""

    _full_at: OrderedDict[str, MonotonicInstant] = Factory(OrderedDict)
    """When each address has all its tokens again, the latest failure last; absent: it has them all."""

    def is_spent(self, address: str, now: MonotonicInstant) -> bool:
        """Return whether this address may try no unknown key now."""
        full_at = self._full_at.get(subscriber_network(address))
        return full_at is not None and later(now, _capacity(WRONG_KEYS_BURST - 1)) < full_at

    def record_failure(self, address: str, now: MonotonicInstant) -> None:
        """Take a token: the address has tried a key that no brand has."""
        network = subscriber_network(address)
        full_at = later(max(self._full_at.pop(network, now), now), WRONG_KEY_INTERVAL)
        self._full_at[network] = full_at
        while len(self._full_at) > ADDRESSES_MAX:
            self._full_at.popitem(last=False)
        if earlier(full_at, WRONG_KEY_INTERVAL) <= later(now, _capacity(WRONG_KEYS_BURST - 1)) < full_at:
            logger.warning("unknown_keys_limited", network=network)


def _capacity(tokens: int) -> Span:
    return Span(tokens * WRONG_KEY_INTERVAL)
