"""The addresses a gateway is reached at: sockets that are open before anything is said to be ready, and TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import trio
from attrs import frozen

from mmo_trio.settings import ListenAddress, SettingsError
from mmo_trio.settings.sections import ListenSection

BACKLOG = 1_024


LISTENER_NAMES = ("api", "pages", "console")


def open_listening_sockets(listen: ListenSection) -> Mapping[str, socket.socket]:
    """The listening sockets of a gateway by name; raises SettingsError naming the setting of one that can't be had."""
    wanted = {"api": listen.api, "pages": listen.pages, "console": listen.console}
    doors: dict[str, socket.socket] = {}
    try:
        for name in LISTENER_NAMES:
            doors[name] = _open_listening_socket(name, wanted[name])
    except SettingsError:
        for each in doors.values():
            each.close()
        raise
    return doors


def _open_listening_socket(name: str, endpoint: ListenAddress) -> socket.socket:
    """A listening socket at this address. A name may stand for several addresses; one door is enough."""
    try:
        found = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"listen.{name}",
            f"{endpoint} can't be listened on ({error.strerror or error}).",
            "Stop what uses the address, choose another one, or port 0 for a free one.",
        ) from None


@frozen
class Inherited:
    """What a worker process has from its supervisor."""

    listening_sockets: Mapping[str, socket.socket]
    """Listening sockets that all workers accept from."""
    parent_pipe: int
    """A pipe that ends when the supervisor is gone."""


def to_listener(listening_socket: socket.socket) -> trio.SocketListener:
    """Trio's listener on this socket, which is the listener's from now on."""
    return trio.SocketListener(trio.socket.from_stdlib_socket(listening_socket))


def socket_url(listening_socket: socket.socket, *, tls: bool) -> str:
    """The URL that leads to this socket, port 0 replaced: `http://127.0.0.1:8080`."""
    host, port = listening_socket.getsockname()[:2]
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
