"""Remembers whose key the header fields of a request carry, so that a client that repeats them is found at once: no key
is read, digested or looked up again.

It promises no more than the checks that it spares. A sender is known no longer than its verified key (A3) and the hosts
of the brands (A6), and only under the configuration in which both were read."""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

from mmo_sansio.http.messages import Headers
from mmo_sansio.values.clock import MonotonicInstant
from mmo_trio.api.authentication import VerifiedKey
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.storage.interface.admin_types import KeyOwner

SENDERS_MAX: Final = 512
"""Senders that are remembered, as many as a listener keeps parsed heads; beyond it the first one is dropped."""


@frozen
class _Sender:
    headers: Headers = field(repr=False)
    """They are found by identity, so they live as long as the entry; they hold a key, as a listener's parsed heads
    do."""
    key: VerifiedKey
    expires_at: MonotonicInstant


@define(eq=False)
class KnownSenders:
    """Finds the owner of a key by the header fields and the address of the client."""

    known: KnownConfiguration
    _senders: dict[tuple[int, str], _Sender] = field(factory=dict, init=False)
    """By the identity of the fields, which a listener parses once for all equal heads, and by the client's address."""

    def find(self, headers: Headers, client: str, now: MonotonicInstant) -> KeyOwner | None:
        """Return whose key these fields carry; None when that has to be found out."""
        sender = self._senders.get((id(headers), client))
        if (
            sender is None
            or now >= sender.expires_at
            or now >= self.known.trusted_until
            or sender.key.generation != self.known.generation
        ):
            return None
        return sender.key.owner

    def add(self, headers: Headers, client: str, key: VerifiedKey, *, hosts_until: MonotonicInstant) -> None:
        """Remember that these fields carry this key, and that it works on their host. `hosts_until`: until when the
        hosts of the brands are known."""
        self._senders.pop((id(headers), client), None)
        while len(self._senders) >= SENDERS_MAX:
            self._senders.pop(next(iter(self._senders)))
        self._senders[id(headers), client] = _Sender(headers, key, min(key.expires_at, hosts_until))
