"""How often one may try to sign in: pure, in memory, for each name and each address."""

from __future__ import annotations

from collections import OrderedDict

from attrs import Factory, define

from mmo_sansio.values.clock import MINUTE, Instant, Span

WINDOW: Span = 15 * MINUTE
PER_NAME = 10
PER_ADDRESS = 50
"""Failures within the window after which nobody is let try. Many operators may come from one address."""

_REMEMBERED = 10_000


@define
class Attempts:
    """Failures of late."""

    _failures: OrderedDict[str, list[Instant]] = Factory(OrderedDict)

    def wait(self, name: str, address: str, now: Instant) -> Span:
        """How long until this name may be tried from this address; 0 when it may be now."""
        limits = ((f"name:{name}", PER_NAME), (f"address:{address}", PER_ADDRESS))
        return max(self._wait(key, most, now) for key, most in limits)

    def _wait(self, key: str, most: int, now: Instant) -> Span:
        recent = [at for at in self._failures.get(key, ()) if now - WINDOW < at <= now]
        return recent[-most] + WINDOW - now if len(recent) >= most else 0

    def failed(self, name: str, address: str, now: Instant) -> None:
        """One more failure."""
        for key in (f"name:{name}", f"address:{address}"):
            earlier = self._failures.pop(key, [])
            self._failures[key] = [at for at in earlier if now - WINDOW < at <= now] + [now]
        while len(self._failures) > _REMEMBERED:
            self._failures.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """It was no failure after all: whoever knows the password starts anew."""
        self._failures.pop(f"name:{name}", None)
        if of_address := self._failures.get(f"address:{address}"):
            of_address.pop()
