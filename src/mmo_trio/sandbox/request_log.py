"""Keeps the latest requests of a sandbox's merchants and what each was answered, for who builds a
shop."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import trio
from attrs import Factory, define

from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.problems import Problem
from mmo_trio.http.handler import Admitted, RequestContext

# Requests that are kept.
REQUESTS_MAX: Final = 500

# How much is kept of a body and of an answer.
TEXT_BYTES_MAX: Final = 4_096

# What merchants do not send; the path of a webhook holds its secret.
UNLOGGED_ROUTES: Final = frozenset({"healthz", "readyz", "hooks"})


@define(eq=False)
class RequestLog:
    """Handles requests as the merchant API, and keeps what it answered. What a listener refuses by
    itself, such as a body that is too large, is not seen here."""

    answer: Callable[[RequestHead, RequestContext], Awaitable[HttpResponse | Problem | Admitted]]
    """Answers requests; see `Handler.admit`."""
    own_time: Callable[[], Instant]
    _entries: deque[dict[str, Any]] = Factory(lambda: deque(maxlen=REQUESTS_MAX))
    _last: int = 0

    async def admit(
        self, head: RequestHead, context: RequestContext, /
    ) -> HttpResponse | Problem | Admitted:
        """Return the answer of the merchant API."""
        note = partial(self._note, head, context, trio.current_time())
        answer = await self.answer(head, context)
        if not isinstance(answer, Admitted):
            return note(answer)

        # The answer comes after the body, so it is noted then, with the body.
        respond = answer.respond

        async def respond_and_note(body: bytes) -> HttpResponse | Problem:
            return note(await respond(body), body)

        return Admitted(answer.body_limit, respond_and_note)

    def since(self, number: int) -> Sequence[dict[str, Any]]:
        """Return the requests after this one as JSON objects, the oldest first. A number that no
        request has yet is of a sandbox that ran before: then all of them."""
        return [entry for entry in self._entries if entry["number"] > number or number > self._last]

    def _note(
        self,
        head: RequestHead,
        context: RequestContext,
        began_at: float,
        answer: HttpResponse | Problem,
        body: bytes = b"",
    ) -> HttpResponse | Problem:
        if context.route in UNLOGGED_ROUTES:
            return answer

        # Counted on when old ones are dropped, so that a follower knows what it has seen.
        self._last += 1
        entry: dict[str, Any] = {
            "number": self._last,
            "at": format_with_microseconds(self.own_time()),
            "requestId": context.request_id,
            "brand": context.brand,
            "method": head.method,
            "path": head.target.decode("ascii", "backslashreplace"),
            "status": answer.status,
            "durationMs": round((trio.current_time() - began_at) * 1000),
            "body": _text(body),
        }
        if isinstance(answer, Problem):
            errors = [{"field": error.field, "detail": error.detail} for error in answer.errors]
            entry |= {"problem": answer.segment, "detail": answer.detail, "errors": errors}
        else:
            entry["answer"] = _text(answer.body)

        self._entries.append(entry)
        return answer


def _text(body: bytes) -> str:
    return body[:TEXT_BYTES_MAX].decode(errors="replace")
