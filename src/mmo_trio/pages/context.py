"""Defines the contexts of the pages: the parts of the gateway and of a sandbox that they use; and
keeps other sites from using a sandbox through the browser of its developer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

import trio
from attrs import frozen
from quart import Response, current_app, request

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Terms
from mmo_trio.api.forwarded import parse_address
from mmo_trio.engine.engine import Submit
from mmo_trio.sandbox.operator_worker import SandboxOperatorWorker
from mmo_trio.sandbox.request_log import RequestLog
from mmo_trio.settings.operator_signs import OperatorSign
from mmo_trio.settings.service import ServiceAddresses
from mmo_trio.storage.sql.store import Store

# The default address of `mmo listen`, where the results of a sandbox's examples go.
LISTENER_URL = "https://127.0.0.1:8443/"

# The key of the context among the extensions of the app.
EXTENSION = "mmo_pages"

# Values of `Sec-Fetch-Site` for requests of our own pages and of the person at the browser (W3C
# Fetch Metadata).
OWN_SITES = ("same-origin", "none")


@frozen
class PagesContext:
    """Gives the pages access to the gateway."""

    store: Store
    submit: Submit
    own_time: Callable[[], Instant]
    public_url: str
    """The URL of these pages for payers, no slash at the end."""
    error_docs_url: str
    """Base of the type URIs of problems."""
    closing: trio.Event
    """Set when the listeners close, which ends the event streams."""
    sandbox: SandboxContext | None
    """What only a sandbox can do; None in production."""
    elsewhere: Collection[str] = ()
    """The names of the providers whose payers confirm at a page of the provider, or with a code."""
    title: str = ""
    """Who runs the gateway, as payers know it."""
    signs: Mapping[str, OperatorSign] = MappingProxyType({})
    """How payers recognise the operators, by the names of the providers."""


@frozen
class SandboxContext:
    """Gives the pages of a sandbox access to its controls."""

    new_reference: Callable[[], str]
    """Returns a new ULID."""
    new_page_token: Callable[[], str]
    """Returns a new token of a hosted page."""
    advance_clock: Callable[[Span], Awaitable[Instant]]
    """Moves the clock; returns the new time once everything due on the way is committed."""
    operator: SandboxOperatorWorker | None
    """Prompts the person at the virtual phone; None where only other providers are configured."""
    terms: Terms
    """The terms of payments that the guide makes."""
    addresses: ServiceAddresses
    """The addresses of all listeners."""
    request_log: RequestLog
    find_demo_key: Callable[[], Awaitable[str | None]]
    """Returns the demo brand's API key in use; None without such a brand."""
    simulated_providers: frozenset[str] = frozenset()
    """Those by whose accounts no money moves."""


def pages_context() -> PagesContext:
    """Return the context of the app that handles the current request."""
    context: PagesContext = current_app.extensions[EXTENSION]
    return context


def sandbox_context() -> SandboxContext:
    """Return the sandbox of the app that handles the current request."""
    sandbox = pages_context().sandbox
    assert sandbox is not None
    return sandbox


async def find_shown_key() -> str | None:
    """Return the demo brand's API key for a page of a sandbox that is asked for by an address; None
    elsewhere.

    Another site can have a name of its own lead to this machine, and would then read the page."""
    sandbox = pages_context().sandbox
    host = urlsplit(f"//{request.host}").hostname or ""
    is_own = host == "localhost" or parse_address(host) is not None
    if sandbox is not None and is_own:
        return await sandbox.find_demo_key()
    return None


async def reject_cross_site_post() -> Response | None:
    """Answer 403 to a request that changes something and that another site has made the browser
    send.

    Programs other than browsers send neither field and are not affected."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")

    # Browsers that are older, or that reach the sandbox by plain HTTP at a name, send no site.
    if site is not None:
        is_own = site in OWN_SITES
    else:
        is_own = origin is None or urlsplit(origin).netloc.lower() == request.host.lower()

    if is_own or request.method in ("GET", "HEAD", "OPTIONS"):
        return None

    return Response(
        "This request comes from another site, so it is refused.", 403, content_type="text/plain"
    )
