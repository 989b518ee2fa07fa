"""Sends the status of a payment to its page, as it changes (server-sent events)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator
from enum import StrEnum

import trio
from attrs import define, field
from quart import Response

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.error_codes import EXPLANATIONS, PayerStep
from mmo_sansio.values.model import Stage, Transaction
from mmo_trio.pages.context import PagesContext
from mmo_trio.pages.payment.formatting import format_time_left
from mmo_trio.pages.payment.languages.texts import PageTexts
from mmo_trio.storage.interface.store import StoreUnavailable

STREAM_LIFETIME_S = 30.0
"""The lifetime of a stream; the browser then opens the next one."""
STREAMS_MAX = 500
"""Limit on concurrent streams; pages without one reload by themselves."""
STREAMS_PER_PAGE_MAX = 5
"""Limit on concurrent streams of one page, so that nobody takes those of all others with a single link."""


class PayerStatus(StrEnum):
    """Names the status of a payment as its payer sees it."""

    OPEN = "open"
    """The page waits for its button."""
    CLOSED = "closed"
    """The page has expired; nothing was sent."""
    SENDING = "sending"
    WAITING = "waiting"
    """The provider has it; the phone may show a prompt."""
    PAID = "paid"
    FAILED = "failed"
    UNCLEAR = "unclear"
    """It has ended without proof that no money has moved."""


_STATUS_BY_STAGE = {
    Stage.CREATED: PayerStatus.SENDING,
    Stage.SUBMITTING: PayerStatus.SENDING,
    Stage.AWAITING_RESULT: PayerStatus.WAITING,
    Stage.SUCCEEDED: PayerStatus.PAID,
    Stage.FAILED: PayerStatus.FAILED,
}

REFRESH_INTERVALS_S = {PayerStatus.OPEN: 2.0, PayerStatus.SENDING: 0.5, PayerStatus.WAITING: 0.5}
"""Intervals between look-ups. Most pages wait for their button, so theirs can be long."""


def payer_status(transaction: Transaction, *, now: Instant) -> PayerStatus:
    """Return the status of a payment for its payer."""
    page, code = transaction.order.page, transaction.progress.error_code
    if code is not None and EXPLANATIONS[code].payer_step is PayerStep.WAIT:
        return PayerStatus.UNCLEAR
    if transaction.progress.stage is not Stage.AWAITING_CUSTOMER or page is None:
        return _STATUS_BY_STAGE[transaction.progress.stage]
    return PayerStatus.CLOSED if now >= page.closes_at else PayerStatus.OPEN


@define(eq=False)
class PaymentEventStreams:
    """Manages the event streams of all open pages."""

    _context: PagesContext
    _open_streams: Counter[str] = field(factory=Counter, init=False)
    """The number of open streams of each page, by its token."""

    def open_stream(self, token: str, texts: PageTexts) -> Response:
        """Open a stream for a page; answer 503 when there are too many."""
        if not self._has_room(token) or self._context.closing.is_set():
            return Response("", 503, {"Retry-After": "5"})
        response = Response(self._events(token, texts), content_type="text/event-stream")
        response.timeout = None
        return response

    def _has_room(self, token: str) -> bool:
        return self._open_streams.total() < STREAMS_MAX and self._open_streams[token] < STREAMS_PER_PAGE_MAX

    async def _events(self, token: str, texts: PageTexts) -> AsyncGenerator[bytes, None]:
        """Yield an event for each change, the first at once; an event has only page texts."""
        if not self._has_room(token):  # Others have begun since the response was made.
            return
        self._open_streams[token] += 1
        try:
            last, ends_at = "", trio.current_time() + STREAM_LIFETIME_S
            yield b"retry: 1000\n\n"
            while trio.current_time() < ends_at and not self._context.closing.is_set():
                status, event = await self._current_event(token, texts)
                if status is None:
                    return
                pause_s = REFRESH_INTERVALS_S.get(status, REFRESH_INTERVALS_S[PayerStatus.OPEN])
                if event != last:
                    last = event
                    yield f"data: {event}\n\n".encode()
                with trio.move_on_after(pause_s):
                    await self._context.closing.wait()
        finally:
            self._open_streams[token] -= 1
            if not self._open_streams[token]:
                del self._open_streams[token]

    async def _current_event(self, token: str, texts: PageTexts) -> tuple[PayerStatus | None, str]:
        """Return the status and the JSON of an event; None when there is no payment or no store."""
        try:
            transaction = await self._context.store.transaction_by_page_token(token)
        except StoreUnavailable:
            return None, ""
        if transaction is None or transaction.order.page is None:
            return None, ""
        now = self._context.now()
        status = payer_status(transaction, now=now)
        members: dict[str, str] = {"standing": status}
        if status is PayerStatus.OPEN:
            members["left"] = format_time_left(Span(transaction.order.page.closes_at - now), texts)
        return status, json.dumps(members, ensure_ascii=False)
