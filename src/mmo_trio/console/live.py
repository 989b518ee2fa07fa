"""Tells open pages that something has happened. Each page and each event of the stream names the
state of the store that it knows, so that no gap between a page and a stream, or between two
streams, hides a change."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress

import trio
from quart import Response

from mmo_sansio.values.clock import HOUR, Instant, earlier, format_with_microseconds, later
from mmo_trio.console.context import ConsoleContext, console
from mmo_trio.console.sessions import current_user
from mmo_trio.http.asgi.web_app import stream_response
from mmo_trio.storage.interface.admin_types import CountQuery
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

# The lifetime of a stream; the browser then opens the next one, and a session that has ended ends
# it.
STREAM_LIFETIME_S = 30.0

# Seconds between two looks at the store, for all streams together. Each is an event: a page that
# hears nothing for longer says that it may be out of date.
CHECK_INTERVAL_S = 2.0


async def stream_events() -> Response:
    """Send the state of the store as the id of an event, with the time, again and again."""
    context = console()
    streams, user = context.live_streams, current_user().actor
    if not streams.has_room_for(user) or context.closing.is_set():
        return Response("", 503, {"Retry-After": "30"})

    async def events() -> AsyncGenerator[bytes, None]:
        with streams.hold(user), suppress(StoreUnavailable, OutcomeUnknown):
            ends_at = trio.current_time() + STREAM_LIFETIME_S
            yield b"retry: 1000\n\n"
            while trio.current_time() < ends_at and not context.closing.is_set():
                state = await store_state(context)
                shown_at = format_with_microseconds(context.wall_time())
                yield f"id: {state}\ndata: {shown_at}\n\n".encode()
                with trio.move_on_after(CHECK_INTERVAL_S):
                    await context.closing.wait()

    return stream_response(events())


async def store_state(context: ConsoleContext) -> str:
    """Return what differs after a payment was created or has ended, a callback was sent, a report
    came into the suspense book, or a user has acted; it is the same in every process."""
    known, at_s = context.known_state, trio.current_time()
    if at_s >= known.at_s + CHECK_INTERVAL_S:
        admin, now = context.store.admin, context.wall_time()
        begin = Instant(now - now % HOUR)
        counts = await admin.count_payments(
            CountQuery(HOUR, earlier(begin, HOUR), later(begin, HOUR)), by=None
        )
        callback = max((attempt.at for attempt in await admin.callbacks(limit=1)), default=0)
        entry = max(
            (suspense_entry.id for suspense_entry in await admin.suspense_entries(limit=1)),
            default=0,
        )
        changes = sum(count.count for count in counts)
        known.text = (
            f"{begin // HOUR}-{changes}-{(await admin.audit_head()).number}-{callback}-{entry}"
        )
        known.at_s = at_s

    return known.text
