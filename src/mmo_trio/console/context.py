"""Defines the context of the console: the parts of the gateway that its pages use."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

import trio
from attrs import Factory, define, frozen
from quart import current_app

from mmo_sansio.providers.common.operations import ReversalOperation
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.admin.auditing import AuditLog, SecretKeys
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.console.counted_past import CountedPast
from mmo_trio.console.passwords import PasswordVerifier
from mmo_trio.engine.engine import Submit
from mmo_trio.http.asgi.web_app import OpenStreams
from mmo_trio.settings import ConsoleSection
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.payees import PayeeQuestions

# The key of the context among the extensions of the app.
EXTENSION = "mmo_console"


@define(eq=False)
class KnownState:
    """Is what was last found of the state of the store, for all pages and event streams."""

    text: str = ""
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
    wall_time: Callable[[], Instant]
    own_time: Callable[[], Instant]
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
    reversal_operation: Callable[[Transaction], ReversalOperation | None] = lambda _: None
    """Returns how reversals of a payment behave; None where its provider takes none."""
    elsewhere: Collection[str] = ()
    """The names of the providers whose payers confirm at a page of the operator, or with a code."""
    is_sandbox: bool = False
    """Whether the gateway is a sandbox, which every page says."""
    simulated_providers: frozenset[str] = frozenset()
    """Those by whose accounts no money moves."""
    live_streams: OpenStreams = Factory(lambda: OpenStreams(limit=100, limit_each=5))
    """Event streams; pages without one stay as they are."""
    exports: OpenStreams = Factory(lambda: OpenStreams(limit=2, limit_each=1))
    known_state: KnownState = Factory(KnownState)
    payees: PayeeQuestions | None = None
    """Asks operators whose account is behind a number; None where nobody may ask."""
    counted: CountedPast = Factory(
        lambda self: CountedPast(self.store.admin, self.wall_time), takes_self=True
    )
    """Counts of payments, of which what is settled is read once."""
    closing: trio.Event = Factory(trio.Event)
    """Set when the listeners close, which ends the event streams."""

    @property
    def moves_no_money(self) -> bool:
        """Tell whether no account moves money: then simulated payments are all that there is."""
        return self.provider_titles.keys() <= self.simulated_providers


def console() -> ConsoleContext:
    """Return the context of the app that handles the current request."""
    context: ConsoleContext = current_app.extensions[EXTENSION]
    return context
