"""What the console needs of the gateway behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from attrs import frozen

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.values.clock import Instant
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.settings import ConsoleSection
from mmo_trio.storage.interface.store import Store

Submit: TypeAlias = Callable[[Input], Awaitable[Reply]]
"""The engine: the reply once what it changed is durable."""


@frozen
class ConsoleContext:
    """The gateway as operators see it."""

    store: Store
    submit: Submit
    now: Callable[[], Instant]
    settings: ConsoleSection
    provider_titles: Mapping[str, str]
    """The display names of the configured providers, by name."""
    provider_breakers: Callable[[], Mapping[str, BreakerState]]
    """What this process's breakers think of the providers."""
    trusted_proxies: TrustedProxies
