"""The hosted payment page of a web pay-in (clause W1), and the way back from it."""

from __future__ import annotations

import gzip
import html
import re
from urllib.parse import urlsplit

import pytest
import trio

from mmo_sansio.messages.changes import JournalEntry, SuspenseReason, SuspenseRecorded
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.values.clock import Instant
from mmo_trio.pages.payment.page import STREAMS_PER_PAGE_MAX
from tests.support.console_browser import open_store_of
from tests.support.merchant import TIMEOUT_S, Answer, ask
from tests.support.sandbox_gateway import Running, Serve


def _text(answer: Answer) -> str:
    return html.unescape(answer.body.decode())


def _told(page: str) -> list[str]:
    """Return what the live region says, line by line."""
    [live] = re.findall(r'<div role="status" aria-live="polite".*?>(.*?)</div>', page, re.S)
    lines = re.sub(r"<(?!/?(?:h1|p)\b).*?>", "", live)
    return [each.strip() for each in re.findall(r"<(?:h1|p).*?>(.*?)</", lines, re.S)]


async def _press(page_url: str) -> Answer:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    return await ask(page_url, method="POST", headers=form, body=b"")


@pytest.mark.spec("W1", "C4")
async def test_page_url_opens_the_page_of_that_transaction(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted("web/payin")
    assert accepted["pageOpenMode"] == "redirect"
    assert accepted["pageUrl"].startswith(f"{sandbox.ready.pages}/")
    page = await ask(accepted["pageUrl"])
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "KES 150.00" in _text(page)
    assert "<button" in _text(page)
    other = await ask(accepted["pageUrl"] + "x")
    assert other.status == 404


async def test_an_address_that_no_page_has_is_answered_by_a_page_of_ours(sandbox: Running) -> None:
    for method, path, status in (("GET", "/nothing-here", 404), ("POST", "/docs", 405)):
        page = await ask(f"{sandbox.ready.pages}{path}", method=method, body=b"")
        assert page.status == status
        assert '<link rel="stylesheet" href="/design.css' in _text(page)
        assert "allow" in page.headers or status == 404


@pytest.mark.spec("W1")
async def test_looking_at_the_page_pays_nothing_and_its_button_pays_once(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", scenario="slow")
    reference, page_url = accepted["gatewayReference"], accepted["pageUrl"]
    await ask(page_url)
    assert (await sandbox.merchant.status(reference))["providerData"] is None

    for _ in range(2):
        pressed = await _press(page_url)
        assert pressed.status == 303
        location = pressed.headers["location"]
        assert f"{sandbox.ready.pages}{location}" == f"{page_url}?pressed=1"
    assert "<button" not in _text(await ask(page_url))
    await sandbox.advance("10s")
    assert (await sandbox.merchant.status(reference))["status"] == "success"
    assert "Paid" in _text(await ask(page_url))


@pytest.mark.spec("W1", "E1", "S2")
async def test_after_30_minutes_the_page_says_so_and_the_payment_has_failed_with_user_timeout(
    sandbox: Running,
) -> None:
    accepted = await sandbox.merchant.accepted("web/payin")
    reference, page_url = accepted["gatewayReference"], accepted["pageUrl"]
    await sandbox.advance("29m")
    assert "<button" in _text(await ask(page_url))
    await sandbox.advance("1m")

    page = _text(await ask(page_url))
    assert "<button" not in page
    assert "Not paid" in page
    failed = await sandbox.merchant.status(reference)
    assert (failed["status"], failed["errorCode"]) == ("failed", "user_timeout")
    assert failed["completionSource"] == "expiry"
    assert failed["providerData"] is None
    assert (await sandbox.callback_for(reference)).content["errorCode"] == "user_timeout"

    assert (await _press(page_url)).status == 303
    assert (await sandbox.merchant.status(reference)) == failed


@pytest.mark.spec("W1")
async def test_a_payment_that_was_submitted_does_not_end_with_its_page(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", scenario="never")
    await _press(accepted["pageUrl"])
    await sandbox.advance("1h")
    assert (await sandbox.merchant.status(accepted["gatewayReference"]))["status"] == "pending"


@pytest.mark.spec("W1", "S3")
async def test_a_setting_lets_the_page_live_as_long_as_the_payment_is_pending(
    serve: Serve,
) -> None:
    async with serve(environment={"MMO_LIMITS_PAGE_SESSION": "off"}) as sandbox:
        accepted = await sandbox.merchant.accepted("web/payin")
        await sandbox.advance("71h")
        assert "<button" in _text(await ask(accepted["pageUrl"]))
        await sandbox.advance("1h")
        failed = await sandbox.merchant.status(accepted["gatewayReference"])
        assert failed["errorCode"] == "transaction_expired"


@pytest.mark.spec("W1", "E1")
@pytest.mark.parametrize(
    ("scenario", "standing", "told", "then"),
    [
        (
            "cancelled",
            "failed",
            ["Not paid", "No money was taken.", "You cancelled the payment."],
            "You can try again: go back to the shop.",
        ),
        (
            "user_account_blocked",
            "failed",
            ["Not paid", "No money was taken.", "Your account can't be used at the moment."],
            "Trying again will not help. Ask your mobile money provider, or pay another way.",
        ),
        (
            "insufficient_funds",
            "failed",
            ["Not paid", "No money was taken.", "There is not enough money in your account."],
            "Add money to your account, then start again in the shop.",
        ),
        (
            "provider_timeout",
            "unclear",
            ["It is not clear whether you paid", "The mobile money service took too long."],
            "Look at the messages on your phone. Don't pay again: the shop will tell you.",
        ),
    ],
)
async def test_the_page_has_three_endings(
    sandbox: Running, scenario: str, standing: str, told: list[str], then: str
) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", scenario=scenario)
    page_url = accepted["pageUrl"]
    await _press(page_url)
    await sandbox.merchant.ended(accepted["gatewayReference"])
    page = _text(await ask(page_url))
    assert f'data-standing="{standing}"' in page
    assert _told(page) == [*told, then], "a screen reader is told all of it"
    [title] = re.findall(r"<title>(.*?)</title>", page, re.S)
    assert title.startswith(told[0])

    await sandbox.advance("91m")
    later = _text(await ask(page_url))
    assert _told(later) == [*told, then]
    if standing == "unclear":
        for each in (page, later):
            assert "Not paid" not in each
            assert "No money was taken" not in each
            assert "try again" not in each
            assert accepted["gatewayReference"] in each.replace("<wbr>", ""), "what one can quote"
            assert "<title>It is not clear" in each
            assert "Pay KES" not in each, "not even the title asks for the money again"
            assert 'class="result neutral"' in each
            assert 'class="result bad"' not in each


@pytest.mark.spec("W1", "S5", "E1")
async def test_a_failure_that_the_operator_contradicts_is_not_said_to_be_unpaid(
    sandbox: Running,
) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", scenario="cancelled")
    reference, page_url = accepted["gatewayReference"], accepted["pageUrl"]
    await _press(page_url)
    await sandbox.merchant.ended(reference)
    assert "No money was taken." in _text(await ask(page_url))

    async with open_store_of(sandbox.directory) as store:
        report = SuspenseRecorded(
            Instant(1),
            SuspenseReason.CONFLICTING_RESULT,
            "sandbox",
            '{"result": "success"}',
            reference,
            None,
        )
        line = JournalEntry(
            Instant(1), "ProviderSucceeded", "provider:sandbox", reference, None, None, None, "{}"
        )
        await store.transact(Reads(), lambda _: (Decision(Ignored("late"), (report, line)),))

    # The payer's page, and the tour of the sandbox, which shows it beside the phone.
    for url in (page_url, f"{sandbox.ready.pages}/try/{reference}"):
        page = _text(await ask(url))
        assert "It is not clear whether you paid" in _told(page)
        assert "Don't pay again" in page
        assert "No money was taken" not in page
        assert reference in page.replace("<wbr>", "")


@pytest.mark.spec("W1", "S3", "E1")
async def test_a_payment_that_has_expired_is_not_said_to_be_unpaid(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", scenario="never")
    await _press(accepted["pageUrl"])
    await sandbox.advance("73h")
    assert (await sandbox.merchant.status(accepted["gatewayReference"]))[
        "errorCode"
    ] == "transaction_expired"
    page = _text(await ask(accepted["pageUrl"]))
    assert _told(page)[:2] == ["It is not clear whether you paid", "No answer came in time."]
    assert "Don't pay again" in page

    # Neither does the virtual phone say so, beside it.
    tour = await ask(f"{sandbox.ready.pages}/try/{accepted['gatewayReference']}")
    assert "Nothing was paid" not in _text(tour)


HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@pytest.mark.spec("W3")
async def test_every_page_has_its_headers_and_no_cookie(sandbox: Running) -> None:
    page_url = (await sandbox.merchant.accepted("web/payin", scenario="phone"))["pageUrl"]
    pages, html = sandbox.ready.pages, "text/html; charset=utf-8"
    for url, content_type, kept in (
        (page_url, html, "no-store"),
        (f"{page_url}?lang=ar", html, "no-store"),
        (f"{pages}/pay/guessed", html, "no-store"),
        (f"{pages}/", html, "no-store"),
        (f"{pages}/phone", html, "no-store"),
        (f"{pages}/phone/254700000180", html, "no-store"),
        (f"{pages}/design.css", "text/css; charset=utf-8", "public, max-age=31536000, immutable"),
        (f"{pages}/static/payment.js", "text/javascript; charset=utf-8", "public, max-age=3600"),
    ):
        answer = await ask(url)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, url
        assert answer.headers["content-type"] == content_type, url
        assert answer.headers["cache-control"] == kept, url
        assert "set-cookie" not in answer.headers, url
    pressed = await _press(page_url)
    assert {name: pressed.headers.get(name) for name in HEADERS} == HEADERS
    assert "set-cookie" not in pressed.headers


@pytest.mark.spec("W1")
async def test_the_script_is_compressed_for_browsers_that_can_read_it(sandbox: Running) -> None:
    url = f"{sandbox.ready.pages}/static/payment.js"
    plain, packed = await ask(url), await ask(url, headers={"Accept-Encoding": "gzip, br"})
    assert "content-encoding" not in plain.headers
    assert (packed.headers["content-encoding"], packed.headers["vary"]) == (
        "gzip",
        "Accept-Encoding",
    )
    assert gzip.decompress(packed.body) == plain.body
    assert (await ask(url, headers={"If-None-Match": packed.headers["etag"]})).status == 304


@pytest.mark.spec("W3")
async def test_a_token_cant_be_guessed_and_a_guess_learns_nothing(sandbox: Running) -> None:
    urls = [(await sandbox.merchant.accepted("web/payin"))["pageUrl"] for _ in range(50)]
    tokens = [url.rpartition("/")[2] for url in urls]
    assert len(set(tokens)) == 50
    assert {len(each) for each in tokens} == {32}, "192 bits"
    assert len({each[:8] for each in tokens}) == 50, "nothing of it counts up"
    reference = (await sandbox.merchant.accepted("web/payin"))["gatewayReference"]
    assert not any(reference in url for url in urls)

    token, pages = tokens[0], sandbox.ready.pages
    guesses = (token[:-1], token + "A", token.swapcase(), reference, "x" * 5000, "%00", "é")
    answers = [await ask(f"{pages}/pay/{guess.replace('é', '%C3%A9')}") for guess in guesses]
    answers += [await ask(f"{pages}/pay/{token[:-1]}/events")]
    answers += [await _press(f"{pages}/pay/{token[:-1]}")]
    assert {each.status for each in answers} == {404}
    assert len({each.body for each in answers}) == 1
    assert b"KES" not in answers[0].body


@pytest.mark.spec("W3")
async def test_a_page_shows_only_what_the_payer_needs(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted(
        "web/payin",
        payer={
            "id": "customer-secret-7",
            "msisdn": "254712345678",
            "firstName": "Wanjiku",
            "lastName": "Kamau",
            "email": "w@example.com",
        },
        labels={"margin": "12-percent"},
        merchantReference="internal-order-9",
    )
    page = _text(await ask(accepted["pageUrl"]))
    assert "+254 ••• ••• 678" in page
    for hidden in (
        "254712345678", "customer-secret-7", "Wanjiku", "Kamau", "w@example.com", "12-percent",
        "internal-order-9", accepted["gatewayReference"], sandbox.merchant.result_url,
    ):  # fmt: skip
        assert hidden not in page


@pytest.mark.spec("W3", "W1")
async def test_an_address_that_is_found_later_tells_nothing_but_the_shop_to_turn_to(
    sandbox: Running,
) -> None:
    paid = await sandbox.merchant.accepted("web/payin")
    left = await sandbox.merchant.accepted("web/payin")
    await _press(paid["pageUrl"])
    await sandbox.advance("31m")
    for accepted in (paid, left):
        page = _text(await ask(accepted["pageUrl"]))
        assert "KES 150.00" in page, "for an hour it tells what has come of the payment"
    await sandbox.advance("60m")
    for accepted, told, shops in ((paid, "Paid", 0), (left, "Not paid", 1)):
        page = _text(await ask(accepted["pageUrl"]))
        assert _told(page)[0] == told
        shown = page.partition("<main>")[2].partition("</main>")[0]
        assert shown.count("Demo Shop") == shops, (
            "a payer who has not paid learns where to try again"
        )
        for hidden in ("KES", "150", "254", "678", "Sandbox", "Payment page of"):
            assert hidden not in page


@pytest.mark.spec("W3", "W1")
async def test_a_payment_without_a_known_result_leads_back_to_its_shop(sandbox: Running) -> None:
    urls = {"errorRedirectUrl": "https://shop.example/failed?order=9"}
    unclear = await sandbox.merchant.accepted("web/payin", scenario="never", **urls)
    await _press(unclear["pageUrl"])
    await sandbox.advance("74h")
    answer = await ask(f"{unclear['pageUrl']}?pressed=1")
    assert "Demo Shop" in _text(answer)
    assert 'href="https://shop.example/"' in _text(answer)


@pytest.mark.spec("W2")
@pytest.mark.parametrize(
    ("scenario", "name", "url"),
    [
        ("success", "successRedirectUrl", "https://shop.example/thanks?a=1&a=2&b=%2F%2f#done"),
        ("success", "successRedirectUrl", "https://SHOP.example:8443/%7Euser/../a//b/./"),
        ("cancelled", "errorRedirectUrl", "https://shop.example/;x=1/(a)'b'!*$,~@:?q='1'"),
        ("duplicate_request", "errorRedirectUrl", "http://shop.example"),
    ],
    ids=["paid", "paid, unusual", "not paid", "not known"],
)
async def test_the_way_back_is_exactly_as_given(
    sandbox: Running, scenario: str, name: str, url: str
) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", scenario=scenario, **{name: url})
    assert (await ask(accepted["pageUrl"])).status == 200
    await _press(accepted["pageUrl"])
    await sandbox.merchant.ended(accepted["gatewayReference"])
    answer = await ask(accepted["pageUrl"])
    assert (answer.status, answer.headers["location"]) == (303, url)


@pytest.mark.spec("W2")
async def test_the_buttons_answer_leads_on_by_a_page(sandbox: Running) -> None:
    # A browser doesn't let a form's answer lead to another origin, so a page of ours stands
    # between.
    url = "https://shop.example/thanks"
    accepted = await sandbox.merchant.accepted("web/payin", successRedirectUrl=url)
    await _press(accepted["pageUrl"])
    await sandbox.merchant.ended(accepted["gatewayReference"])
    late = await _press(accepted["pageUrl"])
    between = await ask(f"{sandbox.ready.pages}{late.headers['location']}")
    assert between.status == 200
    path = accepted["pageUrl"].removeprefix(sandbox.ready.pages)
    assert f'http-equiv="refresh" content="0;url={path}"' in _text(between)
    assert (await ask(accepted["pageUrl"])).headers["location"] == url


@pytest.mark.spec("W1")
@pytest.mark.parametrize(
    ("scenario", "standing"), [("cancelled", b"failed"), ("provider_timeout", b"unclear")]
)
async def test_the_state_is_told_as_it_changes_and_a_stop_ends_the_telling(
    serve: Serve, scenario: str, standing: bytes
) -> None:
    async with serve() as sandbox:
        accepted = await sandbox.merchant.accepted("web/payin", scenario=scenario)
        parts = urlsplit(accepted["pageUrl"])
        stream = await trio.open_tcp_stream(parts.hostname or "", parts.port or 80)
        head = f"GET {parts.path}/events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
        await stream.send_all(head.encode())
        said = b""

        async def until(word: bytes) -> None:
            nonlocal said
            with trio.fail_after(TIMEOUT_S):
                while word not in said:
                    more = await stream.receive_some()
                    assert more, said
                    said += more

        await until(b'"standing": "open"')
        assert b"text/event-stream" in said
        await _press(accepted["pageUrl"])
        await until(b'"standing": "%s"' % standing)
        assert b"KES" not in said
    # The sandbox has drained with the stream still open.


async def test_one_page_link_takes_no_more_than_its_share_of_the_streams(sandbox: Running) -> None:
    one, other = [(await sandbox.merchant.accepted("web/payin"))["pageUrl"] for _ in range(2)]
    streams = [await _open_stream(one) for _ in range(STREAMS_PER_PAGE_MAX)]
    assert (await ask(f"{one}/events")).status == 503
    streams.append(await _open_stream(other))
    await trio.aclose_forcefully(streams[0])
    with trio.fail_after(TIMEOUT_S):
        while (await ask(f"{one}/events", method="HEAD")).status != 200:
            pass
    for stream in streams:
        await trio.aclose_forcefully(stream)


async def _open_stream(page_url: str) -> trio.SocketStream:
    """An event stream of this page that has begun."""
    parts = urlsplit(page_url)
    stream = await trio.open_tcp_stream(parts.hostname or "", parts.port or 80)
    await stream.send_all(
        f"GET {parts.path}/events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
    )
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
    return stream


@pytest.mark.spec("W1", "E1")
@pytest.mark.parametrize(
    ("asked", "lang", "direction", "amount", "told"),
    [
        ("de, sw;q=0.4, en;q=0.3", "sw", "ltr", "KES 150.00", "Umeghairi malipo."),
        ("ar-EG", "ar", "rtl", "١٥٠٫٠٠ KES", "لقد ألغيت الدفع."),
        ("xx;q=broken,,", "en", "ltr", "KES 150.00", "You cancelled the payment."),
    ],
)
async def test_the_payers_language_is_spoken_to_the_end(
    sandbox: Running, asked: str, lang: str, direction: str, amount: str, told: str
) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", scenario="cancelled")
    headers = {"Accept-Language": asked}
    page = _text(await ask(accepted["pageUrl"], headers=headers))
    assert f'<html lang="{lang}" dir="{direction}">' in page
    assert f'<h1 class="amount">{amount}</h1>' in page
    await _press(accepted["pageUrl"])
    await sandbox.merchant.ended(accepted["gatewayReference"])
    assert told in _text(await ask(accepted["pageUrl"], headers=headers))
    assert "You cancelled" in _text(await ask(f"{accepted['pageUrl']}?lang=en", headers=headers))
