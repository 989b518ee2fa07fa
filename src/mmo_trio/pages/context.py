"""Defines the contexts of the pages: the parts of the gateway and of a sandbox that they use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen
from quart import current_app

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Terms
from mmo_trio.engine.engine import Submit
from mmo_trio.sandbox.operator_worker import SandboxOperatorWorker
from mmo_trio.settings.service import ServiceAddresses
from mmo_trio.storage.interface.store import Store

EXTENSION, SANDBOX_EXTENSION = "mmo_pages", "mmo_sandbox"
"""The keys of the contexts among the extensions of the app."""


@frozen
class PagesContext:
    """Gives the pages access to the gateway."""

    store: Store
    submit: Submit
    now: Callable[[], Instant]
    """Returns the gateway's own time."""
    public_url: str
    """The URL of these pages for payers, no slash at the end."""
    error_docs_url: str
    """Base of the type URIs of problems."""
    closing: trio.Event
    """Set when the listeners close, which ends the event streams."""


@frozen
class SandboxContext:
    """Gives the pages of a sandbox access to its controls."""

    new_reference: Callable[[], str]
    """Returns a new ULID."""
    advance_clock: Callable[[Span], Awaitable[Instant]]
    """Moves the clock; returns the new time once everything due on the way is committed."""
    operator: SandboxOperatorWorker | None
    """Prompts the person at the virtual phone; None where only other providers are configured."""
    terms: Terms
    """The terms of payments that the guide makes."""
    addresses: ServiceAddresses
    """The addresses of all listeners."""
    find_demo_key: Callable[[], Awaitable[str | None]]
    """Returns the demo brand's API key in use; None without such a brand."""


def pages_context() -> PagesContext:
    """Return the context of the app that handles the current request."""
    context: PagesContext = current_app.extensions[EXTENSION]
    return context


def sandbox_context() -> SandboxContext:
    """Return the sandbox of the app that handles the current request."""
    sandbox: SandboxContext = current_app.extensions[SANDBOX_EXTENSION]
    return sandbox
