"""Defines the contract between the listeners and the handler that answers their requests.

A request is answered in two steps. `admit` sees the head and either answers for good or says how
large the body may be; only then is the body read, and `respond` receives all of it. So a wrong key
costs no body (A1), and a client that waits with `Expect: 100-continue` is not invited to send a
body in vain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from attrs import define, frozen

from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.values.problems import Problem
from mmo_trio.http.responses import PieceWriter

# The route of a request that was rejected before it had one.
UNROUTED = "none"


@define
class RequestContext:
    """Carries what a listener knows of a request, and what the handler adds for the log."""

    request_id: str
    """The id that the listener gave, which is sent back in `X-Request-Id` and in a problem's
    `instance`. It belongs into every log line about the request (G9)."""
    client: str
    """The address at the other end of the connection, perhaps a proxy's; never taken from a
    header."""
    is_secure: bool
    """Whether the connection itself is TLS."""
    has_left: Callable[[], bool] = lambda: False
    """Tells whether the client is known to have given up. Any thread may call this."""
    route: str = UNROUTED
    """Set by the handler: one of few names, never a path."""
    brand: str | None = None
    """Set by the handler once the request is authenticated."""


@frozen
class Admitted:
    """Accepts a head: the listener reads the body and calls `respond`."""

    body_limit: int
    """Bytes that the body may have; a larger one is a 413, unread."""
    respond: Callable[[bytes], Awaitable[HttpResponse | Problem]]
    """Returns the response to the whole body. Called at most once, and not at all when the body
    never arrives."""


@frozen
class AdmittedStream:
    """Accepts a head: the listener reads the body and calls `respond`, which writes the response
    itself."""

    body_limit: int
    """Bytes that the body may have; a larger one is a 413, unread."""
    respond: Callable[[bytes, PieceWriter], Awaitable[None]]
    """Writes the response to the whole body. It may end early when the client is gone. Called at
    most once."""


class Handler(Protocol):
    """Answers the requests of a listener."""

    async def admit(
        self, head: RequestHead, context: RequestContext, /
    ) -> HttpResponse | Problem | Admitted | AdmittedStream:
        """Return the final response, or admit the body. The listener counts, logs and writes a
        Problem.

        HEAD arrives as HEAD; answer it as GET, the listener drops the body. The target is in
        origin-form. The listener adds `Content-Length`, `Date`, `Connection`, `X-Request-Id` and
        `Cache-Control: no-store`; the handler sets none of them. An exception here or in `respond`
        becomes a 500 without details (P3). Only HTTP/1.1 takes an AdmittedStream."""
