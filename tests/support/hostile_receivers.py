"""Provides receivers that misbehave, each in its own way: real sockets, real TLS, on loopback.

A receiver is a function of a connection. `test_delivery_client` has the outcome of a delivery to
each of them."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TypeAlias

import trio
import trustme
from attrs import define, field

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import DeliveryAttempt
from mmo_sansio.http.messages import HttpRequest
from mmo_trio.http.client.client import HttpClient, tls_context
from mmo_trio.http.client.name_lookup import Resolver
from tests.support.time_limits import HANGS_AFTER_S

HOST = "receiver.merchant.example"

Behaviour: TypeAlias = Callable[["ReceiverConnection"], Awaitable[None]]
"""The behaviour of a receiver on one connection."""


@define
class Receiver:
    """Records the connections and requests of a receiver."""

    port: int
    requests: list[bytes] = field(factory=list)
    """Every complete request: its head and body."""
    connections: int = 0
    written: int = 0
    """Bytes that the clients or their systems accepted."""

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}/callbacks"


@define
class ReceiverConnection:
    """Represents one connection to a receiver."""

    receiver: Receiver
    socket: trio.SocketStream
    context: ssl.SSLContext
    stream: trio.abc.Stream = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.stream = self.socket

    async def start_tls(self) -> None:
        """Completes the TLS handshake."""
        self.stream = trio.SSLStream(
            self.socket, self.context, server_side=True, https_compatible=True
        )
        await self.stream.do_handshake()

    async def read_request(self) -> bytes:
        """Read and record a complete request."""
        octets = b""
        while b"\r\n\r\n" not in octets:
            octets += await self._receive()
        head, _, body = octets.partition(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        while len(body) < length:
            body += await self._receive()
        request = head + b"\r\n\r\n" + body
        self.receiver.requests.append(request)
        return request

    async def _receive(self) -> bytes:
        data = bytes(await self.stream.receive_some())
        if not data:
            raise trio.BrokenResourceError("the client closed before its request was whole")
        return data

    async def write(self, octets: bytes) -> None:
        await self.stream.send_all(octets)
        self.receiver.written += len(octets)

    def reset(self) -> None:
        """Ends the connection with RST."""
        self.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.socket.close()


@asynccontextmanager
async def running_receiver(
    behave: Behaviour, context: ssl.SSLContext, *, address: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Receiver]:
    """Run a receiver with this behaviour during the block."""
    (listener,) = await trio.open_tcp_listeners(port, host=address)
    receiver = Receiver(listener.socket.getsockname()[1])

    async def visit(stream: trio.SocketStream) -> None:
        receiver.connections += 1
        try:
            await behave(ReceiverConnection(receiver, stream, context))
        except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
            pass  # the client hung up, or liked nothing of this
        finally:
            stream.socket.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, visit, [listener])
        yield receiver
        nursery.cancel_scope.cancel()


def answers(*pieces: bytes | float) -> Behaviour:
    """Reads the request, writes these octets, pausing for the seconds between, and stays."""

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        for piece in pieces:
            if isinstance(piece, bytes):
                await visit.write(piece)
            else:
                await trio.sleep(piece)
        await trio.sleep_forever()

    return behave


def answers_and_closes(octets: bytes) -> Behaviour:
    """Reads the request, writes these octets and closes."""

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await visit.write(octets)
        await visit.stream.aclose()

    return behave


def drips(octets: bytes, *, before: bytes = b"") -> Behaviour:
    """Reads the request, writes `before` at once and these octets one each second, for ever."""

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await visit.write(before)
        while True:
            for octet in octets:
                await visit.write(bytes([octet]))
                await trio.sleep(1)

    return behave


def floods(head: bytes, piece: bytes) -> Behaviour:
    """Reads the request, writes the head and then this piece without end."""

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await visit.write(head)
        while True:
            await visit.write(piece)

    return behave


async def closes_tls_without_notice(visit: ReceiverConnection) -> None:
    """Answers without saying how long, and closes TCP without closing TLS."""
    await visit.start_tls()
    await visit.read_request()
    await visit.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")


async def only_accepts(visit: ReceiverConnection) -> None:
    """Accepts the connection and never says anything."""
    await trio.sleep_forever()


async def begins_tls_only(visit: ReceiverConnection) -> None:
    """Takes the ClientHello, sends the first octets of a TLS record, and no more."""
    await visit.socket.receive_some()
    await visit.write(b"\x16\x03\x03\x00\x7a\x02")
    await trio.sleep_forever()


async def speaks_no_tls(visit: ReceiverConnection) -> None:
    await visit.socket.receive_some()
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    await trio.sleep_forever()


async def resets_at_once(visit: ReceiverConnection) -> None:
    visit.reset()


async def resets_after_the_handshake(visit: ReceiverConnection) -> None:
    await visit.start_tls()
    visit.reset()


async def resets_after_the_request(visit: ReceiverConnection) -> None:
    await visit.start_tls()
    await visit.read_request()
    visit.reset()


async def resets_after_half_a_head(visit: ReceiverConnection) -> None:
    await visit.start_tls()
    await visit.read_request()
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-")
    visit.reset()


async def resets_after_the_head(visit: ReceiverConnection) -> None:
    await visit.start_tls()
    await visit.read_request()
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    await trio.sleep(1)
    visit.reset()


@cache
def authority() -> trustme.CA:
    """Return the authority that the client under test trusts."""
    return trustme.CA(key_type=trustme.KeyType.RSA)


@cache
def trusting_context() -> ssl.SSLContext:
    """Return a client's TLS context that trusts this authority too."""
    with authority().cert_pem.tempfile() as file:
        return tls_context(Path(file))


@cache
def server_context() -> ssl.SSLContext:
    """Return a receiver's TLS context with a valid certificate."""
    return server_with_certificate(authority().issue_cert(HOST, "127.0.0.1"))


def server_with_certificate(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


class FixedResolver:
    """Resolves any name to these answers, one after the other; the last one repeats."""

    def __init__(self, *answers: Sequence[str], delay_s: float = 0.0) -> None:
        self._answers = answers
        self._delay_s = delay_s
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(host)
        await trio.sleep(self._delay_s)
        return list(answer)


PRIVATE = EgressRules(allow_private=True)
"""The rules under which loopback can be reached."""


def callback_to(url: str) -> HttpRequest:
    """Return the request of a callback to this URL."""
    headers = ((b"content-type", b"application/json"), (b"x-api-key", b"key-of-the-merchant"))
    return HttpRequest("POST", url.encode(), headers, b'{"status": "success"}')


async def delivered(
    url: str, names: Resolver | None = None, rules: EgressRules = PRIVATE
) -> DeliveryAttempt:
    """Return what came of a callback to this URL; its name is 127.0.0.1's unless `names` says
    otherwise."""
    names = names or FixedResolver(["127.0.0.1"])
    client = HttpClient(rules=rules, context=trusting_context(), resolver=names)
    with trio.fail_after(HANGS_AFTER_S):
        return await client.deliver(callback_to(url))
