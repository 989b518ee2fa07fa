"""Plays situations at a merchant's endpoint over real connections, with the bytes that the gateway
sends."""

from __future__ import annotations

import errno
import math
import os
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream
from attrs import define, field, frozen

from mmo_merchant.endpoint_check.situations.situation import (
    ConnectionUse,
    PlayedRequest,
    Script,
    SendingPace,
    TlsVersion,
    key_fields,
)
from mmo_merchant.endpoint_check.situations.verdict import (
    EndpointAnswer,
    NoEndpointAnswer,
    Observation,
)
from mmo_sansio import __version__
from mmo_sansio.http.egress_rules import UrlTarget
from mmo_sansio.http.exchange import DELIVERY_TIMEOUT_S
from mmo_sansio.http.messages import HttpRequest, request_bytes
from mmo_sansio.http.response_reader import (
    BodyEnd,
    FinalResponseHead,
    ResponseBodyError,
    ResponseHeadError,
    ResponseHeadReader,
    response_body,
)

# What the gateway calls itself.
USER_AGENT: Final = f"mmo-gateway/{__version__}".encode()

# The number of pieces in which a slow request is sent.
PIECES: Final = 10

# Seconds between the pieces of a slow request.
PAUSE_S: Final = 0.3

# Connections that are open and silent in one of the situations.
SILENT_CONNECTIONS: Final = 4

# Bytes of an answer's body that are read, as the gateway reads them (K4).
ANSWER_BYTES_MAX: Final = 1024 * 1024

RECEIVE_BYTES: Final = 16 * 1024

# Both ends of the range, so that only this version is offered.
_PROTOCOL_VERSIONS: Final = {
    TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}

# Everything by which the endpoint, or the network, can break an exchange; faults of our own are
# raised.
_FAILURES = (
    OSError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    ResponseHeadError,
    ResponseBodyError,
)


class EndpointUnavailable(Exception):
    """There was no answer; the message says why, as a clause without a final dot."""


@frozen
class PlayedEndpoint:
    """Is the endpoint under test."""

    target: UrlTarget
    key: bytes = field(repr=False)
    """The API key that it expects."""
    contexts: Mapping[TlsVersion | None, ssl.SSLContext] = field(repr=False)
    """The TLS contexts, by the only version that they offer."""
    pause_s: float = PAUSE_S
    """Seconds between the pieces of a slow request."""
    deadline_s: float = DELIVERY_TIMEOUT_S
    """Seconds for each request, from the look-up to the end of its answer (K2)."""


def played_endpoint(target: UrlTarget, key: bytes, ca_file: Path | None) -> PlayedEndpoint:
    """Return the endpoint, whose certificate the system's authorities or those in `ca_file` (PEM)
    have signed.

    Raises OSError when the file cannot be read or holds no certificate."""
    contexts: dict[TlsVersion | None, ssl.SSLContext] = {None: _tls_context(ca_file)}
    for version, protocol in _PROTOCOL_VERSIONS.items():
        contexts[version] = context = _tls_context(ca_file)
        context.minimum_version = context.maximum_version = protocol
    return PlayedEndpoint(target, key, contexts)


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Return the context that verifies a receiver as the gateway does (K7)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Only names that are said to be names count (RFC 9110 section 4.3.4).
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    context.load_default_certs()
    if ca_file is not None:
        context.load_verify_locations(ca_file)

    return context


async def play(endpoint: PlayedEndpoint, script: Script) -> list[list[Observation]]:
    """Send the requests of a script, round by round, and return what followed each."""
    observed = []
    # Opened first: they wait while the requests are sent, and are closed with the block.
    async with AsyncExitStack() as stack:
        if script.connection is ConnectionUse.WITH_SILENT:
            for _ in range(SILENT_CONNECTIONS):
                await _open_silent(endpoint, stack)

        kept = None
        if script.connection is ConnectionUse.KEPT:
            kept = _KeptConnection()

        for requests in script.rounds:
            observed.append(await _play_round(endpoint, requests, kept))

        if kept is not None:
            await kept.close()

    return observed


async def _open_silent(endpoint: PlayedEndpoint, stack: AsyncExitStack) -> None:
    try:
        stream = await anyio.connect_tcp(endpoint.target.host, endpoint.target.port)
    except OSError:
        return  # The request that follows finds out why.
    stack.push_async_callback(anyio.aclose_forcefully, stream)


async def _play_round(
    endpoint: PlayedEndpoint, requests: Sequence[PlayedRequest], kept: _KeptConnection | None
) -> list[Observation]:
    # By number, as answers may come in any order.
    observed: dict[int, Observation] = {}

    async def send(number: int, request: PlayedRequest) -> None:
        observed[number] = await _observe(endpoint, request, kept)

    async with anyio.create_task_group() as tasks:
        for number, request in enumerate(requests):
            tasks.start_soon(send, number, request)

    return [observed[number] for number in range(len(requests))]


@define(eq=False)
class _KeptConnection:
    """Holds the connection for the next request, while there is one."""

    stream: ByteStream | None = None

    async def close(self) -> None:
        """Close the connection if there is one."""
        if self.stream is not None:
            await anyio.aclose_forcefully(self.stream)
            self.stream = None


async def _observe(
    endpoint: PlayedEndpoint, request: PlayedRequest, kept: _KeptConnection | None
) -> Observation:
    """Send one request and return what followed."""
    with anyio.move_on_after(endpoint.deadline_s) as scope:
        try:
            if kept is not None and kept.stream is not None:
                # Taken out first: a request that is cancelled leaves no stream that is half read.
                stream = kept.stream
                kept.stream = None

                # The endpoint may have closed it meanwhile, as it may: a new one is opened then.
                with suppress(*_FAILURES):
                    return await _send(endpoint, request, stream, kept, scope)

            stream = await _connect(endpoint, request.tls)
            return await _send(endpoint, request, stream, kept, scope)
        except _FAILURES as error:
            return NoEndpointAnswer(_failure_reason(error))

    return NoEndpointAnswer(f"none came within {endpoint.deadline_s:g} s")


async def get(endpoint: PlayedEndpoint) -> tuple[int, bytes]:
    """Return the status and the body that its URL answers to a GET without a key. Raises
    EndpointUnavailable."""
    # None while there is no connection that would have to be closed.
    stream = None
    try:
        with anyio.fail_after(endpoint.deadline_s):
            stream = await _connect(endpoint, None)
            await stream.send(
                request_bytes(HttpRequest("GET", b""), endpoint.target, user_agent=USER_AGENT)
            )
            head = await _receive_head(stream)
            body = bytearray()
            await _receive_body(stream, head, body)
            return head.status, bytes(body)
    except TimeoutError:
        raise EndpointUnavailable(f"none came within {endpoint.deadline_s:g} s") from None
    except _FAILURES as error:
        raise EndpointUnavailable(_failure_reason(error)) from None
    finally:
        if stream is not None:
            await anyio.aclose_forcefully(stream)


async def _connect(endpoint: PlayedEndpoint, tls: TlsVersion | None) -> ByteStream:
    """Return a connection, under TLS unless the URL says http. Raises one of _FAILURES."""
    target = endpoint.target
    context = endpoint.contexts[tls]
    tcp = await anyio.connect_tcp(target.host, target.port)
    if target.scheme == "http":
        return tcp

    # Many servers close without TLS's own end, and the framing of HTTP tells whether a body is
    # whole.
    try:
        return await TLSStream.wrap(
            tcp, hostname=target.host, ssl_context=context, standard_compatible=False
        )
    except BaseException:
        # Cancellation too: nothing else knows of the connection yet.
        await anyio.aclose_forcefully(tcp)
        raise


async def _send(
    endpoint: PlayedEndpoint,
    request: PlayedRequest,
    stream: ByteStream,
    kept: _KeptConnection | None,
    scope: anyio.CancelScope,
) -> Observation:
    """Send a request and return its answer; the connection is closed, or kept. Raises one of
    _FAILURES.

    The head is the answer, as for the gateway (K2); the body may break off, or last longer than the
    scope."""
    started = anyio.current_time()
    is_kept = False
    is_whole = False
    try:
        for number, piece in enumerate(_pieces(endpoint, request)):
            if number:
                await anyio.sleep(endpoint.pause_s)
            await stream.send(piece)

        if request.pace is SendingPace.BROKEN_OFF:
            return NoEndpointAnswer("the request was broken off")

        head = await _receive_head(stream)
        duration_s = anyio.current_time() - started

        # From here the deadline ends only the body: an answer that has come stays an answer.
        deadline = scope.deadline
        scope.deadline = math.inf
        body = bytearray()
        with anyio.CancelScope(deadline=deadline), suppress(*_FAILURES):
            is_whole = await _receive_body(stream, head, body)

        # Unread bytes of a body would be taken for the beginning of the next answer.
        is_kept = kept is not None and is_whole and _is_reusable(head)
        has_key = endpoint.key in head.raw or endpoint.key in body
        return EndpointAnswer(head.status, duration_s, has_key=has_key, is_whole=is_whole)
    finally:
        # Also after a failure or a cancellation: then nothing is kept.
        if kept is not None and is_kept:
            kept.stream = stream
        else:
            await anyio.aclose_forcefully(stream)


def _pieces(endpoint: PlayedEndpoint, request: PlayedRequest) -> Sequence[bytes]:
    """Return the bytes of a request as they are to be sent, with a pause after each piece."""
    keys = tuple((b"x-api-key", key_field) for key_field in key_fields(request.key, endpoint.key))
    message = HttpRequest(
        request.method, b"", ((b"content-type", b"application/json"), *keys), request.body
    )
    written = request_bytes(message, endpoint.target, user_agent=USER_AGENT)
    end = len(written) - len(request.body)
    match request.pace:
        case SendingPace.AT_ONCE:
            return [written]
        case SendingPace.HEAD_FIRST:
            return [written[:end], written[end:]]
        case SendingPace.SLOW_HEAD:
            # The body leaves with the last piece of the head, so that the head alone is slow.
            *pieces, last = _divide(written[:end])
            return [*pieces, last + written[end:]]
        case SendingPace.SLOW_BODY:
            return [written[:end], *_divide(written[end:])]
        case SendingPace.BROKEN_OFF:
            # After half of it the connection is closed, by the one that sends.
            return [written[: end + len(request.body) // 2]]


def _divide(data: bytes) -> list[bytes]:
    # Rounded up, so that there are at most PIECES of them.
    size = -(-len(data) // PIECES)
    return [data[at : at + size] for at in range(0, len(data), size)]


async def _receive(stream: ByteStream) -> bytes:
    """Return the bytes that come next; b"" at the end of the connection."""
    try:
        return await stream.receive(RECEIVE_BYTES)
    except anyio.EndOfStream:
        return b""


async def _receive_head(stream: ByteStream) -> FinalResponseHead:
    """Return the head of the answer. Raises one of _FAILURES."""
    # A server may send interim answers before (RFC 9110 section 15.2); the reader skips them.
    reader = ResponseHeadReader()
    while (head := reader.receive(await _receive(stream))) is None:
        pass
    return head


async def _receive_body(stream: ByteStream, head: FinalResponseHead, body: bytearray) -> bool:
    """Add the pieces of the answer's body to `body` as they come; return whether all were read.
    Raises one of _FAILURES."""
    decoder = response_body(head)
    while True:
        for piece in decoder.read_available():
            body += piece
        # More than the limit is left unread, as the gateway leaves it (K4).
        if decoder.is_complete or len(body) >= ANSWER_BYTES_MAX:
            return decoder.is_complete
        decoder.receive(await _receive(stream))


def _is_reusable(head: FinalResponseHead) -> bool:
    """Tell whether the next request may use the connection (RFC 9112 section 9.3)."""
    closes = any(
        name == b"connection" and b"close" in value.lower() for name, value in head.headers
    )
    return head.raw.startswith(b"HTTP/1.1") and head.framing is not BodyEnd.CLOSE and not closes


def _failure_reason(error: BaseException) -> str:
    """Return what happened, as a clause without a final dot."""
    # anyio raises an OSError of its own, from the one that says why.
    cause = error.__cause__ or error
    if isinstance(cause, BaseExceptionGroup):  # One for each address that was tried.
        cause = cause.exceptions[0]

    match cause:
        case ssl.SSLCertVerificationError(verify_message=reason) if reason:
            return (
                f"the certificate is not accepted ({reason}); give the authority that signed it "
                f"in --ca-file"
            )
        case ssl.SSLError(reason=reason) if reason:
            return f"TLS says {reason.replace('_', ' ').lower()}"
        case ResponseHeadError():
            return str(cause).rstrip(".")
        case OSError(errno=int(number)) if number in errno.errorcode:
            return os.strerror(number)  # The text of asyncio's errors has an address, too.
        case OSError(strerror=reason) if reason:
            return reason
        case _:
            return str(cause) or "the connection broke"
