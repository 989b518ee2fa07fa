"""What a door serves: the contract between those who carry HTTP and the one service that answers
it.

A request is answered in two steps. `admit` sees the head and either answers for good or says how
large the body may be; only then is the body read, and `respond` gets it whole. So a wrong key costs
no body (A1), and a client that waits with `Expect: 100-continue` is not invited to send one in
vain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from attrs import define, frozen

from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.values.problems import Problem

UNROUTED = "none"
"""The route of a request that was refused before it had one."""


@define
class RequestContext:
    """What a door knows of a request beside its bytes, and what the service tells it for its log and counts."""

    request_id: str
    """Minted at the edge, sent back in `X-Request-Id` and in a problem's `instance`; belongs into every
    log line about the request (G9)."""
    client: str
    """The address at the other end of the connection, perhaps a proxy's; never taken from a
    header."""
    is_secure: bool
    """Whether the connection itself is TLS."""
    route: str = UNROUTED
    """Set by the service: one of few names, never a path."""
    brand: str | None = None
    """Set by the service once it knows who asks."""


@frozen
class Admitted:
    """The head is good: read the body, then ask for the answer."""

    body_limit: int
    """Bytes the body may have; a larger one is a 413, unread."""
    respond: Callable[[bytes], Awaitable[HttpResponse | Problem]]
    """Gives the answer to the whole body. Called at most once, and not at all when the body never
    comes."""


class Handler(Protocol):
    """Answers requests, whichever door they came through."""

    async def admit(
        self, head: RequestHead, context: RequestContext, /
    ) -> HttpResponse | Problem | Admitted:
        """The final answer, or leave to send the body. A Problem is a refusal, which the door writes
        down, counts and logs.

        HEAD arrives as HEAD; answer it as GET, the door drops the body. The door adds
        `Content-Length`, `Date`, `PostgresConnection`, `X-Request-Id` and `Cache-Control: no-store`; the
        service sets none of them. An exception here or in `respond` becomes a 500 that tells
        nothing (P3)."""
        ...
