"""Open pages learn of what happens, and do not keep the session of a user who has left."""

from __future__ import annotations

import re

import pytest
import trio

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, SuspenseReason, SuspenseRecorded
from mmo_sansio.values.clock import Instant
from mmo_trio.http.asgi.web_app import OpenStreams
from tests.runtime.console.conftest import SignedIn
from tests.support.console_browser import ConsoleBrowser, record
from tests.support.merchant import Answer
from tests.support.sandbox_gateway import Running

STATE_OF_PAGE = re.compile(rb'data-live="([^"]+)"')


def states(stream: Answer) -> list[bytes]:
    """The different states of the store that the events of a stream name."""
    return list(dict.fromkeys(re.findall(rb"^id: (.+)$", stream.body, re.MULTILINE)))


async def test_an_event_tells_that_payments_were_created(
    sandbox: Running, vera: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.console.live.STREAM_LIFETIME_S", 0.3)
    monkeypatch.setattr("mmo_trio.console.live.CHECK_INTERVAL_S", 0.05)
    quiet = await vera.get("/events")
    assert quiet.headers["content-type"].startswith("text/event-stream")
    assert len(states(quiet)) == 1
    answers: list[Answer] = []

    async def listen() -> None:
        answers.append(await vera.get("/events"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        while not answers:
            assert (await sandbox.merchant.create("direct/payin")).status == 200
    assert len(states(answers[0])) > 1


async def test_no_gap_between_a_page_and_a_stream_hides_a_change(
    sandbox: Running, vera: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.console.live.STREAM_LIFETIME_S", 0.1)
    monkeypatch.setattr("mmo_trio.console.live.CHECK_INTERVAL_S", 0.01)
    for path in ("/payments", "/", "/stuck", "/callbacks", "/reversals", "/providers"):
        [shown] = STATE_OF_PAGE.findall((await vera.get(path)).body)
        assert states(await vera.get("/events")) == [shown], path
    assert (await sandbox.merchant.create("direct/payin")).status == 200
    assert shown not in states(await vera.get("/events"))


async def test_a_report_in_the_suspense_book_and_the_end_of_a_callback_are_news_too(
    sandbox: Running, vera: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.console.live.CHECK_INTERVAL_S", 0.0)
    attempt = DeliveryAttempt(DeliveryOutcome.TIMEOUT, "https://shop.example/", None, 30_000, "")
    seen = STATE_OF_PAGE.findall((await vera.get("/callbacks")).body)
    for change in (
        SuspenseRecorded(Instant(1), SuspenseReason.LATE_RESULT, "sandbox", "{}", None, None),
        CallbackRecorded("01JD0000000000000000000000", "demo", attempt, Instant(2)),
    ):
        await record(sandbox, change)
        [now] = STATE_OF_PAGE.findall((await vera.get("/callbacks")).body)
        assert now not in seen
        seen.append(now)


async def test_events_are_for_users_and_end_where_there_are_too_many(
    person: ConsoleBrowser, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await person.get("/events")).status == 303
    monkeypatch.setattr(OpenStreams, "has_room_for", lambda *_: False)
    assert (await (await signed_in("vera")).get("/events")).status == 503


def test_a_user_with_many_streams_leaves_room_to_others() -> None:
    streams = OpenStreams(limit=3, limit_each=2)
    with streams.hold("vera"):
        assert streams.has_room_for("vera")
        with streams.hold("vera"):
            assert not streams.has_room_for("vera")
            assert streams.has_room_for("ada")
            with streams.hold("ada"):
                assert not streams.has_room_for("sam")
        assert streams.has_room_for("vera")


@pytest.mark.parametrize(
    ("path", "headers"), [("/payments?refresh=1", {}), ("/payments", {"X-Live": "1"})]
)
async def test_a_page_that_reloads_itself_does_not_keep_the_session(
    sandbox: Running, vera: ConsoleBrowser, path: str, headers: dict[str, str]
) -> None:
    vera.headers = headers
    assert (await vera.get(path)).status == 200
    await sandbox.advance("20m")
    assert (await vera.get(path)).status == 200
    await sandbox.advance("11m")
    assert (await vera.get(path)).status == 303


async def test_only_who_asks_for_it_gets_a_page_that_reloads_itself(vera: ConsoleBrowser) -> None:
    assert b'http-equiv="refresh"' not in (await vera.get("/payments")).body
    refreshed = '<noscript><meta http-equiv="refresh" content="30"></noscript>'
    assert refreshed in await vera.text("/payments?refresh=1")
