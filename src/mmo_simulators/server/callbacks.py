"""Sends an operator's callbacks: each by HTTP/1.1, on a connection of its own."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import h11
import trio

from mmo_sansio.http.egress_rules import UrlError, UrlTarget, parse_url
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_simulators.server.connection import HEAD_BYTES_MAX

# How long a callback may take, from the look-up of the name to the end of the response.
CALLBACK_TIMEOUT_S: Final = 15.0

# Bytes of the largest body of a response.
RESPONSE_BYTES_MAX: Final = 256 * 1024

SendCallback: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a callback, its target in absolute form; raises ExchangeFailed when there is no whole
response."""

# Connects to the server of a URL, by TLS for https; raises OSError or BrokenResourceError.
OpenStream: TypeAlias = Callable[[UrlTarget], Awaitable[trio.abc.Stream]]


def system_streams(ca_file: Path | None = None) -> OpenStream:
    """Return what connects over the system's network, and trusts the system's authorities and those
    in this file (PEM; None: no others). Raises OSError when the file cannot be read or has no
    certificate."""
    context = ssl.create_default_context()
    # Only this: what is offered, a server may choose.
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        context.load_verify_locations(ca_file)

    async def open_stream(target: UrlTarget) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(target.host, target.port)
        if target.scheme == "http":
            return stream

        secured = trio.SSLStream(
            stream, context, server_hostname=target.host, https_compatible=True
        )
        # Also when cancelled: nobody else knows of this stream.
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(secured)
            raise

        return secured

    return open_stream


async def call_back(request: HttpRequest, *, open_stream: OpenStream) -> HttpResponse:
    """Return the response to a callback, of any status. Raises ExchangeFailed."""
    try:
        target = parse_url(request.target.decode("utf-8", "surrogateescape"))
    except UrlError as error:
        raise ExchangeFailed(str(error), may_have_arrived=False) from None

    with trio.move_on_after(CALLBACK_TIMEOUT_S):
        try:
            stream = await open_stream(target)
            try:
                return await _exchange(stream, request, target)
            finally:
                # Without a farewell: the answer is there, or nobody waits for it any more.
                await trio.aclose_forcefully(stream)
        except (OSError, trio.BrokenResourceError, h11.ProtocolError) as error:
            raise ExchangeFailed(
                f"There was no whole response: {error}.", may_have_arrived=True
            ) from error

    # Only the time limit leads here: everything else has returned or raised.
    raise ExchangeFailed(
        f"There was no response within {CALLBACK_TIMEOUT_S:g} s.", may_have_arrived=True
    )


async def _exchange(
    stream: trio.abc.Stream, request: HttpRequest, target: UrlTarget
) -> HttpResponse:
    """Return the response to a request that is sent on a new connection. Raises
    h11.ProtocolError."""
    # On a connection of its own, so that one slow endpoint delays no other callback.
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    own = [
        (b"host", target.authority.encode()),
        (b"content-length", b"%d" % len(request.body)),
        (b"connection", b"close"),
    ]
    events = (
        h11.Request(
            method=request.method, target=target.path_and_query, headers=[*own, *request.headers]
        ),
        h11.Data(data=request.body),
        h11.EndOfMessage(),
    )
    await stream.send_all(b"".join(http.send(event) or b"" for event in events))
    head: h11.Response | None = None
    body = bytearray()
    while True:
        match http.next_event():
            case h11.Response() as head:
                pass
            case h11.Data(data=data):
                body += data
                if len(body) > RESPONSE_BYTES_MAX:
                    raise h11.RemoteProtocolError(
                        f"its body has more than {RESPONSE_BYTES_MAX} bytes"
                    )
            case h11.EndOfMessage():
                assert head is not None
                headers = tuple((bytes(name), bytes(value)) for name, value in head.headers)
                return HttpResponse(head.status_code, headers, bytes(body))
            case h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some()))
            case _:
                pass  # An interim response.
