"""Open pages learn here that something has happened (server-sent events), so that they load themselves again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress

import trio
from quart import Blueprint, Response

from mmo_sansio.values.clock import HOUR, Instant, earlier, later
from mmo_trio.console.context import ConsoleContext, console
from mmo_trio.console.sessions import current_user
from mmo_trio.storage.interface.admin_types import CountQuery
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

STREAM_LIFETIME_S = 30.0
"""The lifetime of a stream; the browser then opens the next one, and a session that has ended ends it."""
CHECK_INTERVAL_S = 2.0
"""Seconds between two looks at the store, for all streams together."""

pages = Blueprint("live", __name__)


@pages.get("/events")
async def stream_events() -> Response:
    """Send an event whenever payments were created or ended, or a user has done something."""
    context = console()
    streams, user = context.live_streams, current_user().actor
    if not streams.has_room_for(user) or context.closing.is_set():
        return Response("", 503, {"Retry-After": "30"})

    async def events() -> AsyncGenerator[bytes, None]:
        with streams.hold(user), suppress(StoreUnavailable, OutcomeUnknown):
            last, ends_at = await _fingerprint(context), trio.current_time() + STREAM_LIFETIME_S
            yield b"retry: 5000\n\n"
            while trio.current_time() < ends_at and not context.closing.is_set():
                with trio.move_on_after(CHECK_INTERVAL_S):
                    await context.closing.wait()
                now = await _fingerprint(context)
                if now != last:
                    last = now
                    yield b"data: changed\n\n"

    response = Response(events(), content_type="text/event-stream")
    response.timeout = None
    return response


async def _fingerprint(context: ConsoleContext) -> object:
    """Return what differs after a payment was created or ended, and after a user has acted."""
    known = context.fingerprint
    if trio.current_time() >= known.at_s + CHECK_INTERVAL_S:
        known.at_s, known.found = trio.current_time(), await _look(context)
    return known.found


async def _look(context: ConsoleContext) -> object:
    admin, now = context.store.admin, context.now()
    begin = Instant(now - now % HOUR)
    counts = await admin.count_payments(CountQuery(HOUR, earlier(begin, HOUR), later(begin, HOUR)), by=None)
    return frozenset(counts), (await admin.audit_head()).number
