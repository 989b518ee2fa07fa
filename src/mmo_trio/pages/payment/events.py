"""How a payment stands for its payer, and telling it as it changes (server-sent events)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from enum import StrEnum

import trio
from quart import Response

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Stage, Transaction
from mmo_trio.pages.context import Desk
from mmo_trio.pages.payment.formatting import time_written
from mmo_trio.pages.payment.languages.texts import Texts
from mmo_trio.storage.interface.store import StoreUnavailable

STREAM_S = 30.0
"""How long a stream lasts before the browser asks for the next one."""
STREAMS_MAX = 500
"""Streams at one time; whoever finds no room looks by itself."""


class Standing(StrEnum):
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


_STANDINGS = {
    Stage.CREATED: Standing.SENDING,
    Stage.SUBMITTING: Standing.SENDING,
    Stage.AWAITING_RESULT: Standing.WAITING,
    Stage.SUCCEEDED: Standing.PAID,
    Stage.FAILED: Standing.FAILED,
}

PAUSES_S = {Standing.OPEN: 2.0, Standing.SENDING: 0.5, Standing.WAITING: 0.5}
"""Between two looks. Most pages wait for their button, and nobody sees that they look rarely."""


def standing_of(transaction: Transaction, *, now: Instant) -> Standing:
    """How it stands now."""
    page = transaction.order.page
    if transaction.progress.stage is not Stage.AWAITING_CUSTOMER or page is None:
        return _STANDINGS[transaction.progress.stage]
    return Standing.CLOSED if now >= page.closes_at else Standing.OPEN


class Following:
    """The streams of all pages that are open."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._streams = 0

    def response(self, token: str, texts: Texts) -> Response:
        """A stream for this page, or 503 when there are too many."""
        if self._streams >= STREAMS_MAX or self._desk.closing.is_set():
            return Response("", 503, {"Retry-After": "5"})
        response = Response(self._stream(token, texts), content_type="text/event-stream")
        response.timeout = None
        return response

    async def _stream(self, token: str, texts: Texts) -> AsyncGenerator[bytes, None]:
        """One event for each change, the first at once; nothing in it but what the page shows."""
        self._streams += 1
        try:
            last, until = "", trio.current_time() + STREAM_S
            yield b"retry: 1000\n\n"
            while trio.current_time() < until and not self._desk.closing.is_set():
                standing, told = await self._told(token, texts)
                if standing is None:
                    return
                pause_s = PAUSES_S.get(standing, PAUSES_S[Standing.OPEN])
                if told != last:
                    last = told
                    yield f"data: {told}\n\n".encode()
                with trio.move_on_after(pause_s):
                    await self._desk.closing.wait()
        finally:
            self._streams -= 1

    async def _told(self, token: str, texts: Texts) -> tuple[Standing | None, str]:
        """How it stands, and that as JSON; None when it can't be known now."""
        try:
            transaction = await self._desk.store.transaction_by_page_token(token)
        except StoreUnavailable:
            return None, ""
        if transaction is None or transaction.order.page is None:
            return None, ""
        now = self._desk.now()
        standing = standing_of(transaction, now=now)
        told: dict[str, str] = {"standing": standing}
        if standing is Standing.OPEN:
            told["left"] = time_written(transaction.order.page.closes_at - now, texts)
        return standing, json.dumps(told, ensure_ascii=False)
