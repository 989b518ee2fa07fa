"""Open pages learn of what happens, and do not keep the session of a user who has left."""

from __future__ import annotations

import pytest
import trio

from mmo_trio.http.asgi.web_app import OpenStreams
from tests.runtime.console.conftest import SignedIn
from tests.support.console_browser import ConsoleBrowser
from tests.support.merchant import Answer
from tests.support.sandbox_gateway import Running


async def test_an_event_tells_that_payments_were_created(
    sandbox: Running, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.console.app.STREAM_LIFETIME_S", 0.3)
    monkeypatch.setattr("mmo_trio.console.app.CHECK_INTERVAL_S", 0.05)
    vera = await signed_in("vera")
    quiet = await vera.get("/events")
    assert quiet.headers["content-type"].startswith("text/event-stream")
    assert b"data:" not in quiet.body
    answers: list[Answer] = []

    async def listen() -> None:
        answers.append(await vera.get("/events"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        while not answers:
            assert (await sandbox.merchant.create("direct/payin")).status == 200
    assert b"data: changed\n\n" in answers[0].body


async def test_events_are_for_users_and_end_where_there_are_too_many(
    person: ConsoleBrowser, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await person.get("/events")).status == 303
    monkeypatch.setattr(OpenStreams, "has_room_for", lambda *_: False)
    assert (await (await signed_in("vera")).get("/events")).status == 503


@pytest.mark.finding("audit-10", "audit-4")
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


@pytest.mark.parametrize(("path", "headers"), [("/payments?refresh=1", {}), ("/payments", {"X-Live": "1"})])
async def test_a_page_that_reloads_itself_does_not_keep_the_session(
    sandbox: Running, signed_in: SignedIn, path: str, headers: dict[str, str]
) -> None:
    vera = await signed_in("vera")
    vera.headers = headers
    assert (await vera.get(path)).status == 200
    await sandbox.advance("20m")
    assert (await vera.get(path)).status == 200
    await sandbox.advance("11m")
    assert (await vera.get(path)).status == 303


async def test_only_who_asks_for_it_gets_a_page_that_reloads_itself(signed_in: SignedIn) -> None:
    vera = await signed_in("vera")
    assert b'http-equiv="refresh"' not in (await vera.get("/payments")).body
    assert (
        b'<noscript><meta http-equiv="refresh" content="30"></noscript>' in (await vera.get("/payments?refresh=1")).body
    )
