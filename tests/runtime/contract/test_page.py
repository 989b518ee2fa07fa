"""The hosted payment page of a web pay-in (clause W1), and the way back from it."""

from __future__ import annotations

import html

import pytest

from .conftest import Running, Serve
from .merchant import Answer, ask


def _text(answer: Answer) -> str:
    return html.unescape(answer.body.decode())


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
    assert "KES\u00a0150.00" in _text(page)
    assert "<button" in _text(page)
    other = await ask(accepted["pageUrl"] + "x")
    assert other.status == 404


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
    assert (await sandbox.callback_for(reference)).transaction["errorCode"] == "user_timeout"

    assert (await _press(page_url)).status == 303
    assert (await sandbox.merchant.status(reference)) == failed


@pytest.mark.spec("W1")
async def test_a_payment_that_was_submitted_does_not_end_with_its_page(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", scenario="never")
    await _press(accepted["pageUrl"])
    await sandbox.advance("1h")
    assert (await sandbox.merchant.status(accepted["gatewayReference"]))["status"] == "pending"


@pytest.mark.spec("W1")
@pytest.mark.parametrize(("session", "open_for", "then"), [("5m", "4m", "1m"), ("4h", "3h", "1h")])
async def test_the_lifetime_is_a_setting(
    serve: Serve, session: str, open_for: str, then: str
) -> None:
    async with serve(environment={"MMO_LIMITS_PAGE_SESSION": session}) as sandbox:
        accepted = await sandbox.merchant.accepted("web/payin")
        await sandbox.advance(open_for)
        assert "<button" in _text(await ask(accepted["pageUrl"]))
        await sandbox.advance(then)
        failed = await sandbox.merchant.status(accepted["gatewayReference"])
        assert failed["errorCode"] == "user_timeout"


@pytest.mark.spec("W1", "S3")
async def test_without_a_lifetime_the_page_lives_as_long_as_the_payment_is_pending(
    serve: Serve,
) -> None:
    async with serve(environment={"MMO_LIMITS_PAGE_SESSION": "off"}) as sandbox:
        accepted = await sandbox.merchant.accepted("web/payin")
        await sandbox.advance("71h")
        assert "<button" in _text(await ask(accepted["pageUrl"]))
        await sandbox.advance("1h")
        failed = await sandbox.merchant.status(accepted["gatewayReference"])
        assert failed["errorCode"] == "transaction_expired"


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("success", "https://shop.example/thanks?o=1"),
        ("cancelled", "https://shop.example/sorry?o=1"),
    ],
)
async def test_after_completion_the_browser_goes_where_the_merchant_said(
    sandbox: Running, scenario: str, expected: str
) -> None:
    accepted = await sandbox.merchant.accepted(
        "web/payin",
        scenario=scenario,
        successRedirectUrl="https://shop.example/thanks?o=1",
        errorRedirectUrl="https://shop.example/sorry?o=1",
    )
    assert (await ask(accepted["pageUrl"])).status == 200
    await _press(accepted["pageUrl"])
    await sandbox.merchant.ended(accepted["gatewayReference"])
    page = await ask(accepted["pageUrl"])
    assert (page.status, page.headers["location"]) == (303, expected)
