"""Open pages learn here that something has happened (server-sent events), so that they load themselves again."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import trio
from quart import Blueprint, Response

from mmo_sansio.values.clock import HOUR, Instant, earlier, later
from mmo_trio.console.context import ConsoleContext, console
from mmo_trio.storage.interface.admin_types import CountQuery
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

STREAM_LIFETIME_S = 30.0
"""The lifetime of a stream; the browser then opens the next one, and a session that has ended ends it."""
STREAMS_MAX = 100
"""Limit on concurrent streams of a process; pages without one stay as they are."""
CHECK_INTERVAL_S = 2.0

pages = Blueprint("live", __name__)


@pages.get("/events")
async def stream_events() -> Response:
    """Send an event whenever payments were created or ended, or a user has done something."""
    context = console()
    streams = context.live_streams
    if streams.count >= STREAMS_MAX or context.closing.is_set():
        return Response("", 503, {"Retry-After": "30"})

    async def events() -> AsyncGenerator[bytes, None]:
        streams.count += 1
        try:
            last, ends_at = await _fingerprint(context), trio.current_time() + STREAM_LIFETIME_S
            yield b"retry: 5000\n\n"
            while trio.current_time() < ends_at and not context.closing.is_set():
                with trio.move_on_after(CHECK_INTERVAL_S):
                    await context.closing.wait()
                now = await _fingerprint(context)
                if now != last:
                    last = now
                    yield b"data: changed\n\n"
        except (StoreUnavailable, OutcomeUnknown):
            return
        finally:
            streams.count -= 1

    response = Response(events(), content_type="text/event-stream")
    response.timeout = None
    return response


async def _fingerprint(context: ConsoleContext) -> tuple[object, ...]:
    """Return what differs after a payment was created or ended, and after a user has acted."""
    admin, now = context.store.admin, context.now()
    begin = Instant(now - now % HOUR)
    counts = await admin.count_payments(CountQuery(HOUR, earlier(begin, HOUR), later(begin, HOUR)), by=None)
    return frozenset(counts), (await admin.audit_head()).number
