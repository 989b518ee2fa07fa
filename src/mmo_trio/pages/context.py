"""What the pages need of the gateway behind them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Terms
from mmo_trio.engine.engine import Submit
from mmo_trio.sandbox.operator_worker import SandboxOperatorWorker
from mmo_trio.settings.service import ServiceAddresses
from mmo_trio.storage.interface.store import Store


@frozen
class PagesContext:
    """The gateway as pages see it."""

    store: Store
    submit: Submit
    now: Callable[[], Instant]
    error_docs_url: str
    """Base of the type URIs of problems."""
    closing: trio.Event
    """Set when the doors close: what would last longer ends then."""


@frozen
class SandboxContext:
    """What only a sandbox can do."""

    new_reference: Callable[[], str]
    """A fresh ULID."""
    advance_clock: Callable[[Span], Awaitable[Instant]]
    """Moves the clock and gives the new time once everything due on the way is committed."""
    operator: SandboxOperatorWorker | None
    """Prompts the person at the virtual phone; None where only other providers are configured."""
    terms: Terms
    """Under which payments are made from the guide."""
    addresses: ServiceAddresses
    """Where everything is."""
