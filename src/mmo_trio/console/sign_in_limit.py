"""Limits attempts to sign in for each name and each address (IPv6: each /64), in memory."""

from __future__ import annotations

from collections import OrderedDict

from attrs import Factory, define

from mmo_sansio.http.ip_rules import subscriber_network
from mmo_sansio.values.clock import MINUTE, Instant, Span

WINDOW = Span(15 * MINUTE)
FAILURES_PER_NAME_MAX = 10
FAILURES_PER_ADDRESS_MAX = 50
"""Limits of failures within the window. Many users may share one address."""

_KEYS_MAX = 10_000


@define
class SignInLimiter:
    """Remembers the failures within the window."""

    _failures: OrderedDict[str, list[Instant]] = Factory(OrderedDict)

    def retry_after(self, name: str, address: str, now: Instant) -> Span:
        """Return the time until this name may be tried from this address; 0 when it may be now."""
        limits = zip(_keys(name, address), (FAILURES_PER_NAME_MAX, FAILURES_PER_ADDRESS_MAX), strict=True)
        return max(self._retry_after(key, most, now) for key, most in limits)

    def _retry_after(self, key: str, failures_max: int, now: Instant) -> Span:
        recent = [at for at in self._failures.get(key, ()) if now - WINDOW < at <= now]
        return Span(recent[-failures_max] + WINDOW - now if len(recent) >= failures_max else 0)

    def record_failure(self, name: str, address: str, now: Instant) -> None:
        """Record a failure, or an attempt whose result is not known yet."""
        for key in _keys(name, address):
            earlier = self._failures.pop(key, [])
            self._failures[key] = [at for at in earlier if now - WINDOW < at <= now] + [now]
        while len(self._failures) > _KEYS_MAX:
            self._failures.popitem(last=False)

    def record_success(self, name: str, address: str) -> None:
        """Forget the failures of a name after a success, and one failure of its address."""
        of_name, of_address = _keys(name, address)
        self._failures.pop(of_name, None)
        if failures := self._failures.get(of_address):
            failures.pop()


def _keys(name: str, address: str) -> tuple[str, str]:
    return f"name:{name}", f"address:{subscriber_network(address)}"
