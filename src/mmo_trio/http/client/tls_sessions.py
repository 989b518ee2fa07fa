"""TLS sessions to go on with: a second handshake with the same server needs no certificates (RFC 8446 section 2.2).

Every request has a connection of its own, so without this each would cost both sides a full handshake.
"""

from __future__ import annotations

import ssl

import trio
from attrs import Factory, define, frozen

SESSION_LIFETIME_S = 300.0
"""How long a server is believed after its certificate was checked; then it has to show it again."""

SESSIONS_MAX = 1_024
"""Servers that are remembered, the one checked first forgotten first."""


@frozen
class _CachedSession:
    session: ssl.SSLSession
    expires_at: float
    """Trio's time when the certificate is to be checked again."""


@define(eq=False)
class TlsSessionCache:
    """What one client remembers of servers whose certificate it has checked. One for each TLS context."""

    _cached: dict[tuple[str, int], _CachedSession] = Factory(dict)

    def resume(self, tls: ssl.SSLObject, host: str, port: int) -> None:
        """Offer to go on with the last session, before the handshake. A server that can't makes a full handshake."""
        checked = self._cached.get((host, port))
        if checked is not None and trio.current_time() < checked.expires_at:
            tls.session = checked.session

    def store(self, tls: ssl.SSLObject, host: str, port: int) -> None:
        """Keep the session of a full handshake, once an answer was read: TLS 1.3 sends what is needed for it late. One
        session serves any number of connections."""
        if tls.session_reused:
            return
        session = tls.session
        if session is None or not session.has_ticket:
            return
        self._cached.pop((host, port), None)
        self._cached[host, port] = _CachedSession(session, trio.current_time() + SESSION_LIFETIME_S)
        if len(self._cached) > SESSIONS_MAX:
            del self._cached[next(iter(self._cached))]

    def discard(self, host: str, port: int) -> None:
        """Make a full handshake the next time."""
        self._cached.pop((host, port), None)
