"""Serves HTTP/1.1 on one connection, and loses what the simulator says is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from email.utils import format_datetime
from typing import Final, TypeAlias

import h11
import trio
from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, to_datetime
from mmo_simulators.common.faults import DroppedConnection
from mmo_simulators.common.messages import json_response

# Bytes of the largest head of a message: twice what Apache and nginx allow for one line of it.
HEAD_BYTES_MAX: Final = 16 * 1024

# Bytes of the largest body of a request.
BODY_BYTES_MAX: Final = 1024 * 1024

# How long a request may take to arrive, from the answer to the one before.
REQUEST_TIMEOUT_S: Final = 60.0

# How long the client may take to read the last response.
LINGER_S: Final = 2.0

Respond: TypeAlias = Callable[[HttpRequest], HttpResponse | DroppedConnection]


@define(eq=False)
class SimulatorConnection:
    """Is a connection that a client has opened; its requests are answered in turn (RFC 9112)."""

    _stream: trio.abc.Stream
    _respond: Respond
    _now: Callable[[], Instant]
    _http: h11.Connection = field(
        default=Factory(
            lambda: h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        ),
        init=False,
    )

    async def serve(self) -> None:
        """Answer requests until either side closes the connection."""
        # A client that goes away is no fault.
        with suppress(trio.BrokenResourceError):
            while await self._serve_request():
                self._http.start_next_cycle()

    async def _serve_request(self) -> bool:
        """Answer the next request; return whether another one may follow."""
        request = None
        # A request that takes too long is answered by closing, as if the client had.
        try:
            with trio.move_on_after(REQUEST_TIMEOUT_S):
                request = await self._receive_request()
        except h11.RemoteProtocolError as error:
            response = json_response(
                error.error_status_hint, {"error": f"This is no request that can be read: {error}."}
            )
            await self._stream.send_all(self._to_bytes(response, closes=True))
            await self._close_gently()
            return False

        if request is None:
            return False

        # 1. An answer. 2. One that is lost or breaks off, as the script says.
        match self._respond(request):
            case HttpResponse() as response:
                await self._stream.send_all(
                    self._to_bytes(response, has_body=request.method != "HEAD")
                )
            case DroppedConnection(close_after, broken_off, sent_share):
                octets = b""
                if broken_off is not None:
                    octets = self._to_bytes(broken_off)
                await self._stream.send_all(octets[: int(len(octets) * sent_share)])
                await trio.sleep(close_after / SECOND)
                return False

        # The client may have asked to close, or sent something that can't be followed by more.
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            return True

        await self._close_gently()
        return False

    async def _receive_request(self) -> HttpRequest | None:
        """Return the next request; None when the client has closed. Raises
        h11.RemoteProtocolError."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            match self._http.next_event():
                case h11.Request() as head:
                    pass
                case h11.Data(data=data):
                    body += data
                    if len(body) > BODY_BYTES_MAX:
                        raise h11.RemoteProtocolError(
                            f"its body has more than {BODY_BYTES_MAX} bytes", 413
                        )
                case h11.EndOfMessage():
                    assert head is not None
                    headers = tuple((bytes(name), bytes(value)) for name, value in head.headers)
                    return HttpRequest(
                        head.method.decode("ascii"), bytes(head.target), headers, bytes(body)
                    )
                case h11.ConnectionClosed():
                    return None
                case _:
                    # Only then such a client sends its body (RFC 9110 section 10.1.1).
                    if self._http.they_are_waiting_for_100_continue:
                        go_ahead = h11.InformationalResponse(status_code=100, headers=[])
                        await self._stream.send_all(self._http.send(go_ahead) or b"")
                    self._http.receive_data(bytes(await self._stream.receive_some()))

    def _to_bytes(
        self, response: HttpResponse, *, has_body: bool = True, closes: bool = False
    ) -> bytes:
        """Return a response as it is sent, with the fields that are the server's own."""
        own = [(b"date", format_datetime(to_datetime(self._now()), usegmt=True).encode())]
        # These have no body, and say so by their status (RFC 9110 section 8.6).
        if response.status not in (204, 304):
            own.append((b"content-length", b"%d" % len(response.body)))

        if closes:
            own.append((b"connection", b"close"))

        head = h11.Response(status_code=response.status, headers=[*own, *response.headers])
        body = []
        if has_body and response.body:
            body = [h11.Data(data=response.body)]

        return b"".join(
            self._http.send(event) or b"" for event in (head, *body, h11.EndOfMessage())
        )

    async def _close_gently(self) -> None:
        """Close so that the client can still read what was sent: with input unread, closing would
        reset the connection (RFC 9112 section 9.6)."""
        with trio.move_on_after(LINGER_S):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
                while await self._stream.receive_some():
                    pass
            await self._stream.aclose()
