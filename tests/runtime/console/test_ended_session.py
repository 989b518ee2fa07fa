"""The end of a session loses neither where a user was going nor what was typed; and nothing is done
by itself."""

from __future__ import annotations

import html
import re
from urllib.parse import quote, unquote

import pytest

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded
from mmo_sansio.values.clock import Instant
from tests.support.console_browser import PASSWORD, ConsoleBrowser, open_store_of, record
from tests.support.merchant import Answer
from tests.support.sandbox_gateway import Running

NOTE = 'called "Wanjiru" <back>, she has her money'


def form_action(page: Answer) -> str:
    """The path of the form to sign in."""
    found = re.search(r'<form method="post" action="([^"]*)"', page.body.decode())
    assert found is not None
    return html.unescape(found[1])


def typed(page: Answer) -> str:
    """What the form to sign in has of another form."""
    found = re.search(r'name="typed" value="([^"]*)"', page.body.decode())
    return "" if found is None else found[1]


async def record_entry(sandbox: Running) -> None:
    """Put entry 1 into the suspense book."""
    entry = SuspenseRecorded(Instant(1), SuspenseReason.LATE_RESULT, "sandbox", "{}", None, None)
    await record(sandbox, entry)


async def test_the_sign_in_leads_to_where_one_was_going(person: ConsoleBrowser) -> None:
    for path in (
        "/payments?brand=demo&status=failed",
        "/payments/01JD0000000000000000000000",
        "/suspense",
    ):
        person.cookies = {}
        interrupted = await person.get(path)
        assert (interrupted.status, unquote(interrupted.headers["location"])) == (
            303,
            f"/sign-in?to={path}",
        )
        page = await person.get(interrupted.headers["location"])
        assert f"<code>{html.escape(path)}</code>" in page.body.decode()
        wrong = await person.post(form_action(page), name="ada", password="wrong horse battery")
        assert (wrong.status, form_action(wrong)) == (403, form_action(page))
        assert b'value="ada"' in wrong.body
        signed_in = await person.post(form_action(wrong), name="ada", password=PASSWORD)
        assert (signed_in.status, signed_in.headers["location"]) == (303, path)


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "",
        "x",
    ],
)
async def test_the_sign_in_leads_nowhere_else(person: ConsoleBrowser, elsewhere: str) -> None:
    page = await person.get(f"/sign-in?to={quote(elsewhere, safe='')}")
    assert b"you come back to" not in page.body
    answer = await person.post(
        f"/sign-in?to={quote(elsewhere, safe='')}", name="ada", password=PASSWORD
    )
    assert answer.headers["location"] == "/"


async def test_a_form_after_the_end_of_a_session_comes_back_filled_and_is_not_sent(
    sandbox: Running, sam: ConsoleBrowser
) -> None:
    await record_entry(sandbox)
    book = await sam.get("/suspense?show=all")
    assert b">Close entry 1</button>" in book.body
    await sandbox.advance("31m")
    asked = await sam.post("/suspense/1/close", note=NOTE, from_page="/suspense?show=all")
    assert asked.status == 403
    text = asked.body.decode()
    said = "Your session has ended. Nothing was sent; what you have typed comes back with the form."
    assert said in text
    assert "<code>/suspense?show=all</code>" in text
    assert NOTE not in html.unescape(text)
    wrong = await sam.post(
        form_action(asked), name="sam", password="wrong horse battery", typed=typed(asked)
    )
    again = await sam.post(form_action(wrong), name="sam", password=PASSWORD, typed=typed(wrong))
    place = again.headers["location"]
    assert place.startswith("/suspense?show=all&typed=")
    page = await sam.text(place)
    assert f'value="{html.escape(NOTE).replace("&quot;", "&#34;")}"' in page
    assert "Your session had ended, and nothing was sent." in page
    assert (await sam.get(f"/search/{place.rpartition('=')[2]}")).status == 404
    async with open_store_of(sandbox.directory) as store:
        assert [each.closed_at for each in await store.admin.suspense_entries()] == [None]
    assert await sam.send("/suspense/1/close", note=NOTE) == 303


async def test_a_changed_configuration_comes_back_field_by_field(
    sandbox: Running, ann: ConsoleBrowser
) -> None:
    place = "/brands/demo/configuration"
    before = await ann.text(place)
    [flow] = re.findall(r'<input type="checkbox" name="(0[^"]*)" checked>', before)[:1]
    await sandbox.advance("31m")
    fields = {
        "version": "0" * 64,
        "pending_payments": "12",
        "reason": "a quiet week",
        "from_page": place,
    }
    asked = await ann.post(place, **fields)
    again = await ann.post(form_action(asked), name="ann", password=PASSWORD, typed=typed(asked))
    page = await ann.text(again.headers["location"])
    assert f'<input type="checkbox" name="{flow}">' in page
    assert 'value="12"' in page
    assert 'value="a quiet week"' in page
    # The version on which the change was made stays, so that it overwrites no later one.
    assert f'name="version" value="{"0" * 64}"' in page


async def test_only_its_user_gets_what_was_typed(sandbox: Running, sam: ConsoleBrowser) -> None:
    await record_entry(sandbox)
    await sam.get("/suspense")
    await sandbox.advance("31m")
    asked = await sam.post("/suspense/1/close", note=NOTE, from_page="/suspense")
    ann = await sam.post(form_action(asked), name="ann", password=PASSWORD, typed=typed(asked))
    assert ann.headers["location"] == "/suspense"
    for forged in ("AAAA", "é", typed(asked)[:-8]):
        await sam.get("/sign-in")
        answer = await sam.post("/sign-in", name="sam", password=PASSWORD, typed=forged)
        assert answer.headers["location"] == "/"
    assert b"had ended" not in (await sam.get("/suspense?typed=nothing")).body


async def test_a_form_of_another_site_is_not_taken_for_the_users(
    sandbox: Running, sam: ConsoleBrowser
) -> None:
    await sandbox.advance("31m")
    forged = await sam.post("/suspense/1/close", note=NOTE, form_token="0" * 64)
    assert (forged.status, typed(forged)) == (403, "")


async def test_no_password_and_no_code_is_kept(sandbox: Running, sam: ConsoleBrowser) -> None:
    await sam.get("/second-factor")
    await sandbox.advance("31m")
    asked = await sam.post("/second-factor/enrol", password=PASSWORD, from_page="/second-factor")
    assert (asked.status, asked.headers["location"]) == (303, "/sign-in?to=/second-factor")


async def test_after_an_act_the_next_page_says_once_what_it_has_done(
    sandbox: Running, sam: ConsoleBrowser
) -> None:
    await record_entry(sandbox)
    await sam.get("/suspense")
    closed = await sam.post("/suspense/1/close", note=NOTE)
    sam.headers = {"X-Live": "1"}
    assert b"Entry 1 is closed." not in (await sam.get("/payments")).body
    sam.headers = {}
    page = (await sam.get(closed.headers["location"])).body
    assert re.search(rb'role="status">.*Entry 1 is closed\.', page)
    assert b"Entry 1 is closed." not in (await sam.get("/suspense")).body
