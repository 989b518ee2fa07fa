"""Lets the servers of a simulation prove who they are, with certificates that have no bytes: TLS is
left out of a connection, but not the ways in which it fails."""

from __future__ import annotations

import ssl

from attrs import frozen

from mmo_sansio.values.clock import Instant


@frozen
class ServerIdentity:
    """Is the certificate that a server shows."""

    names: frozenset[str]
    """The names and addresses that it is for."""
    expires_at: Instant | None = None
    """In wall time; None for never."""
    is_trusted: bool = True
    """Whether its authority is one that clients know."""

    def check(self, host: str, *, wall: Instant) -> None:
        """Raise ssl.SSLCertVerificationError unless it proves this host by the clock of the
        client's machine."""
        if not self.is_trusted:
            raise certificate_error("unable to get local issuer certificate")
        if self.expires_at is not None and wall >= self.expires_at:
            raise certificate_error("certificate has expired")
        if host not in self.names:
            raise certificate_error(f"Hostname mismatch, certificate is not valid for '{host}'.")


def certificate_error(reason: str) -> ssl.SSLCertVerificationError:
    """Return the error that Python's TLS raises for a certificate that it does not accept."""
    error = ssl.SSLCertVerificationError(
        1, f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {reason}"
    )
    error.reason, error.verify_message = "CERTIFICATE_VERIFY_FAILED", reason
    return error


def handshake_error(reason: str) -> ssl.SSLError:
    """Return the error that Python's TLS raises for a handshake that the server does not
    complete."""
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error
