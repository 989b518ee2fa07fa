"""How a payment stands for its payer, and telling it as it changes (server-sent events)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from enum import StrEnum

import trio
from quart import Response

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Stage, Transaction
from mmo_trio.pages.context import PagesContext
from mmo_trio.pages.payment.formatting import format_time_left
from mmo_trio.pages.payment.languages.texts import PageTexts
from mmo_trio.storage.interface.store import StoreUnavailable

STREAM_LIFETIME_S = 30.0
"""How long a stream lasts before the browser asks for the next one."""
STREAMS_MAX = 500
"""Streams at one time; whoever finds no room looks by itself."""


class PayerStatus(StrEnum):
    """What the payer can know of a payment."""

    OPEN = "open"
    """It waits for the button."""
    CLOSED = "closed"
    """The page's time is over; nothing was sent."""
    SENDING = "sending"
    WAITING = "waiting"
    """The provider has it; the phone may show a prompt."""
    PAID = "paid"
    FAILED = "failed"


_STATUS_BY_STAGE = {
    Stage.CREATED: PayerStatus.SENDING,
    Stage.SUBMITTING: PayerStatus.SENDING,
    Stage.AWAITING_RESULT: PayerStatus.WAITING,
    Stage.SUCCEEDED: PayerStatus.PAID,
    Stage.FAILED: PayerStatus.FAILED,
}

REFRESH_INTERVALS_S = {PayerStatus.OPEN: 2.0, PayerStatus.SENDING: 0.5, PayerStatus.WAITING: 0.5}
"""Between two looks. Most pages wait for their button, and nobody sees that they look rarely."""


def payer_status(transaction: Transaction, *, now: Instant) -> PayerStatus:
    """How it stands now."""
    page = transaction.order.page
    if transaction.progress.stage is not Stage.AWAITING_CUSTOMER or page is None:
        return _STATUS_BY_STAGE[transaction.progress.stage]
    return PayerStatus.CLOSED if now >= page.closes_at else PayerStatus.OPEN


class PaymentEventStreams:
    """The streams of all pages that are open."""

    def __init__(self, context: PagesContext) -> None:
        self._context = context
        self._open_streams = 0

    def open_stream(self, token: str, texts: PageTexts) -> Response:
        """A stream for this page, or 503 when there are too many."""
        if self._open_streams >= STREAMS_MAX or self._context.closing.is_set():
            return Response("", 503, {"Retry-After": "5"})
        response = Response(self._events(token, texts), content_type="text/event-stream")
        response.timeout = None
        return response

    async def _events(self, token: str, texts: PageTexts) -> AsyncGenerator[bytes, None]:
        """One event for each change, the first at once; nothing in it but what the page shows."""
        self._open_streams += 1
        try:
            last, until = "", trio.current_time() + STREAM_LIFETIME_S
            yield b"retry: 1000\n\n"
            while trio.current_time() < until and not self._context.closing.is_set():
                standing, told = await self._current_event(token, texts)
                if standing is None:
                    return
                pause_s = REFRESH_INTERVALS_S.get(standing, REFRESH_INTERVALS_S[PayerStatus.OPEN])
                if told != last:
                    last = told
                    yield f"data: {told}\n\n".encode()
                with trio.move_on_after(pause_s):
                    await self._context.closing.wait()
        finally:
            self._open_streams -= 1

    async def _current_event(self, token: str, texts: PageTexts) -> tuple[PayerStatus | None, str]:
        """How it stands, and that as JSON; None when it can't be known now."""
        try:
            transaction = await self._context.store.transaction_by_page_token(token)
        except StoreUnavailable:
            return None, ""
        if transaction is None or transaction.order.page is None:
            return None, ""
        now = self._context.now()
        standing = payer_status(transaction, now=now)
        told: dict[str, str] = {"standing": standing}
        if standing is PayerStatus.OPEN:
            told["left"] = format_time_left(Span(transaction.order.page.closes_at - now), texts)
        return standing, json.dumps(told, ensure_ascii=False)
