"""Defines the context of the console: the parts of the gateway that its pages use."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import trio
from attrs import Factory, define, frozen
from quart import current_app

from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.values.clock import Instant
from mmo_trio.admin.auditing import AuditLog, SecretKeys
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.console.passwords import PasswordVerifier
from mmo_trio.engine.engine import Submit
from mmo_trio.settings import ConsoleSection
from mmo_trio.storage.sql.store import Store

EXTENSION = "mmo_console"
"""The key of the context among the extensions of the app."""


@define(eq=False)
class OpenStreams:
    """Counts the streams of one kind that this process has open, by user."""

    limit: int
    limit_per_user: int
    _open: Counter[str] = Factory(Counter)

    def has_room_for(self, user: str) -> bool:
        """Return whether the user may open one more."""
        return self._open.total() < self.limit and self._open[user] < self.limit_per_user

    @contextmanager
    def hold(self, user: str) -> Iterator[None]:
        """Count a stream of this user while the block lasts."""
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            self._open += Counter()  # Users without one are forgotten.


@define(eq=False)
class Fingerprint:
    """Is what was last found of the state of the store, for all event streams."""

    found: object = None
    at_s: float = -math.inf
    """Trio's time."""


@frozen
class ConsoleContext:
    """The parts of the gateway that the console shows and acts on."""

    store: Store
    submit: Submit
    audit_log: AuditLog
    keys: SecretKeys
    """Opens and seals the secrets of second factors."""
    now: Callable[[], Instant]
    """Returns wall time."""
    gateway_time: Callable[[], Instant]
    """Returns the gateway's own time, by which it is judged how late a payment is."""
    settings: ConsoleSection
    provider_titles: Mapping[str, str]
    """The display names of the configured providers, by name."""
    provider_breakers: Callable[[], Mapping[str, BreakerState]]
    """Returns the state of this process's breaker of each provider."""
    trusted_proxies: TrustedProxies
    verify_password: PasswordVerifier
    hosts: frozenset[str] = frozenset()
    """Names under which the console may be reached, besides `localhost` and addresses."""
    is_sandbox: bool = False
    """Whether the gateway is a sandbox, which every page says."""
    live_streams: OpenStreams = Factory(lambda: OpenStreams(limit=100, limit_per_user=5))
    """Event streams; pages without one stay as they are."""
    exports: OpenStreams = Factory(lambda: OpenStreams(limit=2, limit_per_user=1))
    fingerprint: Fingerprint = Factory(Fingerprint)
    closing: trio.Event = Factory(trio.Event)
    """Set when the listeners close, which ends the event streams."""


def console() -> ConsoleContext:
    """Return the context of the app that handles the current request."""
    context: ConsoleContext = current_app.extensions[EXTENSION]
    return context
