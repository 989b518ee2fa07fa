"""Opens the listening sockets of a gateway and the certificate that they show."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import trio
from attrs import frozen
from cryptography import x509

from mmo_sansio.values.clock import SECOND, Instant
from mmo_trio.settings import ListenAddress, SettingsError
from mmo_trio.settings.sections import ListenSection

# As many as may wait while all workers are busy or replaced; Linux bounds it by `somaxconn`.
BACKLOG = 1_024


def open_listening_sockets(listen: ListenSection) -> Mapping[str, socket.socket]:
    """Return the listening sockets by name. Raises SettingsError naming the setting at fault."""
    addresses = {
        "api": listen.api,
        "http2": listen.http2,
        "pages": listen.pages,
        "console": listen.console,
    }
    listening_sockets: dict[str, socket.socket] = {}
    with ExitStack() as opened:
        for name, address in addresses.items():
            if address is not None:
                listening_sockets[name] = opened.enter_context(
                    _open_listening_socket(name, address)
                )
        # All of them are open: from here on they are the caller's.
        opened.pop_all()

    return listening_sockets


def _open_listening_socket(name: str, endpoint: ListenAddress) -> socket.socket:
    """Return a socket that listens on the first address to which the host resolves."""
    try:
        # One address: a name with two would need two sockets, and two lines in READY.
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"listen.{name}",
            f"{endpoint} can't be listened on ({error.strerror or error}).",
            "Stop what uses the address, choose another one, or port 0 for a free one.",
        ) from None


@frozen
class Inherited:
    """Holds what a worker process inherits from its supervisor."""

    listening_sockets: Mapping[str, socket.socket]
    """The sockets from which all workers accept."""
    parent_pipe: int
    """A pipe that ends when the supervisor is gone."""


def to_listener(listening_socket: socket.socket) -> trio.SocketListener:
    """Return Trio's listener on this socket; the listener owns the socket from now on."""
    return trio.SocketListener(trio.socket.from_stdlib_socket(listening_socket))


def socket_url(listening_socket: socket.socket, *, tls: bool) -> str:
    """Return the URL that leads to this socket, port 0 replaced: `http://127.0.0.1:8080`."""
    host, port = listening_socket.getsockname()[:2]
    if ":" in host:
        url_host = f"[{host}]"
    else:
        url_host = host
    return f"{'https' if tls else 'http'}://{url_host}:{port}"


class Certificates:
    """Holds the TLS contexts of the listeners; `reload` reads their files again."""

    def __init__(self, certificate: Path | str, key: Path | str) -> None:
        """Read the files. Raises SettingsError when they can't be used."""
        self.files = (str(certificate), str(key))
        self.reload()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection, which agrees on HTTP/1.1 (ALPN)."""
        return self._context

    def http2_context(self) -> ssl.SSLContext:
        """Return the context for a new connection, which agrees on HTTP/2 where the client offers
        it."""
        return self._http2_context

    @property
    def expires_at(self) -> Instant:
        """Return when the certificate that is in use expires: the first of its chain."""
        return self._expires_at

    def reload(self) -> None:
        """Read the files again. Raises SettingsError and keeps the old contexts if they are bad."""
        # All of it is read before anything is replaced, so that a bad file changes nothing.
        context, http2_context = self._read("http/1.1"), self._read("h2", "http/1.1")
        expires_at = _expiry(Path(self.files[0]).read_bytes())
        self._context, self._http2_context, self._expires_at = context, http2_context, expires_at

    def _read(self, *protocols: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

        # Older ones are forbidden (RFC 8996).
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(protocols)
        try:
            context.load_cert_chain(*self.files, password=_refuse_passphrase)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                "listen.tls_certificate",
                f"{self.files[0]} and {self.files[1]} can't be used ({error}).",
                "Name a PEM chain and its private key that the gateway's user can read.",
            ) from None

        return context


def _expiry(chain: bytes) -> Instant:
    """Return when the first certificate of a chain (PEM) that OpenSSL has accepted expires."""
    at = x509.load_pem_x509_certificate(chain).not_valid_after_utc
    return Instant(int(at.timestamp()) * SECOND)


def _refuse_passphrase() -> str:
    """Stand for OpenSSL's question at the terminal, for which a process would wait."""
    raise SettingsError(
        "listen.tls_key",
        "the key is protected by a passphrase, and nobody can be asked for it.",
        "Write it without one: `openssl pkey -in key.pem -out plain.pem`, readable by the "
        "gateway's user alone.",
    )


def open_certificates(listen: ListenSection) -> Certificates | None:
    """Return the configured certificate; None where none is set. Raises SettingsError."""
    if listen.tls_certificate is None and listen.tls_key is None:
        return None
    if listen.tls_certificate is None or listen.tls_key is None:
        fault = "a certificate and its key are needed together."
        remedy = "Set listen.tls_certificate and listen.tls_key, or neither."
        raise SettingsError("listen.tls_certificate", fault, remedy)
    return Certificates(listen.tls_certificate, listen.tls_key)
