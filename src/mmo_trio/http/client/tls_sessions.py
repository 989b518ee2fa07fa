"""Caches TLS sessions: a second handshake with the same server needs no certificates (RFC 8446 section 2.2).

Most requests have a connection of their own, so without the cache each would cost both sides a full handshake."""

from __future__ import annotations

import ssl

import trio
from attrs import Factory, define

SESSION_LIFETIME_S = 300.0
"""How long a verified certificate is trusted; then the server has to show it again."""

SESSIONS_MAX = 1_024
"""Servers that are cached; the one verified first is dropped first."""


@define(eq=False)
class TlsSessionCache:
    """Remembers the sessions of servers with a verified certificate, for one TLS context."""

    _cached: dict[tuple[str, int], tuple[ssl.SSLSession, float]] = Factory(dict)
    """By host and port: the session, and Trio's time when to verify the certificate again."""

    def resume(self, tls: ssl.SSLObject, host: str, port: int) -> None:
        """Offer the last session before the handshake. A server that cannot resume it makes a full handshake."""
        session, expires_at = self._cached.get((host, port), (None, 0.0))
        if session is not None and trio.current_time() < expires_at:
            tls.session = session

    def store(self, tls: ssl.SSLObject, host: str, port: int) -> None:
        """Store the session of a full handshake after a response was read, as TLS 1.3 sends the session late. One
        session serves any number of connections."""
        if tls.session_reused:
            return
        session = tls.session
        if session is None or not session.has_ticket:
            return
        self._cached.pop((host, port), None)
        self._cached[host, port] = session, trio.current_time() + SESSION_LIFETIME_S
        if len(self._cached) > SESSIONS_MAX:
            del self._cached[next(iter(self._cached))]

    def discard(self, host: str, port: int) -> None:
        """Remove the session, so that the next handshake is a full one."""
        self._cached.pop((host, port), None)
