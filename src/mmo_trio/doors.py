"""The addresses a gateway is reached at: sockets that are open before anything is said to be ready, and TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import trio

from mmo_trio.settings import Endpoint, SettingsError

BACKLOG = 1_024


async def open_listener(name: str, endpoint: Endpoint) -> trio.SocketListener:
    """A listening socket at this address; raises SettingsError naming the setting when it can't be had."""
    try:
        listeners = await trio.open_tcp_listeners(
            endpoint.port, host=endpoint.host, backlog=BACKLOG
        )
    except OSError as error:
        raise SettingsError(
            f"listen.{name}",
            f"{endpoint} can't be listened on ({error.strerror or error}).",
            "Stop what uses the address, choose another one, or port 0 for a free one.",
        ) from None
    for further in listeners[1:]:  # A name may stand for several addresses; one door is enough.
        await further.aclose()
    return listeners[0]


def address_of(listener: trio.SocketListener, *, tls: bool) -> str:
    """The URL that leads to this socket, port 0 replaced: `http://127.0.0.1:8080`."""
    host, port = listener.socket.getsockname()[:2]
    named = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{named}:{port}"


class Certificates:
    """The TLS context of our listeners, read again when asked to."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises SettingsError when the files can't be used."""
        self.files = (str(certificate), str(key))
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        return self._context

    def reload(self) -> None:
        """Use what the files hold now; raises SettingsError, and goes on with the old, when they can't be used."""
        self._context = self._read()

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(*self.files)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                "listen.tls_certificate",
                f"{self.files[0]} and {self.files[1]} can't be used ({error}).",
                "Name a PEM chain and its private key that the gateway's user can read.",
            ) from None
        return context
